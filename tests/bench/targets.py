"""What is measured: Redis itself, and proxies before it. Knows how to start them, no more."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.processes import START_TIMEOUT_S, attempts, free_port
from tests.servers import Proxy, Server, find_binaries

HAPROXY = """\
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
TWEMPROXY = """\
redis:
  listen: 127.0.0.1:{port}
  redis: true
  tcpkeepalive: true
  servers:
    - 127.0.0.1:{upstream}:1
"""


def _binary(name: str) -> str | None:
    """On the PATH, or where Debian puts daemons."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin")


def _serving(port: int) -> None:
    for _ in attempts(START_TIMEOUT_S, f"a proxy on port {port}"):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            continue
        return


@contextmanager
def _started(template: str, upstream: int, command: Callable[[str], list[str]]) -> Iterator[int]:
    """A proxy with a configuration file, on a port of its own."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="ttlproxy-bench-") as folder:
        config = Path(folder, "config")
        config.write_text(template.format(port=port, upstream=upstream))
        process = subprocess.Popen(
            command(str(config)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _serving(port)
            yield port
        finally:
            process.terminate()
            process.wait()


def start_all(stack: ExitStack) -> dict[str, int]:
    """The port of each target by its name; what is not installed is named and left out."""
    binaries = find_binaries()
    server = Server(binaries.get("7.0") or next(iter(binaries.values())), "--appendonly", "no")
    stack.callback(server.remove)
    targets = {"direct": server.start().port}
    haproxy, twemproxy = _binary("haproxy"), _binary("nutcracker")
    if haproxy:
        command = [haproxy, "-q", "-db", "-f"]
        targets["haproxy"] = stack.enter_context(
            _started(HAPROXY, server.port, lambda config: [*command, config])
        )
    if twemproxy:
        command_ = [twemproxy, "-v", "0", "-s", str(free_port()), "-a", "127.0.0.1", "-c"]
        targets["twemproxy"] = stack.enter_context(
            _started(TWEMPROXY, server.port, lambda config: [*command_, config])
        )
    proxy = Proxy(server.url)
    stack.callback(proxy.remove)
    targets["ttlproxy"] = proxy.start().port
    for name in ("haproxy", "twemproxy"):
        if name not in targets:
            print(f"{name} is not installed, and left out")
    print(f"redis {server.name}; 2 cores are enough: one target at a time is under load")
    return targets
