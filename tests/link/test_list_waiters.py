"""Waits for items of lists: who gets which item, and when the list or Redis has to be asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing

import pytest

from tests.link.conftest import until
from tests.link.running import ids
from tests.support.containers import AnyServer
from tests.support.processes import CLOSED_PORT, wait_until
from tests.support.redis_client import Client
from tests.support.server_queries import until_blocked
from ttlproxy.addresses import Upstream
from ttlproxy.link.life import list_waiters as module
from ttlproxy.link.life.list_waiters import ListWaiters, Waiter
from ttlproxy.net.tasks import cancel

PLACE = (0, b"l")


@pytest.fixture
async def waiters(server: AnyServer) -> AsyncIterator[ListWaiters]:
    yield ListWaiters(lambda: Upstream.parse(server.url), lambda: 5.0)
    if serving := _lines():
        await asyncio.wait(serving)  # nobody waits any more, so they end


def _ours(server: AnyServer) -> list[str]:
    return ids(server, "ttlproxy:waiter")


def _lines() -> set[asyncio.Task[None]]:
    return {task for task in asyncio.all_tasks() if task.get_name() == "waiter"}


async def test_one_that_is_over_is_tried_no_more_and_lets_others_go_on() -> None:
    attempts = []

    async def attempt() -> bool:
        attempts.append("tried")
        return True

    waiter = Waiter(attempt, 0)
    await waiter.turn()
    assert waiter.answered.done()
    passed = asyncio.create_task(asyncio.sleep(0))
    while not passed.done():
        await waiter.turn()
    assert attempts == ["tried"]


async def test_one_that_leaves_takes_its_attempt_along() -> None:
    never = asyncio.Event()

    async def attempt() -> bool:
        return await never.wait()

    waiter = Waiter(attempt, 0)
    turn = asyncio.create_task(waiter.turn())
    await asyncio.sleep(0)
    await waiter.leave()
    await turn
    assert not waiter.answered.done()


class Attempts:
    """Attempts that end when they are told to."""

    def __init__(self, answer: bool) -> None:
        self.begun, self.cancelled, self._answer = 0, False, answer
        self.go_on, self._changed = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> bool:
        self.begun += 1
        self._changed.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return self._answer

    async def until(self, begun: int) -> None:
        while self.begun < begun:
            self._changed.clear()
            await self._changed.wait()


async def test_an_attempt_that_is_under_way_when_the_time_is_over_counts(
    waiters: ListWaiters, direct: Client
) -> None:
    direct.ask("RPUSH", "l", "item")
    attempts, limit = Attempts(True), asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(waiters.wait(PLACE, attempts, limit))
    await attempts.until(1)
    limit.set_result(None)
    asyncio.get_running_loop().call_later(0.01, attempts.go_on.set)
    assert await waiting
    assert not attempts.cancelled


async def test_a_client_that_came_earlier_has_its_turn_first_though_it_joins_later(
    waiters: ListWaiters, direct: Client
) -> None:
    """It may have been held up, by the first deadline of a family."""
    direct.ask("RPUSH", "l", "item")
    loop = asyncio.get_running_loop()
    later, earlier = Attempts(True), Attempts(True)
    waiting = [
        asyncio.create_task(waiters.wait(PLACE, attempts, loop.create_future(), number))
        for attempts, number in ((later, 2), (earlier, 1))
    ]
    await earlier.until(1)
    assert later.begun == 0
    await cancel(*waiting)


async def test_a_client_that_is_gone_takes_the_attempt_along(
    waiters: ListWaiters, direct: Client
) -> None:
    direct.ask("RPUSH", "l", "item")
    attempts, limit = Attempts(True), asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(waiters.wait(PLACE, attempts, limit))
    await attempts.until(1)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert attempts.cancelled


async def test_no_item_is_taken_for_who_has_left_while_another_had_a_turn(
    waiters: ListWaiters, direct: Client
) -> None:
    direct.ask("RPUSH", "l", "item")
    loop = asyncio.get_running_loop()
    first, second = Attempts(False), Attempts(True)
    first_limit, second_limit = loop.create_future(), loop.create_future()
    waiting = asyncio.create_task(waiters.wait(PLACE, first, first_limit))
    leaving = asyncio.create_task(waiters.wait(PLACE, second, second_limit))
    await first.until(1)
    second_limit.set_result(None)
    assert not await leaving
    first.go_on.set()
    await first.until(5)
    assert second.begun == 0
    first_limit.set_result(None)
    assert not await waiting


async def test_the_line_of_a_list_ends_with_its_last_waiter(
    waiters: ListWaiters, server: AnyServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def nothing_there() -> bool:
        return False

    loop = asyncio.get_running_loop()
    limits = [loop.create_future() for _ in range(2)]
    waits = [
        asyncio.create_task(waiters.wait((0, b"empty"), nothing_there, limit)) for limit in limits
    ]
    await asyncio.to_thread(until_blocked, server.port, 1)
    (line,) = _lines()
    for limit, wait, is_over in zip(limits, waits, (False, True), strict=True):
        limit.set_result(None)
        assert not await wait
        assert bool(line.cancelling()) == is_over
    await asyncio.wait({line})
    assert not caplog.records
    await asyncio.to_thread(wait_until, lambda: not _ours(server), "its connection is closed")


async def test_a_line_that_is_lost_by_an_error_of_ours_begins_anew(
    server: AnyServer, direct: Client, caplog: pytest.LogCaptureFixture
) -> None:
    upstreams = iter([None, Upstream.parse(server.url)])
    waiters = ListWaiters(lambda: next(upstreams), lambda: 5.0)  # type: ignore[return-value,arg-type]
    taker = Taker(waiters, direct)
    await asyncio.to_thread(until_blocked, server.port, 1)
    assert [record.getMessage() for record in caplog.records] == ["the line for a list was lost"]
    direct.ask("RPUSH", "l", "item")
    assert await taker.waiting
    await waiters.close()


class Taker:
    """A client that waits for an item; `item` is the one it got, of this database's list."""

    def __init__(self, waiters: ListWaiters, direct: Client, key: str = "l", db: int = 0) -> None:
        self.item: bytes | None = None
        self.attempts = 0
        self._direct, self._key = direct, key
        self.limit = asyncio.get_running_loop().create_future()
        self.waiting = asyncio.create_task(
            waiters.wait((db, key.encode()), self._attempt, self.limit)
        )

    async def _attempt(self) -> bool:
        self.attempts += 1
        found = self._direct.ask("LPOP", self._key)
        self.item = found if isinstance(found, bytes) else None
        return self.item is not None

    async def gives_up(self) -> None:
        self.limit.set_result(None)
        assert not await self.waiting


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """After how many failures in a row each pause was made."""
    asked = list[int]()

    class Pace:
        def compute(self, failures: int) -> float:
            asked.append(failures)
            return 0.001

    monkeypatch.setattr(module, "_PACE", Pace())
    return asked


