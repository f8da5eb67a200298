"""Redis's replies reach a client that keeps sending after the request that ends the connection."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.containers import AnyServer
from tests.support.event_loops import both_loops
from tests.support.raw_client import Connection, command
from tests.support.servers import Proxy

PINGS = 50
MORE = command("SET", "after", "v" * 1000) * 1000
REFUSED = b"-ERR Protocol error: %b\r\n"
CLIENTS = 60

# Redis answers each, and closes: QUIT, and what it refuses as a request, in a line, and behind a
# request that passes unread. Other errors are in test_protocol_errors.
ENDS = {
    "QUIT": (command("QUIT"), b"+OK\r\n"),
    "no bulk": (b"*1\r\n:5\r\n", REFUSED % b"expected '$', got ':'"),
    "no balance": (b'get "a\r\n', REFUSED % b"unbalanced quotes in request"),
    "no bulk in a large request": (
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$70000\r\n" + b"v" * 70_000 + b"\r\n" + b"*1\r\n:5\r\n",
        b"+OK\r\n" + REFUSED % b"expected '$', got ':'",
    ),
}


def _received(client: Connection) -> bytes:
    """All bytes until the connection ends, even by a reset."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while data := client.socket.recv(1 << 20):
            received += data
    return received


def _sent_on(port: int, end: bytes, more: bytes = MORE, asks_id: bool = False) -> bytes:
    """The reply to a client that sends everything without waiting for replies."""
    with Connection(port) as client:
        if asks_id:
            end = command("CLIENT", "KILL", "ID", client.ask("CLIENT", "ID")[1:-2], "SKIPME", "no")

        def send() -> None:
            with contextlib.suppress(OSError):  # the connection has ended
                client.send(command("PING") * PINGS + end + more)

        sending = threading.Thread(target=send)
        sending.start()
        received = _received(client)
        sending.join()
        return received


@pytest.mark.any_server
@both_loops
@pytest.mark.parametrize(("end", "last"), ENDS.values(), ids=ENDS.keys())
def test_a_client_that_sends_on_after_the_end_has_every_earlier_reply(
    proxy: Proxy, end: bytes, last: bytes
) -> None:
    with ThreadPoolExecutor(20) as threads:
        received = threads.map(lambda _: _sent_on(proxy.port, end, MORE), range(CLIENTS))
        assert {reply[PINGS * 7 :] for reply in received} == {last}


@pytest.mark.any_server
@both_loops
def test_nothing_behind_the_end_is_carried_out(proxy: Proxy, server: AnyServer) -> None:
    for end, _ in ENDS.values():
        _sent_on(proxy.port, end, MORE)
    with Connection(server.port) as direct:
        assert direct.ask("EXISTS", "after") == b":0\r\n"


@both_loops
def test_replies_from_before_redis_closes_unforeseen_arrive_as_without_a_proxy(
    proxy: Proxy, plain: AnyServer
) -> None:
    """Redis resets the connection because it leaves bytes unread; the replies before arrive."""
    for port in (plain.port, proxy.port):
        with ThreadPoolExecutor(20) as threads:
            received = threads.map(
                lambda _, at=port: _sent_on(at, b"", asks_id=True), range(CLIENTS)
            )
            assert set(received) == {b"+PONG\r\n" * PINGS + b":1\r\n"}


@both_loops
def test_a_client_that_sends_no_more_has_the_last_reply_too_where_redis_closes_by_itself(
    app: Connection,
) -> None:
    number = app.ask("CLIENT", "ID")[1:-2]
    app.send(command("PING") + command("CLIENT", "KILL", "ID", number, "SKIPME", "no"))
    app.half_close()
    assert app.read_to_end() == b"+PONG\r\n:1\r\n"
