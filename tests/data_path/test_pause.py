"""CLIENT PAUSE: as without a proxy, reads are answered while writes wait, and no client loses its
connection, however long it takes."""

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.deadlines import BOUNDED
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_content import LEASE
from tests.support.relay import Relay
from tests.support.server_queries import calls, connections, until_loaded
from tests.support.servers import Proxy, Server, unshared
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


def _has_one(app: Connection, key: str) -> bool:
    return app.ask("HLEN", key) == b":1\r\n"


def _unpause(direct: Connection) -> None:
    assert direct.ask("CLIENT", "UNPAUSE") == OK


def _some_beats(server: Server, count: int = 3) -> None:
    until = calls(server.port, "time") + count
    wait_until(lambda: calls(server.port, "time") >= until, "some heartbeats")


@pytest.mark.parametrize("request_", READS)
def test_what_reads_is_answered_in_a_pause_of_writes(
    app: Connection, direct: Connection, request_: str, version: str
) -> None:
    is_native = request_.split()[0] in ("HGET", "EXISTS")
    if version == "6.2" and not is_native:
        pytest.skip("before 7.0 a script cannot say that it writes nothing")
    app.ask("HSETEX", "h", *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v")
    assert direct.ask(*WRITES) == OK
    assert app.ask(*request_.split()).startswith(READS[request_])


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
    server: Server, start_proxy: StartProxy, direct: Connection
) -> None:
    """Then the proxy has no other reason to find out whether writes are paused."""
    direct.ask("SET", LEASE, "nobody reaps by itself", "PX", 60_000)
    direct.ask("HSET", "h", "stays", "v", "f", "v")
    direct.ask("ZADD", Keys().index(b"h"), 1, "f")
    direct.ask("ZADD", Keys().schedule, 1, "h")
    with Connection(start_proxy(server.url).port) as app:
        assert direct.ask(*WRITES) == OK
        assert app.ask("HLEN", "h") == b":2\r\n"
        _unpause(direct)
        wait_until(lambda: app.ask("HLEN", "h") == b":1\r\n", "it reaped")


@pytest.mark.parametrize("kinds", [("reaps", "barrier"), ("reaps",)], ids=" and ".join)
def test_a_barrier_that_has_not_reached_redis_says_nothing_of_a_pause(
    server: Server, start_proxy: StartProxy, direct: Connection, kinds: tuple[str, ...]
) -> None:
    """Nor does a reap that takes its time. Else a read would pass before the reap that it waits
    for, and show an expired element."""
    names = {f"ttlproxy:{kind}".encode() for kind in kinds}
    held, go_on = set[bytes](), threading.Event()
    is_armed, sent = False, 0

    def hold(data: bytes) -> None:
        """Holds new connections: the one for reaps, and perhaps one of the two for barriers."""
        for name in names - held:
            if name in data and is_armed:
                held.add(name)
                go_on.wait()

    with Relay(server.port, 1 << 16, hold) as relay:
        proxy = start_proxy(f"redis://127.0.0.1:{relay.port}")
        with Connection(proxy.port) as app:
            _make_due(app, direct, "h")
            is_armed = True
            for line in direct.ask("CLIENT", "LIST").splitlines():
                if any(b"name=" + name in line for name in names):
                    direct.ask("CLIENT", "KILL", "ID", line.split()[0].partition(b"=")[2])

            def are_held() -> bool:
                """Sends reads until the proxy knows that something is due; the relay is slow."""
                nonlocal sent
                if b"ttlproxy:reaps" not in held:
                    app.send(command("HGET", "h", "f"))
                    sent += 1
                return held == names

            try:
                wait_until(are_held, "they opened anew")
                _some_beats(server)
            finally:
                go_on.set()
            assert app.read_many(sent)[-1] == b"$-1\r\n"


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


def test_each_of_those_who_wait_finds_what_is_due_gone(
    server: Server, proxy: Proxy, app: Connection, direct: Connection
) -> None:
    """What they ask for while a reap is under way is asked for together, and is not the same."""
    for key in ("h", "g", "i"):
        _make_due(app, direct, key)
    assert direct.ask(*WRITES) == OK
    app.send(command("HSETNX", "h", "f", "new"))
    _some_beats(server)
    with Connection(proxy.port) as one, Connection(proxy.port) as two:
        one.send(command("HSETNX", "g", "f", "new"))
        two.send(command("HSETNX", "i", "f", "new"))
        _some_beats(server)
        _unpause(direct)
        assert app.read() == one.read() == two.read() == b":1\r\n"


