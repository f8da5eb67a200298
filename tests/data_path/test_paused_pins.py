"""A request may give its key deadlines. A write that follows on the same connection finds them,
however long Redis takes to carry out the first request."""

import threading
from collections.abc import Iterator

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.deadlines import BOUNDED
from tests.support.processes import START_TIMEOUT_S, wait_until
from tests.support.raw_client import Connection, command
from tests.support.relay import Relay
from tests.support.server_queries import calls, until_blocked
from tests.support.servers import Server

OK = b"+OK\r\n"
PAUSE = ("CLIENT", "PAUSE", 100_000, "WRITE")
SET_DEADLINE = ("HSETEX", "h", *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "old value")
OVERWRITE = ("HSET", "h", "f", "w")


@pytest.fixture
def server(start_server: StartServer) -> Server:
    return start_server()


@pytest.fixture
def direct(server: Server) -> Iterator[Connection]:
    with Connection(server.port) as client:
        yield client


@pytest.fixture
def app(server: Server, start_proxy: StartProxy) -> Iterator[Connection]:
    with Connection(start_proxy(server.url).port) as client:
        yield client


def _time_passes(server: Server) -> None:
    """Waits for more heartbeats than a pin lasts if no request is under way."""
    until = calls(server.port, "time") + 10  # two of them by the check for paused writes
    wait_until(lambda: calls(server.port, "time") >= until, "some heartbeats", START_TIMEOUT_S)


def _is_overwritten(client: Connection) -> None:
    assert client.ask("HGET", "h", "f") == b"$1\r\nw\r\n"
    assert client.ask("HTTLFIELD", "h", "f") == b":-1\r\n"


def test_in_a_pause_of_writes(server: Server, app: Connection, direct: Connection) -> None:
    assert direct.ask(*PAUSE) == OK
    app.send(command(*SET_DEADLINE))
    _time_passes(server)
    app.send(command(*OVERWRITE))
    assert direct.ask("CLIENT", "UNPAUSE") == OK
    assert app.read_many(2) == [b":1\r\n", b":0\r\n"]
    _is_overwritten(app)


def test_in_a_transaction_that_was_begun_long_before_its_end(
    server: Server, app: Connection, direct: Connection
) -> None:
    app.ask("MULTI")
    app.ask(*SET_DEADLINE)
    _time_passes(server)
    assert direct.ask(*PAUSE) == OK
    app.send(command("EXEC") + command(*OVERWRITE))
    assert direct.ask("CLIENT", "UNPAUSE") == OK
    assert app.read_many(2) == [b"*1\r\n:1\r\n", b":0\r\n"]
    _is_overwritten(app)


def test_inside_a_transaction_that_takes_its_time(server: Server, app: Connection) -> None:
    app.ask("MULTI")
    app.ask(*SET_DEADLINE)
    _time_passes(server)
    app.ask(*OVERWRITE)
    assert app.ask("EXEC") == b"*2\r\n:1\r\n:0\r\n"
    _is_overwritten(app)


def test_behind_a_blocking_command(server: Server, app: Connection, direct: Connection) -> None:
    app.send(command("BLPOP", "l", 0))
    until_blocked(server.port, 1)
    app.send(command(*SET_DEADLINE))
    _time_passes(server)
    app.send(command(*OVERWRITE))
    direct.ask("RPUSH", "l", "x")
    assert app.read_many(3)[1:] == [b":1\r\n", b":0\r\n"]
    _is_overwritten(app)


def test_without_replies(server: Server, app: Connection, direct: Connection) -> None:
    app.send(command("CLIENT", "REPLY", "OFF"))
    assert direct.ask(*PAUSE) == OK
    app.send(command(*SET_DEADLINE))
    _time_passes(server)
    app.send(command(*OVERWRITE) + command("CLIENT", "REPLY", "ON"))
    assert direct.ask("CLIENT", "UNPAUSE") == OK
    assert app.read() == OK
    _is_overwritten(app)


def test_on_a_connection_that_gets_on_and_does_not_come_to_it(
    server: Server, start_proxy: StartProxy
) -> None:
    """Messages keep arriving: it is not at rest, though all its other requests are answered."""
    goes_on = threading.Event()

    def hold(data: bytes) -> None:
        if b"old value" in data:
            goes_on.wait()

    def publish() -> None:
        with Connection(server.port) as publisher:
            while not goes_on.wait(0.005):
                publisher.socket.sendall(command("PUBLISH", "news", "x"))

    with Relay(server.port, 1 << 16, hold) as relay:
        port = start_proxy(f"redis://127.0.0.1:{relay.port}").port
        with Connection(port) as app, Connection(port) as other:
            app.ask("HELLO", 3)
            app.ask("SUBSCRIBE", "news")
            publishing = threading.Thread(target=publish)
            publishing.start()
            app.send(command(*SET_DEADLINE))
            try:
                _time_passes(server)
                app.send(command(*OVERWRITE))
            finally:
                goes_on.set()
                publishing.join()
            replies = (reply for reply in iter(app.read, b"") if not reply.startswith(b">"))
            assert [next(replies), next(replies)] == [b":1\r\n", b":0\r\n"]
            _is_overwritten(other)


def test_a_request_that_changed_nothing_is_forgotten_when_its_connection_rests(
    server: Server, start_proxy: StartProxy, direct: Connection
) -> None:
    port = start_proxy(server.url).port
    app, other = Connection(port), Connection(port)
    assert direct.ask(*PAUSE) == OK
    app.send(command("HEXPIREFIELD", "none", "f", 1000))
    _time_passes(server)
    assert direct.ask("CLIENT", "UNPAUSE") == OK
    assert app.read() == b":-2\r\n"
    wait_until(lambda: b"managed_keys:0\r\n" in other.ask("INFO", "ttlproxy"), "it forgotten")
    app.close()
    other.close()


def test_an_idle_proxy_asks_for_no_write(server: Server, app: Connection) -> None:
    """It checks its keys every few seconds by a script; on Redis 6.2 a barrier goes before it."""
    app.ask("SADDEX", "s", 1000, "m")
    _time_passes(server)
    wait_until(lambda: _scripts_in_a_while(server) <= 4, "no barrier in a while")


def _scripts_in_a_while(server: Server) -> int:
    before = calls(server.port, "evalsha")
    _time_passes(server)
    return calls(server.port, "evalsha") - before
