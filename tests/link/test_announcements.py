"""The push connection of a link: what comes over it, and what its loss does."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.conftest import StartServer
from tests.link.conftest import KEYS, manage, until
from tests.link.running import Running, ids, kill, running
from tests.support.containers import AnyServer
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.redis_content import STATE
from ttlproxy.core.registry import UNKNOWN
from ttlproxy.errors import UpstreamError
from ttlproxy.link import announcing
from ttlproxy.link.knowledge import announcements as module
from ttlproxy.link.life import heartbeat
from ttlproxy.link.server.compatibility import proxy_channel
from ttlproxy.net.tasks import cancel

# An instant before which all is known.
SOON_MS = 20_000
PUSHES = "ttlproxy:pushes"
FAMILIES = "ttlproxy:families"
DEADLINES = "ttlproxy:deadlines"


@pytest.fixture(autouse=True)
def _rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No heartbeat comes by itself, but the first."""
    monkeypatch.setattr(heartbeat, "EVERY_S", 1e6)


@pytest.fixture
async def life(server: AnyServer) -> AsyncIterator[Running]:
    async with running(Running(server.url)) as link:
        await link.beats(2)
        yield link


def _announce(direct: Client, name: bytes) -> None:
    for words in announcing(name):
        direct.ask(*words)


async def test_a_deadline_that_another_proxy_sets_is_known(life: Running, direct: Client) -> None:
    soon_ms = direct.now_ms() + SOON_MS
    _announce(direct, KEYS.announcement(0, soon_ms, b"s"))
    await until(lambda: life.context.registry.bounds(0) == {b"s": soon_ms})


async def test_announcements_that_have_come_are_taken_without_waiting(
    life: Running, direct: Client
) -> None:
    _announce(direct, KEYS.announcement(0, direct.now_ms() + SOON_MS, b"s"))
    while not life.context.registry.bounds(0):
        life.link.announcements.receive()  # the event loop gets no turn
    life.link.announcements.connection = None
    life.link.announcements.receive()


async def test_an_announcement_comes_before_the_reply_also_while_proxies_are_told_news(
    start_server: StartServer,
) -> None:
    """Where its connection gets a message in the same turn of the server, Redis writes both behind
    the reply, and behind what others get of the message."""
    server = start_server()
    async with running(Running(server.url)) as life:
        await life.beats(1)
        with ExitStack() as stack:
            teller, *others, writer = (
                stack.enter_context(Connection(server.port)) for _ in range(100)
            )
            for other in others:
                other.ask("PSUBSCRIBE", "*")
            channel, soon_ms = proxy_channel(life.context), life.context.clock.now_ms() + SOON_MS
            for number in range(10):
                key = b"s%d" % number
                server.child.send_signal(signal.SIGSTOP)  # both are there before it reads
                teller.send(command("PUBLISH", channel, b"f:s"))
                writer.send(command("SET", KEYS.announcement(0, soon_ms, key), ""))
                server.child.send_signal(signal.SIGCONT)
                writer.read()
                life.link.announcements.receive()
                assert life.context.registry.bounds(0)[key] == soon_ms


