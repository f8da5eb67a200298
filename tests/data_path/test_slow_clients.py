"""Clients that do nothing, that read nothing, or for whom too much is buffered."""

import os
import signal
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.containers import AnyServer
from tests.support.event_loops import both_loops
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.server_queries import calls, connections, until_blocked
from tests.support.servers import Proxy

pytestmark = [pytest.mark.any_server, pytest.mark.long]

MIB = 1 << 20


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def _gone(proxy: Proxy, why: str) -> bool:
    with Connection(proxy.port) as client:
        return b"gone_clients_%b:" % why.encode() in client.ask("INFO", "ttlproxy")


# Idle.

EXEMPT: dict[str, list[tuple[str, ...]]] = {
    "a subscriber": [("SUBSCRIBE", "news")],
    "one by pattern": [("PSUBSCRIBE", "n*")],
    "a monitor": [("MONITOR",)],
    "a replica": [("PSYNC", "?", "-1")],
    "who is blocked": [("BLPOP", "nothing", "0")],
    "who is blocked behind a reply": [("GET", "k"), ("XREAD", "BLOCK", "0", "STREAMS", "x", "$")],
    "a subscriber under RESP3": [("HELLO", "3"), ("SUBSCRIBE", "news")],
}


def _is_open(client: Connection) -> bool:
    """Whether the connection is still open behind the data that can be read."""
    client.socket.settimeout(0.01)
    try:
        while client.socket.recv(1 << 16):
            pass
    except TimeoutError:
        return True
    return False


@both_loops
def test_an_idle_client_is_closed_and_nobody_who_waits_for_something(
    start_server: StartServer, start_proxy: StartProxy, stack: ExitStack
) -> None:
    server = start_server()  # ROLE tells ever after that it has had a replica
    proxy = start_proxy(server.url, "--timeout", "1")
    lazy = _lazy(proxy, server, stack, 32)

    def connect(*requests: tuple[str, ...]) -> Connection:
        client = stack.enter_context(Connection(proxy.port))
        for words in requests:
            client.send(command(*words))
        return client

    waiting = [connect(*requests) for requests in EXEMPT.values()]
    until_blocked(server.port, 2)
    silent = connect()
    asked = connect(("PING",))
    half = stack.enter_context(Connection(proxy.port))
    half.send(command("SET", "k", "v")[:-3])
    assert silent.read_to_end() == b""
    assert asked.read_to_end() == b"+PONG\r\n"
    assert half.read_to_end() == b""
    for client in waiting:
        assert _is_open(client)
    assert len(lazy.read_many(32)) == 32
    assert "closed: idle for 1 s" in proxy.stderr
    assert _gone(proxy, "idle")


def test_a_client_that_sends_now_and_then_is_not_idle(
    start_proxy: StartProxy, server: AnyServer, stack: ExitStack
) -> None:
    proxy = start_proxy(server.url, "--timeout", "2")
    active, slow, other = (stack.enter_context(Connection(proxy.port)) for _ in range(3))
    rest = command("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", b"v" * 10_000)

    def closed() -> bool:
        nonlocal rest
        assert active.ask("PING") == b"+PONG\r\n"
        slow.send(rest[:1])
        rest = rest[1:]
        return not _is_open(other)

    wait_until(closed, "the other is closed")
    assert active.ask("PING") == b"+PONG\r\n"
    slow.send(rest)
    assert slow.read() == b":1\r\n"


def test_a_client_that_waits_for_a_slow_reply_is_not_idle(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url, "--timeout", "1")
    with Connection(proxy.port) as waiting, Connection(proxy.port) as silent:
        for client in (waiting, silent):
            assert client.ask("PING") == b"+PONG\r\n"
        os.kill(server.pid, signal.SIGSTOP)
        try:
            waiting.send(command("GET", "k"))
            assert silent.read_to_end() == b""
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert waiting.read() == b"$-1\r\n"


def test_a_client_that_waits_for_redis_to_take_its_request_is_not_idle(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url, "--timeout", "2")
    large = command("SET", "k", b"v" * 64 * MIB)  # made before: it may take seconds
    with Connection(proxy.port) as sending:
        os.kill(server.pid, signal.SIGSTOP)
        try:
            with ThreadPoolExecutor() as sender:
                sent = sender.submit(sending.send, large)
                for _ in range(2):
                    with Connection(proxy.port) as silent:
                        assert silent.read_to_end() == b""
                os.kill(server.pid, signal.SIGCONT)
                sent.result()
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert sending.read() == b"+OK\r\n"


# Stalled.


def _lazy(proxy: Proxy, server: AnyServer, stack: ExitStack, count: int) -> Connection:
    """A client that reads nothing, while Redis has more replies for it than sockets hold."""
    with Connection(proxy.port) as client:
        client.ask("SET", "big", b"v" * MIB)
        client.ask("CONFIG", "RESETSTAT")
    lazy = stack.enter_context(Connection(proxy.port))
    lazy.send(command("GET", "big") * count)
    wait_until(lambda: calls(server.port, "get") == count, "Redis has answered")
    return lazy


