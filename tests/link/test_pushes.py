"""The push connection: what Redis pushes is told at once, and a loss is told once."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import cast

import pytest

from tests.link.conftest import KEYS, until
from tests.support.containers import AnyServer
from tests.support.processes import wait_until
from tests.support.redis_client import Client
from tests.support.server_queries import connections
from ttlproxy.addresses import Upstream
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.pushes import announcing
from ttlproxy.link.knowledge.announcements import Announcements, Pushes

LIMIT_S = 30.0


class Told:
    """What a push connection has told, in this order."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []
        self._more = asyncio.Event()

    def noted(self, kind: str) -> Callable[..., None]:
        def note(*what: object) -> None:
            self.seen.append((kind, *what))
            self._more.set()

        return note

    async def until(self, *wanted: tuple[object, ...]) -> None:
        while len(self.seen) < len(wanted):
            await self._more.wait()
            self._more.clear()
        assert self.seen == list(wanted)


@pytest.fixture
async def told() -> Told:
    return Told()


@pytest.fixture
async def another(told: Told) -> AsyncIterator[Callable[[], Pushes]]:
    """`another()` is a push connection that is not open yet."""
    made = list[Pushes]()

    def make() -> Pushes:
        made.append(Pushes(KEYS, _heard(told), told.noted("loss")))
        return made[-1]

    yield make
    for each in made:
        each.close()


def _heard(told: Told) -> Announcements:
    """Takes each push by its name."""
    actions = SimpleNamespace(version_announced=told.noted("version"))
    heard = SimpleNamespace(
        announced=told.noted("announcement"),
        swapped=told.noted("swap"),
        ruled=told.noted("rules"),
        context=SimpleNamespace(actions=actions),
        flushed=told.noted("flush"),
        greeted=told.noted("hello"),
        walks=SimpleNamespace(heard=told.noted("walks")),
        layout_told=told.noted("layout"),
        on_news=lambda news: told.noted("news")(*news),
    )
    return cast(Announcements, heard)


@pytest.fixture
async def pushes(another: Callable[[], Pushes]) -> Pushes:
    return another()


def _ours(port: int) -> list[dict[str, str]]:
    return [each for each in connections(port) if each["name"] == "ttlproxy:pushes"]


async def test_an_announcement_is_there_when_its_writer_has_the_reply(
    pushes: Pushes, told: Told, server: AnyServer, direct: Client
) -> None:
    await pushes.open(Upstream.parse(server.url), LIMIT_S, 0)
    pushes.receive()
    for name in (KEYS.announcement(3, 12, b"k"), b"__ttl:!swap:0:3", b"__ttl:!rules:2:1:a*"):
        direct.ask("SET", name, "", "PX", 1000)
        pushes.receive()
    direct.ask("SET", KEYS.hello, "")
    pushes.receive()
    for nothing in ("__ttl:!junk", "k", "__ttl:schedule"):
        direct.ask("SET", nothing, "")
        pushes.receive()
    direct.ask("FLUSHALL")
    # Redis writes the reply to a flush before the push, and may be interrupted between the two.
    await until(lambda: len(told.seen) == 5)
    assert told.seen == [
        ("announcement", 3, b"k", 12),
        ("swap", 0, 3),
        ("rules", 2, True, b"a*"),
        ("hello",),
        ("flush",),
    ]


async def test_a_name_is_announced_by_a_key_that_does_not_stay(
    pushes: Pushes, told: Told, server: AnyServer, direct: Client
) -> None:
    await pushes.open(Upstream.parse(server.url), LIMIT_S, 0)
    direct.ask_many(announcing(KEYS.hello))
    pushes.receive()
    assert set(told.seen) == {("hello",)}
    assert direct.ask("DBSIZE") == 0


async def test_all_that_comes_is_told_also_while_nobody_asks(
    pushes: Pushes, told: Told, server: AnyServer, direct: Client
) -> None:
    await pushes.open(Upstream.parse(server.url), LIMIT_S, 0)
    names = {KEYS.announcement(0, at, b"k" * 100): at for at in range(2000)}
    direct.ask("MSET", *(word for name in names for word in (name, "")))
    await until(lambda: len(told.seen) == len(names))
    assert {at for _, _, _, at in told.seen} == set(names.values())


