"""The limit of clients, and the reply to one too many."""

import logging
import resource
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import StartProxy
from tests.support.certificates import Authority
from tests.support.event_loops import both_loops
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.worker_counts import alone_or_with
from ttlproxy.process.open_files import RESERVED, make_room, room

pytestmark = pytest.mark.any_server

TOO_MANY = b"-ERR max number of clients reached\r\n"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def _served(port: int) -> bool:
    with Connection(port) as client:
        return client.ask("PING") == b"+PONG\r\n"


@both_loops
@alone_or_with(3)
def test_one_client_too_many_is_told_so_in_redis_s_words(
    serve: StartProxy, stack: ExitStack, workers: int
) -> None:
    proxy = serve("--max-clients", "4", "--workers", str(workers))
    clients = [stack.enter_context(Connection(proxy.port)) for _ in range(4)]
    assert [client.ask("PING") for client in clients] == [b"+PONG\r\n"] * 4
    for _ in range(3):
        with Connection(proxy.port) as refused:
            assert refused.read_to_end() == TOO_MANY
    assert proxy.stderr.count("clients are refused: max_clients (4) are connected") == 1
    if workers == 1:  # several tell each other of their counts later
        section = clients[1].ask("INFO", "ttlproxy")
        assert b"rejected_connections:3\r\n" in section
        assert b"gone_clients_refused:3\r\n" in section
    clients[0].close()
    wait_until(lambda: _served(proxy.port), "its place is free")
    assert clients[1].ask("PING") == b"+PONG\r\n"


def test_before_tls_is_up_one_client_too_many_is_only_closed(
    serve: StartProxy, stack: ExitStack, tmp_path: Path
) -> None:
    cert, key = Authority(tmp_path).issue("localhost")
    flags = ("--tls-cert", str(cert), "--tls-key", str(key), "--max-clients", "1")
    proxy = serve(*flags)
    stack.enter_context(Connection(proxy.port))  # its TLS handshake never ends
    with Connection(proxy.port) as refused:
        assert refused.read_to_end() == b""


@pytest.mark.parametrize(
    ("limit", "most", "processes", "clients"),
    [
        (RESERVED + 20, 10, 1, 10),
        (RESERVED + 20, 11, 1, 10),
        (RESERVED + 20, 100, 3, 30),
        (RESERVED, 100, 1, 1),
        (10, 100, 1, 1),
    ],
)
def test_each_client_takes_two_descriptors(
    limit: int, most: int, processes: int, clients: int
) -> None:
    assert room(limit, most, processes) == clients


def test_the_limit_of_open_files_is_raised_as_far_as_clients_need(serve: StartProxy) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        proxy = serve("--max-clients", "1000", forked=False)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert resource.prlimit(proxy.pid, resource.RLIMIT_NOFILE) == (2000 + RESERVED, limits[1])
    assert "max_clients" not in proxy.stderr


def test_fewer_clients_may_come_if_the_limit_of_files_cannot_be_raised(serve: StartProxy) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        pytest.skip("no limit is set here")
    proxy = serve("--max-clients", str(hard))
    fewer = (hard - RESERVED) // 2
    assert (
        f"WARNING max_clients is {fewer} instead of {hard}: a process may open only {hard} files"
        in (proxy.stderr)
    )


@pytest.mark.parametrize(("chosen", "level"), [(False, logging.INFO), (True, logging.WARNING)])
def test_only_who_has_asked_for_more_clients_is_warned(
    caplog: pytest.LogCaptureFixture, chosen: bool, level: int
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] == resource.RLIM_INFINITY:
        pytest.skip("no limit is set here")
    with caplog.at_level(logging.INFO):
        make_room(limits[1], 1, chosen)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert [record.levelno for record in caplog.records] == [level]