@both_loops
def test_a_client_that_takes_nothing_for_too_long_is_closed(
    start_proxy: StartProxy, server: AnyServer, stack: ExitStack
) -> None:
    proxy = start_proxy(server.url, "--stall-timeout", "1")
    lazy = _lazy(proxy, server, stack, 32)
    wait_until(lambda: _gone(proxy, "stalled"), "it is closed")
    assert "it has not read its replies for 1 s" in proxy.stderr
    with pytest.raises((ConnectionResetError, EOFError)):
        lazy.read_many(32)


def test_a_client_that_leaves_replies_unread_is_closed_though_redis_has_ended(
    start_proxy: StartProxy, server: AnyServer, stack: ExitStack
) -> None:
    proxy = start_proxy(server.url, "--stall-timeout", "1")
    with Connection(proxy.port) as client:
        client.ask("SET", "big", b"v" * (8 * MIB))
    lazy = stack.enter_context(Connection(proxy.port))
    lazy.send(command("GET", "big") + command("QUIT"))
    wait_until(lambda: _gone(proxy, "client"), "it counts as ended by the client")


# Memory.


@both_loops
def test_a_subscriber_slower_than_its_channel_is_ended_by_redis_and_costs_the_proxy_little(
    start_server: StartServer, start_proxy: StartProxy, stack: ExitStack
) -> None:
    server = start_server(*["--client-output-buffer-limit", "pubsub", "16mb", "0", "0"])
    proxy = start_proxy(server.url)
    slow, busy = (stack.enter_context(Connection(proxy.port)) for _ in range(2))
    slow.ask("SUBSCRIBE", "news")
    before = proxy.rss_bytes()
    proxy.forget_peak()
    message = b"v" * MIB
    while busy.ask("PUBLISH", "news", message) == b":1\r\n":
        pass
    assert proxy.peak_bytes() - before < 8 * MIB
    one = b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$%d\r\n%b\r\n" % (MIB, message)
    received = slow.read_to_end()
    assert received == (one * (len(received) // len(one) + 1))[: len(received)]
    wait_until(lambda: _gone(proxy, "redis"), "it counts as ended by Redis")


@both_loops
def test_the_client_with_most_unread_replies_goes_if_all_together_have_too_much(
    start_proxy: StartProxy, server: AnyServer, stack: ExitStack
) -> None:
    proxy = start_proxy(server.url, "--max-buffer-bytes", str(8 * MIB))
    small, large = (stack.enter_context(Connection(proxy.port)) for _ in range(2))
    for client in (small, large):
        assert client.ask("HSET", "h", "f", "v") in (b":1\r\n", b":0\r\n")
    part = command("HSET", "h", "f", b"v" * (16 * MIB))
    small.send(part[: 2 * MIB])
    large.send(part[: 6 * MIB])
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        large.send(part[6 * MIB :] * 4)
    small.send(part[2 * MIB : 4 * MIB])
    with Connection(proxy.port) as other:
        assert other.ask("PING") == b"+PONG\r\n"
    assert "closed: over max_buffer_bytes: " in proxy.stderr
    assert proxy.stderr.count("closed: ") == 1
    wait_until(lambda: _gone(proxy, "buffers"), "it is counted")


def test_many_that_do_not_read_are_bounded_together(
    start_server: StartServer, start_proxy: StartProxy, stack: ExitStack
) -> None:
    server = start_server()
    proxy = start_proxy(server.url, "--max-buffer-bytes", str(MIB))
    for _ in range(12):
        lazy = stack.enter_context(Connection(proxy.port))
        lazy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.send(command("SET", "big", b"v" * MIB) + command("GET", "big") * 16)
    wait_until(lambda: _gone(proxy, "buffers"), "some of them are closed")
    with Connection(proxy.port) as other:
        assert other.ask("PING") == b"+PONG\r\n"


@both_loops
def test_replies_to_a_client_that_has_gone_are_dropped(
    start_server: StartServer, start_proxy: StartProxy, stack: ExitStack
) -> None:
    """Redis resets the connection, with replies unread that nobody is there to take."""
    server = start_server()
    proxy = start_proxy(server.url, "--log-level", "debug")
    lazy = _lazy(proxy, server, stack, 32)
    unsent: list[list[str]] = [[]]

    def stands() -> bool:
        unsent.append([each["omem"] for each in connections(server.port)])
        return unsent[-1] == unsent[-2]

    wait_until(stands, "the proxy leaves replies unread")
    os.kill(server.pid, signal.SIGSTOP)
    lazy.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):  # now the proxy has bytes that Redis does not take
        lazy.send(command("SET", "big", b"v" * 32 * MIB))
    lazy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    lazy.close()
    wait_until(lambda: "closed after" in proxy.stderr, "the proxy knows")
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: "is unavailable" in proxy.stderr, "the proxy has seen the reset")
    assert not proxy.faults