async def test_each_item_is_for_who_came_first(
    waiters: ListWaiters, direct: Client, server: AnyServer, pauses: list[int]
) -> None:
    takers = [Taker(waiters, direct) for _ in range(4)]
    await asyncio.to_thread(until_blocked, server.port, 1)
    direct.ask("RPUSH", "l", "a", "b")
    await asyncio.gather(*(taker.waiting for taker in takers[:2]))
    await asyncio.to_thread(until_blocked, server.port, 1)
    direct.ask("RPUSH", "l", "c")
    await takers[2].waiting
    await takers[3].gives_up()
    assert [taker.item for taker in takers] == [b"a", b"b", b"c", None]
    assert not pauses


async def test_an_item_that_comes_after_an_attempt_is_not_for_those_behind(
    waiters: ListWaiters, direct: Client
) -> None:
    class Late(Taker):
        async def _attempt(self) -> bool:
            found = await super()._attempt()
            if self.attempts == 1:
                direct.ask("RPUSH", "l", "item")
            return found

    first, second = Late(waiters, direct), Taker(waiters, direct)
    assert await first.waiting
    assert first.item == b"item"
    await second.gives_up()


async def test_an_item_that_nobody_can_take_is_looked_at_less_and_less_often(
    waiters: ListWaiters, direct: Client, pauses: list[int]
) -> None:
    direct.ask("RPUSH", "l", "item")
    wanted = asyncio.Event()

    async def attempt() -> bool:
        return wanted.is_set()

    limit = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(waiters.wait(PLACE, attempt, limit))
    await until(lambda: len(pauses) >= 3)
    wanted.set()
    assert await waiting
    assert pauses[:3] == [1, 2, 3]