async def test_a_loss_is_told_once_after_what_came_before(
    pushes: Pushes, told: Told, server: AnyServer, direct: Client
) -> None:
    await pushes.open(Upstream.parse(server.url), LIMIT_S, 0)
    (ours,) = _ours(server.port)
    direct.ask("SET", KEYS.hello, "")
    direct.ask("CLIENT", "KILL", "ID", ours["id"])
    await told.until(("hello",), ("loss",))
    pushes.receive()
    pushes.close()
    assert len(told.seen) == 2


async def test_a_closed_connection_tells_nothing_and_opens_no_more(
    pushes: Pushes, told: Told, server: AnyServer, direct: Client
) -> None:
    upstream = Upstream.parse(server.url)
    await pushes.open(upstream, LIMIT_S, 0)
    pushes.close()
    direct.ask("SET", KEYS.hello, "")
    pushes.receive()
    assert not told.seen
    with pytest.raises(UpstreamError, match="no longer needed"):
        await pushes.open(upstream, LIMIT_S, 0)
    await asyncio.to_thread(wait_until, lambda: not _ours(server.port), "both are closed")


async def test_one_that_is_cancelled_when_it_is_just_there_is_closed(
    pushes: Pushes, server: AnyServer
) -> None:
    """The loop does not run meanwhile, so nobody has taken what the thread has made."""
    opening = asyncio.create_task(pushes.open(Upstream.parse(server.url), LIMIT_S, 0))
    await asyncio.sleep(0)
    wait_until(lambda: any("t" in each["flags"] for each in _ours(server.port)), "it tracks keys")
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    pushes.close()
    await asyncio.to_thread(wait_until, lambda: not _ours(server.port), "it is closed")


async def test_one_is_opened_after_another_was_closed(
    another: Callable[[], Pushes], told: Told, server: AnyServer, direct: Client
) -> None:
    for _ in range(2):
        pushes = another()
        await pushes.open(Upstream.parse(server.url), LIMIT_S, 0)
        direct.ask("SET", KEYS.hello, "")
        await told.until(("hello",))
        told.seen.clear()
        pushes.close()


async def test_it_logs_in_as_the_url_says(
    another: Callable[[], Pushes], server: AnyServer, direct: Client
) -> None:
    async def log_in(login: str) -> None:
        upstream = Upstream.parse(f"redis://{login}@127.0.0.1:{server.port}")
        await another().open(upstream, LIMIT_S, 0)

    direct.ask("ACL", "SETUSER", "narrow", "on", ">word", "~*", "&*", "+@all")
    try:
        await log_in("narrow:word")
        await log_in(":word")
        assert {each["user"] for each in _ours(server.port)} == {"narrow", "default"}
        with pytest.raises(UpstreamError, match="WRONGPASS"):
            await log_in("narrow:other")
        direct.ask("ACL", "SETUSER", "narrow", "-client")
        with pytest.raises(UpstreamError, match="NOPERM"):
            await log_in("narrow:word")
    finally:
        direct.ask("ACL", "DELUSER", "narrow")


@pytest.fixture
def closing_server() -> Iterator[int]:
    """The port of what closes each connection after a first request."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def close_one() -> None:
            accepted, _ = listener.accept()
            accepted.recv(1000)
            accepted.close()

        thread = threading.Thread(target=close_one)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


async def test_a_server_that_closes_while_it_opens(pushes: Pushes, closing_server: int) -> None:
    with pytest.raises(UpstreamError, match="closed the push connection"):
        await pushes.open(Upstream.parse(f"redis://127.0.0.1:{closing_server}"), LIMIT_S, 0)


async def test_a_server_that_does_not_answer(pushes: Pushes) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        silent = Upstream.parse(f"redis://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(TimeoutError):
            await pushes.open(silent, 0.05, 0)