async def test_a_heartbeat_that_goes_on_just_after_a_loss_lets_nobody_be_served(
    life: Running, server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss was seen for a client's request: the task of the connection has had no turn yet."""
    link, served = life.link, list[bool]()
    keep_serving = link.heartbeat._keep_serving

    async def lose_first(*asked: Any) -> None:
        if not served:
            kill(server, direct, PUSHES)
            while link.serving.now:
                link.announcements.receive()
        await keep_serving(*asked)
        served.append(link.serving.now)

    monkeypatch.setattr(link.heartbeat, "_keep_serving", lose_first)
    link.jobs.beat()
    await until(lambda: link.serving.now and bool(served))
    assert not served[0]
    assert served[-1]


async def test_whoever_asks_learns_whether_the_push_connection_was_lost(
    life: Running, server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    announcements, gaps = life.link.announcements, list[object]()
    life.context.on_gap = lambda: gaps.append(announcements.connection)
    assert all(await asyncio.gather(*(announcements.has_no_gap() for _ in range(2))))
    assert not gaps
    kill(server, direct, PUSHES)
    assert not await announcements.has_no_gap()
    assert gaps
    await until(lambda: life.link.serving.now)
    gaps.clear()
    monkeypatch.setattr(module, "_ANSWER_S", 0.01)
    direct.ask("CLIENT", "PAUSE", 100, "ALL")
    assert not await announcements.has_no_gap()
    assert gaps, "one that does not answer is closed"


async def test_greetings_are_counted(life: Running, direct: Client) -> None:
    before = life.link.announcements.greetings
    _announce(direct, KEYS.hello)
    await until(lambda: life.link.announcements.greetings > before)
    assert life.link.announcements.greetings <= before + 2, "it is set and deleted"
    assert life.context.registry.expecting


async def test_a_proxy_greets_the_others(life: Running, server: AnyServer) -> None:
    greetings = life.link.announcements.greetings
    async with running(Running(server.url)):
        await until(lambda: life.link.announcements.greetings > greetings)


async def test_a_proxy_that_asks_hears_no_greetings_and_deadlines_only_while_it_leads(
    server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FEW", 0)
    others = [Client(server.port, protocol=3) for _ in range(2)]
    for other in others:
        other.ask("CLIENT", "TRACKING", "ON")
    async with running(Running(server.url)) as life:
        await life.beats(1)
        for other in others:
            other.close()
        for name in (KEYS.hello, b"__ttl:!swap:0:1"):
            _announce(direct, name)
        await until(lambda: life.link.announcements.swaps > 0)
        assert life.link.announcements.greetings == 0
        assert not ids(server, DEADLINES)
        life.context.agenda.lead()
        await until(lambda: bool(ids(server, DEADLINES)))


async def test_after_a_swap_nothing_is_known_until_all_was_read(
    life: Running, direct: Client
) -> None:
    registry, swaps = life.context.registry, life.link.announcements.swaps
    registry.manages([0])  # so the state is needed
    life.link.announcements.load_changed = None  # else it is read at once
    _announce(direct, KEYS.announcement(0, direct.now_ms() + SOON_MS, b"s"))
    await until(lambda: b"s" in registry.bounds(0))
    direct.ask("DEL", STATE)
    direct.ask("SET", KEYS.prefix + b"!swap:0:3", "")
    direct.ask("DEL", KEYS.prefix + b"!swap:0:3")
    await until(lambda: life.link.announcements.swaps > swaps)
    assert registry.until_ms == UNKNOWN
    assert registry.bounds(0) == {}
    assert registry.view((3,)).names[b"s"] == UNKNOWN, "it may be due there now"
    await until(lambda: direct.ask("EXISTS", STATE) == 1)


async def test_after_a_flush_the_shared_state_is_written_at_once(
    life: Running, direct: Client
) -> None:
    life.context.registry.manages([0])  # so the state is needed
    await life.link.shared_state.stored()
    flushes, answers = life.link.announcements.flushes, life.link.heartbeat.answers
    secret = direct.ask("HGET", STATE, "secret")
    assert secret
    direct.ask("FLUSHALL")
    await until(lambda: life.link.announcements.flushes > flushes)
    await until(lambda: direct.ask("HGET", STATE, "secret") == secret)
    assert life.link.announcements.flushes == flushes + 1
    assert life.link.heartbeat.answers == answers, "before the next heartbeat"


@pytest.mark.parametrize("words", [("SET", KEYS.prefix + b"!swap:0:3", ""), ("FLUSHALL",)])
async def test_rules_are_forgotten_after_a_swap_and_a_flush(
    life: Running, redis: Redis, direct: Client, words: tuple[str | bytes, ...]
) -> None:
    for db in (0, 3):
        await life.context.actions.read(redis, db)
    assert life.context.actions.unread == []
    # Else they are read again at once.
    life.link.announcements.load_changed = None
    direct.ask(*words)
    await until(lambda: life.context.actions.unread == [0, 3])


async def test_a_lost_connection_is_opened_again_and_what_was_missed_is_read(
    life: Running, server: AnyServer, direct: Client
) -> None:
    soon_ms = direct.now_ms() + SOON_MS
    for number in range(2 * module._MOST_LOSSES):
        before = life.link.announcements.connection
        assert before is not None
        kill(server, direct, PUSHES)
        manage(direct, f"k{number}", m=soon_ms)
        await until(lambda: life.link.announcements.connection is not before)  # noqa: B023
        await life.link.serving.ready.wait()
        assert len(life.context.registry.bounds(0)) == number + 1
    assert life.changes == 0


async def test_nobody_is_served_without_announcements(
    life: Running, server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_open, really_open = asyncio.Event(), module.Pushes.open

    async def open_later(self: module.Pushes, *words: Any) -> None:
        await may_open.wait()
        await really_open(self, *words)

    monkeypatch.setattr(module.Pushes, "open", open_later)
    kill(server, direct, PUSHES)
    await until(lambda: not life.link.serving.now)
    assert not life.link.serving.ready.is_set()
    assert life.link.announcements.connection is None
    await life.beats()
    assert not life.link.serving.now
    may_open.set()
    await life.link.serving.ready.wait()
    assert life.changes == 0


@pytest.mark.parametrize("name", [PUSHES, FAMILIES])
async def test_a_loss_counts_as_soon_as_it_is_met(
    life: Running, server: AnyServer, direct: Client, name: str
) -> None:
    kill(server, direct, name)
    while life.link.serving.now:
        life.link.announcements.receive()  # as for a client's request; the event loop gets no turn
    await life.link.serving.ready.wait()
    assert len(ids(server, PUSHES)) == len(ids(server, FAMILIES)) == 1


async def test_a_pause_of_writes_delays_serving_for_a_moment_only(
    life: Running, server: AnyServer, direct: Client
) -> None:
    before = life.link.announcements.connection
    direct.ask("CLIENT", "PAUSE", 60_000, "WRITE")
    try:
        kill(server, direct, PUSHES)
        await until(lambda: life.link.announcements.connection not in (None, before))
        await life.link.serving.ready.wait()
    finally:
        direct.ask("CLIENT", "UNPAUSE")


async def test_others_are_greeted_before_anybody_is_served(
    life: Running, server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GREETING_S", 1e6)
    other = Client(server.port)
    other.ask("SUBSCRIBE", KEYS.broadcast)
    direct.ask("CLIENT", "PAUSE", 60_000, "WRITE")
    try:
        kill(server, direct, PUSHES)
        await until(lambda: bool(ids(server, "ttlproxy:hello")))
        await life.beats()
        assert not life.link.serving.now
    finally:
        direct.ask("CLIENT", "UNPAUSE")
    await life.link.serving.ready.wait()
    other.close()


async def test_a_greeting_ends_with_its_life(server: AnyServer, direct: Client) -> None:
    link = Running(server.url)
    task = asyncio.create_task(link.link.run())
    await link.link.serving.ready.wait()
    before = link.link.announcements.connection
    direct.ask("CLIENT", "PAUSE", 60_000, "WRITE")
    try:
        kill(server, direct, PUSHES)
        await until(lambda: link.link.announcements.connection not in (None, before))
        await cancel(task)
        assert "greeting" not in [task.get_name() for task in asyncio.all_tasks()]
    finally:
        direct.ask("CLIENT", "UNPAUSE")


async def test_a_proxy_that_may_not_greet_serves(server: AnyServer, direct: Client) -> None:
    direct.ask("ACL", "SETUSER", "narrow", "on", ">word", "~*", "&*", "+@all", "-set", "-del")
    try:
        async with running(Running(f"redis://narrow:word@127.0.0.1:{server.port}")):
            await until(lambda: not ids(server, "ttlproxy:hello"))
    finally:
        direct.ask("ACL", "DELUSER", "narrow")


async def test_at_the_end_nothing_is_left(server: AnyServer, direct: Client) -> None:
    tasks = asyncio.all_tasks()
    async with running(Running(server.url)) as link:
        await until(lambda: not ids(server, "ttlproxy:hello"))
    assert link.link.announcements.connection is None
    assert not link.link.serving.now
    assert asyncio.all_tasks() == tasks
    await until(lambda: not ids(server, PUSHES) and not ids(server, FAMILIES))


# Servers that let nobody in.


class Port:
    """A port that closes each connection at once, or says nothing; met: how many came."""

    def __init__(self, *, is_silent: bool) -> None:
        self.met = 0
        self._is_silent = is_silent
        self._kept = list[asyncio.StreamWriter]()

    def serve(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.met += 1
        if self._is_silent:
            self._kept.append(writer)
        else:
            writer.close()

    def close(self) -> None:
        for writer in self._kept:
            writer.close()


async def _hear(port: Port, *settings: str) -> tuple[Running, asyncio.Task[None], asyncio.Server]:
    listening = await asyncio.start_server(port.serve, "127.0.0.1", 0)
    url = f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    link = Running(url, *settings)
    return link, asyncio.create_task(link.link.announcements.run()), listening


async def test_several_failures_in_a_row_are_raised() -> None:
    port = Port(is_silent=False)
    _, hearing, listening = await _hear(port)
    with pytest.raises((UpstreamError, OSError)):
        await hearing
    listening.close()
    assert port.met == module._MOST_LOSSES + 1


async def test_a_connection_that_lasts_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HEALTHY_MS", -1)
    port = Port(is_silent=False)
    _, hearing, listening = await _hear(port)
    await until(lambda: port.met > 2 * module._MOST_LOSSES)
    await cancel(hearing)
    listening.close()


async def test_a_server_that_is_silent_is_tried_for_ever() -> None:
    port = Port(is_silent=True)
    link, hearing, listening = await _hear(port, "--connect-timeout", "0.01")
    await until(lambda: port.met > 2 * module._MOST_LOSSES)
    assert not link.link.serving.now
    await cancel(hearing)
    listening.close()
    port.close()
