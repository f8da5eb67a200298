"""Right after a flush, new deadlines of hash fields are the server's, where it has its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import StartProxy
from tests.support.raw_client import Connection, command
from tests.support.requirements import absent
from tests.support.servers import Proxy, Server, moves_whole_slots

pytestmark = pytest.mark.any_server
DEADLINE = "HEXPIRE h 100 FIELDS 1 a"
SERVERS_OWN = b"*1\r\n:100\r\n"


@pytest.fixture
def native() -> Iterator[Server]:
    """A server that keeps deadlines of hash fields itself."""
    binary = moves_whole_slots()
    if binary is None:
        absent("valkey-9", "there is no server with deadlines of hash fields of its own")
    server = Server(binary)
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def proxy(native: Server, start_proxy: StartProxy) -> Proxy:
    return start_proxy(native.url)


@pytest.mark.parametrize("flush", ["FLUSHALL", "FLUSHDB", "FLUSHALL ASYNC", "MULTI|FLUSHALL|EXEC"])
@pytest.mark.parametrize("is_pipelined", [False, True], ids=["one by one", "pipelined"])
def test_a_deadline_set_right_after_a_flush_is_the_servers(
    proxy: Proxy, native: Server, flush: str, is_pipelined: bool
) -> None:
    lines = [*flush.split("|"), "HSET h a 1", DEADLINE]
    with Connection(proxy.port) as app, Connection(native.port) as direct:
        for _ in range(10):
            assert app.ask("SADDEX", "s", 100, "a") == b":1\r\n"
            if is_pipelined:
                app.send(b"".join(command(*line.split()) for line in lines))
                replies = app.read_many(len(lines))
            else:
                replies = [app.ask(*line.split()) for line in lines]
            assert replies[-1] == b"*1\r\n:1\r\n"
            assert direct.ask("HTTL", "h", "FIELDS", 1, "a") == SERVERS_OWN


def test_a_refused_flush_holds_nobody_up(proxy: Proxy, native: Server) -> None:
    with Connection(proxy.port) as app, Connection(native.port) as direct:
        direct.ask("ACL", "SETUSER", "some", "on", ">word", "~*", "&*", "+@all", "-flushall")
        assert app.ask("AUTH", "some", "word") == b"+OK\r\n"
        assert app.ask("FLUSHALL").startswith(b"-NOPERM")
        assert app.ask("HSET", "h", "a", 1) == b":1\r\n"
        assert app.ask(*DEADLINE.split()) == b"*1\r\n:1\r\n"
        assert direct.ask("HTTL", "h", "FIELDS", 1, "a") == SERVERS_OWN
