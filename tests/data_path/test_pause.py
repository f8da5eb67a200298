"""CLIENT PAUSE: as without a proxy, reads are answered while writes wait, and no client loses its
connection, however long it takes."""

from collections.abc import Iterator

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.deadlines import BOUNDED
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_content import LEASE
from tests.support.server_queries import calls, until_loaded
from tests.support.servers import Proxy, Server
from ttlproxy.core.keys import Keys

OK = b"+OK\r\n"
WRITES = ("CLIENT", "PAUSE", 100_000, "WRITE")
# Requests that only read, each for a key with deadlines, and the beginning of the reply.
READS = {
    "KEYS *": b"*",
    "SCAN 0": b"*",
    "DBSIZE": b":",
    "RANDOMKEY": b"$",
    "COMMAND COUNT": b":",
    "COMMAND INFO HTTLFIELD": b"*",
    "HTTLFIELD h f": b":",
    "HTTL h FIELDS 1 f": b"*",
    "DUE h": b"*",
    "DEFERRED l": b"*",
    "ONEXPIRE": b"*",
    "LBTOP lb 0 -1": b"*",
    "TTLPROXY HELP": b"*",
    "INFO ttlproxy": b"$",
    "HTTLFIELD h": b"-ERR wrong number",
    "HGET h f": b"$",
    "EXISTS h": b":",
}


@pytest.fixture
def server(start_server: StartServer) -> Server:
    return start_server()


@pytest.fixture
def proxy(server: Server, start_proxy: StartProxy) -> Proxy:
    """Its scripts are loaded: before Redis 7.0 a pause holds back SCRIPT LOAD, too."""
    proxy = start_proxy(server.url, "--hold-max", "1")
    with Connection(proxy.port) as client:
        client.ask("HTTLFIELD", "none", "f")
    until_loaded(server.port)
    return proxy


@pytest.fixture
def direct(server: Server) -> Iterator[Connection]:
    with Connection(server.port) as client:
        yield client


def _make_due(app: Connection, direct: Connection, key: str) -> None:
    """A hash with a field that stays and one past its deadline; the proxy is told to reap it."""
    direct.ask("SET", LEASE, "nobody reaps by itself", "PX", 60_000)
    app.ask("HSET", key, "stays", "v")
    app.ask("HSETEX", key, *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v")
    direct.ask("ZADD", Keys().index(key.encode()), 1, "f")
    direct.ask("ZADD", Keys().schedule, 1, key)
    name = Keys().announcement(0, 1, key.encode())
    direct.send(command("MULTI") + command("SET", name, "") + command("DEL", name))
    direct.send(command("EXEC"))
    direct.read_many(4)


def _unpause(direct: Connection) -> None:
    assert direct.ask("CLIENT", "UNPAUSE") == OK


def _some_beats(server: Server, count: int = 3) -> None:
    until = calls(server.port, "time") + count
    wait_until(lambda: calls(server.port, "time") >= until, "some heartbeats")


def test_reads_are_answered_in_a_pause_of_writes(
    app: Connection, direct: Connection, version: str
) -> None:
    app.ask("HSETEX", "h", *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v")
    assert direct.ask(*WRITES) == OK
    for request, begins in READS.items():
        is_native = request.split()[0] in ("HGET", "EXISTS")
        if is_native or version != "6.2":  # where a script cannot say that it writes nothing
            assert app.ask(*request.split()).startswith(begins), request


def test_a_read_of_what_is_due_is_answered_and_reaped_after_the_pause(
    server: Server, proxy: Proxy, app: Connection, other: Connection, direct: Connection
) -> None:
    _make_due(app, direct, "h")
    _make_due(app, direct, "g")
    assert direct.ask(*WRITES) == OK
    for client in (app, other):
        for key in ("h", "g"):
            assert client.ask("HGET", key, "f") in (b"$1\r\nv\r\n", b"$-1\r\n")
            assert client.ask("HGET", key, "stays") == b"$1\r\nv\r\n"
    with Connection(proxy.port) as newcomer:
        assert newcomer.ask("HLEN", "h") == b":2\r\n", "it cannot be reaped in a pause"
    _some_beats(server)
    _unpause(direct)
    assert app.ask("SET", "k", "v") == OK, "writes are taken"
    wait_until(lambda: app.ask("HLEN", "h") == b":1\r\n", "it reaped")
    wait_until(lambda: app.ask("HLEN", "g") == b":1\r\n", "the other, too")
    assert "away" not in proxy.stderr
    assert "refuses" not in proxy.stderr


def test_a_read_is_answered_where_no_client_has_written_anything(
    serve: StartProxy, direct: Connection
) -> None:
    """Then the proxy has no other reason to find out whether writes are paused."""
    direct.ask("SET", LEASE, "nobody reaps by itself", "PX", 60_000)
    direct.ask("HSET", "h", "stays", "v", "f", "v")
    direct.ask("ZADD", Keys().index(b"h"), 1, "f")
    direct.ask("ZADD", Keys().schedule, 1, "h")
    with Connection(serve().port) as app:
        assert direct.ask(*WRITES) == OK
        assert app.ask("HLEN", "h") == b":2\r\n"
        _unpause(direct)
        wait_until(lambda: app.ask("HLEN", "h") == b":1\r\n", "it reaped")


def test_a_write_waits_and_finds_what_is_due_gone(
    server: Server, proxy: Proxy, app: Connection, other: Connection, direct: Connection
) -> None:
    _make_due(app, direct, "h")
    other.send(command("MULTI") + command("HSETNX", "g", "f", "new"))
    assert other.read_many(2) == [OK, b"+QUEUED\r\n"]
    _make_due(app, direct, "g")
    assert direct.ask(*WRITES) == OK
    app.send(command("HSETNX", "h", "f", "new"))
    with Connection(proxy.port) as reader:
        assert reader.ask("HLEN", "h") == b":2\r\n"
    other.send(command("EXEC"))
    _some_beats(server)
    _unpause(direct)
    assert app.read() == b":1\r\n", "the hold limit was over long ago"
    assert other.read() == b"*1\r\n:1\r\n"


def test_a_transaction_that_reads_is_answered(
    app: Connection, direct: Connection, version: str
) -> None:
    _make_due(app, direct, "h")
    assert direct.ask(*WRITES) == OK
    app.send(command("MULTI") + command("HGET", "h", "stays") + command("EXEC"))
    assert app.read_many(3)[2] == b"*1\r\n$1\r\nv\r\n"


def test_a_proxy_that_starts_in_a_pause_serves_when_that_is_over(
    serve: StartProxy, direct: Connection
) -> None:
    assert direct.ask("CLIENT", "PAUSE", 2000, "WRITE") == OK
    with Connection(serve().port) as client:
        assert client.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v") == b":1\r\n"
