"""Sentinels and servers that are reached over TLS, with one authority or with two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import StartProxy, StartServer
from tests.faults.conftest import is_refused, sentinel_url, until_served_by
from tests.support.certificates import Authority
from tests.support.doctor import examine, of
from tests.support.processes import free_port, wait_until
from tests.support.raw_client import Connection
from tests.support.requirements import absent
from tests.support.sentinels import Sentinel
from tests.support.server_queries import info
from tests.support.servers import Binary, Server
from ttlproxy.operations.doctor import Severity

pytestmark = pytest.mark.any_server

LOCAL = ("localhost", "127.0.0.1")
TLS = "rediss-sentinel"
SOON = ("--hold-max", "0.1")

# Gives a Redis behind TLS and its port there; the words are for its configuration.
StartBehindTls = Callable[..., tuple[Server, int]]
# Gives a Sentinel for the master at this port, and its own port for TLS.
StartSentinel = Callable[..., tuple[Sentinel, int]]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def other_authority(tmp_path: Path) -> Authority:
    (tmp_path / "other").mkdir()
    return Authority(tmp_path / "other")


@pytest.fixture
def start_behind_tls(start_server: StartServer, authority: Authority) -> StartBehindTls:
    cert, key = authority.issue(*LOCAL, into="redis")

    def start(*config: str) -> tuple[Server, int]:
        port = free_port()
        files = [
            *("--tls-cert-file", str(cert), "--tls-key-file", str(key)),
            *("--tls-ca-cert-file", str(authority.file), "--tls-auth-clients", "no"),
        ]
        tls = ("--tls-port", str(port), "--tls-replication", "yes", *files)
        try:
            return start_server(*tls, *config), port
        except RuntimeError as trouble:
            absent("tls", f"this server has no TLS: {str(trouble).splitlines()[-1]}")

    return start


@pytest.fixture
def start_sentinel(binary: Binary, authority: Authority, tmp_path: Path) -> Iterator[StartSentinel]:
    """start_sentinel(port, own=..., asks_for_certificates=..., to_redis=...): `own` issues its
    certificate, and `to_redis` says whether it speaks TLS to the servers."""
    with ExitStack() as owned:

        def start(
            master_port: int,
            own: Authority = authority,
            *,
            asks_for_certificates: bool = False,
            to_redis: bool = True,
        ) -> tuple[Sentinel, int]:
            cert, key = own.issue(*LOCAL, into="sentinel")
            trusted, port = tmp_path / "trusted.pem", free_port()
            trusted.write_text(authority.file.read_text() + own.file.read_text())
            sentinel = Sentinel(
                binary,
                master_port,
                f"tls-port {port}",
                f"tls-cert-file {cert}",
                f"tls-key-file {key}",
                f"tls-ca-cert-file {trusted}",
                f"tls-auth-clients {'yes' if asks_for_certificates else 'no'}",
                f"tls-replication {'yes' if to_redis else 'no'}",
            )
            return owned.enter_context(sentinel), port

        yield start


@pytest.mark.slow
def test_three_sentinels_and_two_servers_through_a_failover(
    start_behind_tls: StartBehindTls,
    start_sentinel: StartSentinel,
    start_proxy: StartProxy,
    authority: Authority,
) -> None:
    master, port = start_behind_tls()
    replica, _ = start_behind_tls("--replicaof", f"127.0.0.1 {port}")
    up = ("master_link_status", "up")
    wait_until(lambda: up in info(replica.port, "replication").items(), "a replica in step")
    sentinels = [start_sentinel(port) for _ in range(3)]
    url = sentinel_url(*(port for _, port in sentinels), scheme=TLS)
    proxy = start_proxy(url, "--upstream-tls-ca", str(authority.file))
    until_served_by(master, proxy)
    seen = of("sentinels", examine(url, upstream_tls_ca=authority.file))
    assert (seen.severity, seen.what) == (Severity.OK, "the Sentinels name the same master")
    with Connection(proxy.port) as client:
        assert client.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "a", 1) == b":1\r\n"
        assert client.ask("WAIT", 1, 0) == b":1\r\n"
        for sentinel, _ in sentinels:
            wait_until(
                lambda sentinel=sentinel: _knows(sentinel, 1, 2),  # type: ignore[misc]
                "a Sentinel that knows all",
            )
        sentinels[0][0].ask_to_fail_over()
        assert client.read_to_end() == b""
    until_served_by(replica, proxy)
    with Connection(proxy.port) as client:
        assert client.ask("HPERSISTFIELD", "h", "a") == b":1\r\n"


def _knows(sentinel: Sentinel, replicas: int, sentinels: int) -> bool:
    facts = sentinel.facts()
    names = ("num-slaves", "num-other-sentinels")
    return tuple(int(facts[name]) for name in names) == (replicas, sentinels)


@pytest.mark.slow
def test_sentinels_have_an_authority_of_their_own_and_ask_for_a_certificate(
    start_behind_tls: StartBehindTls,
    start_sentinel: StartSentinel,
    start_proxy: StartProxy,
    authority: Authority,
    other_authority: Authority,
) -> None:
    server, port = start_behind_tls()
    _, tls_port = start_sentinel(port, other_authority, asks_for_certificates=True)
    url, place = sentinel_url(tls_port, scheme=TLS), f"127.0.0.1:{tls_port}: "
    trusting = ["--upstream-tls-ca", str(authority.file)]
    is_refused(start_proxy(url, *trusting, *SOON), place, "an authority that is not trusted")
    trusting += ["--sentinel-tls-ca", str(other_authority.file)]
    is_refused(start_proxy(url, *trusting, *SOON), place)
    cert, key = map(str, other_authority.issue("proxy"))
    shown = ("--sentinel-tls-cert", cert, "--sentinel-tls-key", key)
    until_served_by(server, start_proxy(url, *trusting, *shown))
    name = "--sentinel-tls-server-name"
    until_served_by(server, start_proxy(url, *trusting, *shown, name, "localhost"))
    proxy = start_proxy(url, *trusting, *shown, name, "elsewhere.org", *SOON)
    is_refused(proxy, place, "elsewhere.org")


def test_tls_to_redis_alone_and_to_the_sentinels_alone(
    start_behind_tls: StartBehindTls,
    start_sentinel: StartSentinel,
    start_proxy: StartProxy,
    authority: Authority,
) -> None:
    server, port = start_behind_tls()
    file = str(authority.file)
    sentinel, _ = start_sentinel(port)
    flags = ("--upstream-tls-ca", file, "--sentinel-tls", "no")
    until_served_by(server, start_proxy(sentinel_url(sentinel.port, scheme=TLS), *flags))
    _, tls_port = start_sentinel(server.port, to_redis=False)
    flags = ("--sentinel-tls-ca", file, "--sentinel-tls", "yes")
    url = sentinel_url(tls_port)
    until_served_by(server, start_proxy(url, *flags))


@pytest.mark.parametrize("is_tls", [True, False], ids=["tls", "plain"])
def test_the_wrong_scheme_is_an_error_that_names_the_sentinel(
    start_behind_tls: StartBehindTls,
    start_sentinel: StartSentinel,
    start_proxy: StartProxy,
    authority: Authority,
    is_tls: bool,
) -> None:
    _, port = start_behind_tls()
    sentinel, tls_port = start_sentinel(port)
    port, scheme, fix = (
        (tls_port, "redis-sentinel", "--sentinel-tls yes")
        if is_tls
        else (sentinel.port, "rediss-sentinel", "--sentinel-tls no")
    )
    url = sentinel_url(port, scheme=scheme)
    file = None if is_tls else authority.file
    flags = ("--upstream-tls-ca", str(file)) if file else ()
    is_refused(start_proxy(url, *flags, *SOON), f"127.0.0.1:{port}: the server", fix)
    (found,) = examine(url, upstream_tls_ca=file, connect_timeout=2.0)
    assert f"127.0.0.1:{port}" in found.what
    assert fix in found.what
