"""The queue of waiting clients: it blocks no event loop, and skips clients that no longer wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.conftest import StartServer
from tests.support.raw_client import Connection
from tests.support.server_queries import until_blocked
from tests.support.servers import Server
from ttlproxy.addresses import Upstream
from ttlproxy.link.list_waiters import ListWaiters, Waiter

PLACE = (0, b"l")


@pytest.fixture
def server(start_server: StartServer) -> Server:
    """A server with an item in the list."""
    server = start_server()
    with Connection(server.port) as direct:
        direct.ask("RPUSH", "l", "item")
    return server


@pytest.fixture
async def waiters(server: Server) -> AsyncIterator[ListWaiters]:
    yield ListWaiters(lambda: Upstream.parse(server.url), lambda: 5.0)
    if serving := {task for task in asyncio.all_tasks() if task.get_name() == "waiter"}:
        await asyncio.wait(serving)  # nobody waits any more, so they end


async def test_one_that_is_over_is_tried_no_more_and_lets_others_go_on() -> None:
    attempts = []

    async def attempt() -> bool:
        attempts.append("tried")
        return True

    waiter = Waiter(attempt)
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

    waiter = Waiter(attempt)
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
    waiters: ListWaiters,
) -> None:
    attempts, limit = Attempts(True), asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(waiters.wait(PLACE, attempts, limit))
    await attempts.until(1)
    limit.set_result(None)
    asyncio.get_running_loop().call_later(0.01, attempts.go_on.set)
    assert await waiting
    assert not attempts.cancelled


async def test_who_is_gone_takes_the_attempt_along(waiters: ListWaiters) -> None:
    attempts, limit = Attempts(True), asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(waiters.wait(PLACE, attempts, limit))
    await attempts.until(1)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert attempts.cancelled


async def test_no_item_is_taken_for_who_has_left_while_another_had_a_turn(
    waiters: ListWaiters,
) -> None:
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
    waiters: ListWaiters, server: Server
) -> None:
    async def nothing_there() -> bool:
        return False

    loop = asyncio.get_running_loop()
    limits = [loop.create_future() for _ in range(2)]
    waits = [
        asyncio.create_task(waiters.wait((0, b"empty"), nothing_there, limit)) for limit in limits
    ]
    await asyncio.to_thread(until_blocked, server.port, 1)
    (line,) = [task for task in asyncio.all_tasks() if task.get_name() == "waiter"]
    for limit, wait, is_over in zip(limits, waits, (False, True), strict=True):
        limit.set_result(None)
        assert not await wait
        assert bool(line.cancelling()) == is_over
