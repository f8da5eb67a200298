"""Announcements that are missed, or arrive while schedules are read and proxies are counted."""

import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.deadlines import deadline_ms_of, until_past
from tests.support.event_loops import both_loops
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.relay import Gate, Relay
from tests.support.server_queries import connections, let_beat


class _InTheMiddleOfALoad:
    """Runs `act` before the first read of a schedule after it was set."""

    def __init__(self) -> None:
        self.act: Callable[[], None] | None = None
        self.over = threading.Event()  # the proxy has read it and gone on
        self._acted = False

    def __call__(self, data: bytes) -> None:
        act = self.act
        if act is not None and b"ZSCAN" in data:
            self.act = None
            act()
            self._acted = True  # only now: other connections go on meanwhile
        elif self._acted and any(word in data for word in (b"$4\r\nSCAN", b"ZSCAN", b"INFO")):
            self.over.set()


def test_databases_that_change_places_while_schedules_are_read_are_both_known_afterwards(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server, middle = start_server(), _InTheMiddleOfALoad()
    with (
        Relay(server.port, 1 << 16, middle) as relay,
        Connection(server.port) as direct,
        Connection(start_proxy(f"redis://127.0.0.1:{relay.port}").port) as app,
    ):
        direct.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
        app.ask("HSET", "h", "a", 1, "b", 2)
        app.ask("HPEXPIREFIELD", "h", "a", 30)
        deadline_ms = deadline_ms_of(direct, "h", "a")

        def swap() -> None:
            assert app.ask("SWAPDB", 0, 7) == b"+OK\r\n"
            direct.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
            until_past(direct, deadline_ms)

        middle.act = swap
        with Connection(server.port) as elsewhere:
            elsewhere.ask("SELECT", 9)
            elsewhere.ask("FLUSHDB")  # all schedules are read again after it
        assert middle.over.wait(30)
        app.ask("SELECT", 7)
        assert app.ask("HLEN", "h") == b":1\r\n"


def _push_connections(port: int) -> list[int]:
    """Their ids: later connections have larger ones."""
    return [int(each["id"]) for each in connections(port) if each["name"] == "ttlproxy:pushes"]


@both_loops
def test_a_proxy_that_misses_announcements_rewrites_nothing_by_what_it_knew(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """It notices the loss only when it reads the push connection for a client's request."""
    server = start_server()
    proxies = [start_proxy(server.url) for _ in range(2)]
    with Connection(server.port) as direct, ExitStack() as stack:
        one, other = (stack.enter_context(Connection(proxy.port)) for proxy in proxies)
        for number in range(3):
            key = f"h{number}"
            assert other.ask("HSET", key, "a", 1) == b":1\r\n"
            pushes = max(_push_connections(server.port))
            proxies[1].child.send_signal(signal.SIGSTOP)
            other.send(command("PING"))  # so that it reads the client first
            direct.ask("CLIENT", "KILL", "ID", pushes)
            assert one.ask("HEXPIREFIELD", key, "a", 100) == b":1\r\n"
            other.send(command("HSET", key, "a", 2))
            proxies[1].child.send_signal(signal.SIGCONT)
            assert other.read_many(2) == [b"+PONG\r\n", b":0\r\n"]
            assert one.ask("HTTLFIELD", key, "a") == b":-1\r\n"


def test_a_proxy_that_is_not_alone_looks_at_announcements_before_each_request(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """Long after the other's greeting, too: each heartbeat counts who tracks keys."""
    server = start_server()
    proxies = [start_proxy(server.url) for _ in range(2)]
    with Connection(server.port) as direct, ExitStack() as stack:
        direct.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
        one, other = (stack.enter_context(Connection(proxy.port)) for proxy in proxies)
        let_beat(server.port, 6)
        for number in range(3):
            key = f"h{number}"
            assert other.ask("HSET", key, "a", 1) == b":1\r\n"
            proxies[1].child.send_signal(signal.SIGSTOP)
            other.send(command("PING"))  # so that it reads the client first
            assert one.ask("HEXPIREFIELD", key, "a", 100) == b":1\r\n"
            other.send(command("HSET", key, "a", 2))
            proxies[1].child.send_signal(signal.SIGCONT)
            assert other.read_many(2) == [b"+PONG\r\n", b":0\r\n"]
            assert one.ask("HTTLFIELD", key, "a") == b":-1\r\n"


def test_a_plain_write_that_waits_for_a_reap_while_another_gives_the_first_deadline(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server, held = start_server(), Gate(b"EVAL", b"due-before")
    with (
        Relay(server.port, 1 << 16, held) as relay,
        Connection(server.port) as direct,
        Connection(start_proxy(f"redis://127.0.0.1:{relay.port}").port) as app,
        Connection(start_proxy(server.url).port) as other,
    ):
        direct.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
        other.ask("HSET", "h", "a", 1)
        other.ask("HSET", "due-before", "a", 1)
        other.ask("HPEXPIREFIELD", "due-before", "a", 10)
        until_past(direct, deadline_ms_of(direct, "due-before", "a"))
        held.arm()
        app.send(command("HSET", "h", "a", 2) + command("HLEN", "due-before"))
        assert held.held.wait(60)
        assert other.ask("HEXPIREFIELD", "h", "a", 100) == b":1\r\n"
        held.release()
        assert app.read_many(2) == [b":0\r\n", b":0\r\n"]
        assert other.ask("HTTLFIELD", "h", "a") == b":-1\r\n"


def test_a_reap_that_found_nothing_left_while_another_gives_a_deadline_forgets_no_key(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """The reap's answer is older than the announcement, which comes on another connection."""
    server, reaped = start_server(), Gate(b"$4\r\nhash\r\n")
    with (
        Relay(server.port, 1 << 16, on_reply=reaped) as relay,
        Connection(server.port) as direct,
        ExitStack() as stack,
    ):
        direct.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
        port = start_proxy(f"redis://127.0.0.1:{relay.port}").port
        app, second = (stack.enter_context(Connection(port)) for _ in range(2))
        other = stack.enter_context(Connection(start_proxy(server.url).port))
        stack.enter_context(reaped)
        other.ask("HSET", "h", "a", 1, "b", 1)
        other.ask("HPEXPIREFIELD", "h", "a", 10)
        until_past(direct, deadline_ms_of(direct, "h", "a"))
        reaped.arm()
        app.send(command("HLEN", "h"))
        assert reaped.held.wait(60)
        assert other.ask("HEXPIREFIELD", "h", "b", 100) == b":1\r\n"
        other.ask("SADDEX", "announced after it", 50, "a")
        wait_until(
            lambda: b"managed_keys:2\r\n" in second.ask("INFO", "ttlproxy"), "both announcements"
        )
        reaped.release()
        assert app.read() == b":1\r\n"
        assert app.ask("HSET", "h", "b", 2) == b":0\r\n"
        assert other.ask("HTTLFIELD", "h", "b") == b":-1\r\n"


def test_a_proxy_whose_push_connection_is_lost_while_it_reads_schedules_waits_for_the_next(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """What it has read is complete only up to the loss: later announcements do not reach it."""
    server = start_server()
    hello = Gate(b"HELLO")
    kept, kept_again = (Gate(b"HMGET", b"ttlproxy-state") for _ in range(2))
    read, announced = (Gate(b"in-the-schedule") for _ in range(2))

    def on_request(data: bytes) -> None:
        for gate in (hello, kept_again, kept):
            gate(data)

    def on_reply(data: bytes) -> None:
        for gate in (read, announced):
            gate(data)

    with (
        Relay(server.port, 1 << 16, on_request, on_reply) as relay,
        Connection(server.port) as direct,
        Connection(start_proxy(f"redis://127.0.0.1:{relay.port}").port) as app,
        hello,
        kept,
        kept_again,
        read,
        announced,
    ):
        (pushes,) = _push_connections(server.port)
        with Connection(start_proxy(server.url).port) as other:
            assert app.ask("HSET", "h", "a", 1) == b":1\r\n"
            announced.arm()
            assert other.ask("SADDEX", "in-the-schedule", 1000, "a") == b":1\r\n"
            assert announced.held.wait(60)
            announced.release()
            read.arm()
            assert direct.ask("CLIENT", "KILL", "ID", pushes) == b":1\r\n"
            assert read.held.wait(60)
            hello.arm()
            pushes = max(_push_connections(server.port))
            assert direct.ask("CLIENT", "KILL", "ID", pushes) == b":1\r\n"
            assert hello.held.wait(60)
            assert other.ask("HEXPIREFIELD", "h", "a", 100) == b":1\r\n"
            app.send(command("HSET", "h", "a", 2))
            kept.arm()
            read.release()
            assert kept.held.wait(60)
            kept_again.arm()
            kept.release()
            assert kept_again.held.wait(60)  # another heartbeat
            kept_again.release()
            hello.release()
            assert app.read() == b":0\r\n"
            assert other.ask("HTTLFIELD", "h", "a") == b":-1\r\n"


def test_a_proxy_that_hears_of_another_while_it_counts_them_looks_at_announcements(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """The count is older than the greeting: a proxy that believes it would think it is alone."""
    server = start_server()
    counted = Gate(b"tracking_clients:1\r\n", b"\r\n*2\r\n$10\r\n")  # with TIME: a heartbeat
    kept = Gate(b"HMGET", b"ttlproxy-state")
    announced = {
        key: threading.Event() for key in (b":known:first", b":known:dated", b":known:behind")
    }

    def on_reply(data: bytes) -> None:
        for key, event in announced.items():
            if b"invalidate" in data and key in data:
                event.set()
        counted(data)

    with (
        Relay(server.port, 1 << 16, kept, on_reply) as relay,
        Connection(server.port) as direct,
        ExitStack() as stack,
    ):
        direct.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
        proxy = start_proxy(f"redis://127.0.0.1:{relay.port}")
        app = stack.enter_context(Connection(proxy.port))
        stack.enter_context(counted)
        stack.enter_context(kept)
        assert app.ask("HSET", "known:dated", "a", 1, "b", 2) == b":2\r\n"
        counted.arm()
        assert counted.held.wait(60)
        other = stack.enter_context(Connection(start_proxy(server.url).port))
        assert (
            other.ask("SADDEX", "known:first", 50, "a") == b":1\r\n"
        )  # announced after the greeting
        assert announced[b":known:first"].wait(60)
        kept.arm()
        counted.release()
        assert kept.held.wait(60)  # the heartbeat stops here
        proxy.child.send_signal(signal.SIGSTOP)
        app.send(command("PING"))  # so that it reads the client first
        assert other.ask("HPEXPIREFIELD", "known:dated", "a", 1) == b":1\r\n"
        until_past(direct, deadline_ms_of(direct, "known:dated", "a"))
        assert announced[b":known:dated"].wait(60)
        other.ask("SADDEX", "known:behind", 50, "a")
        assert announced[b":known:behind"].wait(60)  # so all earlier data has been relayed
        app.send(command("HLEN", "known:dated"))
        proxy.child.send_signal(signal.SIGCONT)
        kept.release()
        assert app.read_many(2) == [b"+PONG\r\n", b":1\r\n"]


@pytest.mark.parametrize("flags", [(), ("--share-upstream", "2")], ids=["alone", "shared"])
def test_a_heartbeat_that_is_answered_just_after_a_loss_lets_nobody_be_served(
    start_server: StartServer, start_proxy: StartProxy, flags: tuple[str, ...]
) -> None:
    """All comes while the proxy stands still: it reads the client first, then the answer."""
    server = start_server()
    answered = Gate(b"tracking_clients:2\r\n", b"\r\n*2\r\n$10\r\n")  # with TIME: a heartbeat
    with (
        Relay(server.port, 1 << 16, on_reply=answered) as relay,
        Connection(start_proxy(server.url).port) as one,
        Connection(server.port) as direct,
        ExitStack() as stack,
    ):
        assert one.ask("ONWRITE", "ruled", "EX", 100) == b"+OK\r\n"
        proxy = start_proxy(f"redis://127.0.0.1:{relay.port}", *flags)
        stack.enter_context(answered)
        other = stack.enter_context(Connection(proxy.port))
        assert other.ask("HSET", "h", "a", 1) == b":1\r\n"
        answered.arm()
        assert answered.held.wait(60)
        proxy.child.send_signal(signal.SIGSTOP)
        other.send(command("PING"))
        ended = relay.ended
        direct.ask("CLIENT", "KILL", "ID", max(_push_connections(server.port)))
        wait_until(lambda: relay.ended > ended, "the loss has reached the proxy")
        assert one.ask("HEXPIREFIELD", "h", "a", 100) == b":1\r\n"
        assert one.ask("ONWRITE", "ruled", "DEL") == b"+OK\r\n"
        other.send(command("HSET", "h", "a", 2) + command("SADD", "ruled", "a"))
        sent = relay.sent
        answered.release()
        wait_until(lambda: relay.sent > sent, "the answer has reached the proxy")
        proxy.child.send_signal(signal.SIGCONT)
        assert other.read_many(3) == [b"+PONG\r\n", b":0\r\n", b":1\r\n"]
        assert one.ask("HTTLFIELD", "h", "a") == b":-1\r\n"
        assert one.ask("STTLMEMBER", "ruled", "a") == b":-1\r\n"
