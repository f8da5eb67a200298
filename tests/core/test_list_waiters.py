"""The queue of waiting clients: it blocks no event loop, and skips clients that no longer wait."""

from __future__ import annotations

import asyncio

from ttlproxy.link.list_waiters import Waiter


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
