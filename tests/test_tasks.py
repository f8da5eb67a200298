"""How tasks end. Knows asyncio alone."""

import asyncio
from contextlib import suppress

from ttlproxy.tasks import cancel


async def test_a_task_that_lost_its_cancellation_is_cancelled_again() -> None:
    """As in CPython 3.11's wait_for, when what it waits for is done in the same moment."""
    waiting = asyncio.Event()

    async def deaf_once() -> None:
        with suppress(asyncio.CancelledError):
            waiting.set()
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    task = asyncio.create_task(deaf_once())
    await waiting.wait()
    await cancel(task)
    assert task.cancelled()