def test_no_heartbeat_waits_for_what_it_may_correct(
    server: Server, app: Connection, direct: Connection
) -> None:
    """What a heartbeat would write is written after the pause."""
    app.ask("HSETEX", "h", *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v")
    _some_beats(server)
    direct.send(command("DEL", Keys().state, Keys().schedule) + command(*WRITES))
    assert direct.read_many(2)[1] == OK
    _some_beats(server, 20)
    _unpause(direct)
    wait_until(lambda: direct.ask("EXISTS", Keys().state, Keys().schedule) == b":2\r\n", "both")


def test_a_transaction_that_reads_is_answered(
    app: Connection, direct: Connection, version: str
) -> None:
    _make_due(app, direct, "h")
    assert direct.ask(*WRITES) == OK
    app.send(command("MULTI") + command("HGET", "h", "stays") + command("EXEC"))
    assert app.read_many(3)[2] == b"*1\r\n$1\r\nv\r\n"


@unshared  # the read could wait behind a write
def test_a_client_that_leaves_in_a_pause_leaves_nothing_behind(
    server: Server, proxy: Proxy, app: Connection, direct: Connection
) -> None:
    _make_due(app, direct, "h")
    assert direct.ask(*WRITES) == OK
    for _ in range(5):
        with Connection(proxy.port) as client:
            client.send(command("HINCRBY", "h", "n", 1))
    assert app.ask("HLEN", "h") == b":2\r\n"
    _unpause(direct)
    wait_until(lambda: app.ask("HEXISTS", "h", "f") == b":0\r\n", "it reaped")


def test_a_reap_whose_connection_is_killed_in_a_pause_is_asked_for_again(
    server: Server, app: Connection, direct: Connection
) -> None:
    _make_due(app, direct, "h")
    assert direct.ask(*WRITES) == OK
    app.send(command("HSET", "h", "stays", "w"))
    _some_beats(server)
    (reaps,) = [each for each in connections(server.port) if each["name"] == "ttlproxy:reaps"]
    assert direct.ask("CLIENT", "KILL", "ID", reaps["id"]) == b":1\r\n"
    _some_beats(server)
    _unpause(direct)
    assert app.read() == b":0\r\n"
    assert _has_one(app, "h")


def test_pauses_that_follow_each_other(
    server: Server, proxy: Proxy, app: Connection, direct: Connection
) -> None:
    for number in range(3):
        _make_due(app, direct, f"h{number}")
        assert direct.ask(*WRITES) == OK
        assert app.ask("HLEN", f"h{number}") == b":2\r\n"
        _unpause(direct)
        wait_until(partial(_has_one, app, f"h{number}"), "it reaped")


def test_when_all_is_paused_everybody_waits_beyond_the_hold_limit(
    proxy: Proxy, app: Connection, other: Connection, direct: Connection
) -> None:
    _make_due(app, direct, "h")
    assert direct.ask("CLIENT", "PAUSE", 3000, "ALL") == OK
    app.send(command("HLEN", "h"))
    other.send(command("PING"))
    with Connection(proxy.port) as newcomer:
        assert newcomer.ask("PING") == b"+PONG\r\n"
    assert app.read() == b":1\r\n"
    assert other.read() == b"+PONG\r\n"
    assert "away" not in proxy.stderr


def test_the_reaper_goes_on_after_a_pause(
    server: Server, proxy: Proxy, app: Connection, direct: Connection
) -> None:
    assert app.ask("SADDEX", "s", "PX", 500, "MEMBERS", 1, "m") == b":1\r\n"
    assert direct.ask(*WRITES) == OK
    _some_beats(server)
    received = calls(server.port, "hello") + calls(server.port, "client")
    _some_beats(server, 5)
    assert calls(server.port, "hello") + calls(server.port, "client") - received < 20
    _unpause(direct)
    wait_until(lambda: direct.ask("EXISTS", "s") == b":0\r\n", "it reaped")
    assert "away" not in proxy.stderr


def test_events_that_change_in_a_pause_keep_no_heartbeat_waiting(
    server: Server, app: Connection, direct: Connection
) -> None:
    """The proxy makes new scripts for them, and Redis 6.2 loads none during the pause."""
    assert direct.ask(*WRITES) == OK
    assert app.ask("CONFIG", "SET", "notify-keyspace-events", "KEA") == OK
    until = calls(server.port, "info") + 8  # two for each heartbeat of the link before 7.0
    wait_until(lambda: calls(server.port, "info") >= until, "some heartbeats")
    _unpause(direct)
    assert app.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v") == b":1\r\n"


def test_a_proxy_that_starts_in_a_pause_serves_when_that_is_over(
    server: Server, start_proxy: StartProxy, direct: Connection
) -> None:
    assert direct.ask("CLIENT", "PAUSE", 2000, "WRITE") == OK
    with Connection(start_proxy(server.url).port) as client:
        assert client.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v") == b":1\r\n"


def test_a_proxy_ends_in_a_pause(proxy: Proxy, app: Connection, direct: Connection) -> None:
    _make_due(app, direct, "h")
    assert direct.ask(*WRITES) == OK
    app.send(command("HSETNX", "h", "f", "new"))
    proxy.kill()
    _unpause(direct)
    with Connection(proxy.start().port) as client:
        wait_until(lambda: client.ask("HLEN", "h") == b":1\r\n", "it reaped")


def test_two_proxies_before_a_server_that_pauses(
    server: Server, start_proxy: StartProxy, direct: Connection
) -> None:
    one, two = (start_proxy(server.url) for _ in range(2))
    with Connection(one.port) as app, Connection(two.port) as other:
        _make_due(app, direct, "h")
        assert direct.ask(*WRITES) == OK
        assert app.ask("HLEN", "h") == other.ask("HLEN", "h") == b":2\r\n"
        other.send(command("HSETNX", "h", "f", "new"))
        _some_beats(server)
        _unpause(direct)
        assert other.read() == b":1\r\n"
        wait_until(lambda: app.ask("HGET", "h", "f") == b"$3\r\nnew\r\n", "it there")