async def test_a_key_that_is_no_list_is_asked_for_less_and_less_often(
    waiters: ListWaiters, server: AnyServer, pauses: list[int]
) -> None:
    with closing(Client(server.port, 3)) as other:
        other.ask("SET", "l", "text")
        taker = Taker(waiters, other, db=3)
        await until(lambda: len(pauses) >= 3)
        other.ask("DEL", "l")
        await asyncio.to_thread(until_blocked, server.port, 1)
        assert pauses == list(range(1, len(pauses) + 1))
        other.ask("RPUSH", "l", "item")
        assert await taker.waiting


async def test_a_server_that_refuses_to_wait_is_asked_less_and_less_often(
    waiters: ListWaiters, server: AnyServer, direct: Client, pauses: list[int]
) -> None:
    direct.ask("CONFIG", "SET", "min-replicas-to-write", 1)
    try:
        taker = Taker(waiters, direct)
        await until(lambda: len(pauses) >= 3)
    finally:
        direct.ask("CONFIG", "SET", "min-replicas-to-write", 0)
    await asyncio.to_thread(until_blocked, server.port, 1)
    assert pauses[:3] == [1, 2, 3]
    direct.ask("RPUSH", "l", "item")
    assert await taker.waiting


async def test_a_lost_connection_and_a_server_that_has_moved(
    server: AnyServer, shared_server: AnyServer, direct: Client, pauses: list[int]
) -> None:
    at = [Upstream(host="127.0.0.1", port=CLOSED_PORT)]
    waiters = ListWaiters(lambda: at[-1], lambda: 5.0)
    taker = Taker(waiters, direct)
    await until(lambda: len(pauses) >= 3)
    assert pauses[:3] == [1, 2, 3]
    with closing(Client(shared_server.port)) as other:
        other.ask("DEL", "l")
    at.append(Upstream.parse(shared_server.url))
    waiters.start_anew()
    await asyncio.to_thread(until_blocked, shared_server.port, 1)
    at.append(Upstream.parse(server.url))
    waiters.start_anew()
    await asyncio.to_thread(until_blocked, server.port, 1)
    (ours,) = _ours(server)
    direct.ask("CLIENT", "KILL", "ID", ours)
    direct.ask("RPUSH", "l", "item")
    assert await taker.waiting
    await waiters.close()
    assert not _lines()


async def test_an_attempt_without_a_reply_holds_up_the_others_for_a_while_only(
    waiters: ListWaiters, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.01)
    direct.ask("RPUSH", "l", "item")
    loop = asyncio.get_running_loop()
    silent, failing = Attempts(True), Attempts(False)
    failing.go_on.set()
    limits = [loop.create_future(), loop.create_future()]
    waits = [
        asyncio.create_task(waiters.wait(PLACE, attempts, limit))
        for attempts, limit in zip((silent, failing), limits, strict=True)
    ]
    await failing.until(5)
    assert silent.begun == 1
    silent.go_on.set()
    assert await waits[0]
    limits[1].set_result(None)
    assert not await waits[1]
