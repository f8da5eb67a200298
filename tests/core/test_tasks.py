"""How tasks end. Knows only asyncio."""

import asyncio
import gc
import logging
import time
from contextlib import suppress

import pytest

from ttlproxy.net.tasks import cancel, report, run_all


async def test_a_task_that_lost_its_cancellation_is_cancelled_again() -> None:
    """CPython 3.11's wait_for loses it if what it waits for is done in the same moment."""
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


async def test_a_task_that_closes_something_because_it_was_cancelled_is_not_disturbed() -> None:
    waiting, closed = asyncio.Event(), asyncio.Event()

    async def closes_at_its_end() -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            closed.set()

    task = asyncio.create_task(closes_at_its_end())
    await waiting.wait()
    task.cancel()
    await asyncio.sleep(0)
    await cancel(task)
    assert closed.is_set()


async def test_a_task_that_closes_something_is_not_disturbed_because_the_loop_stood_still() -> None:
    waiting, closed = asyncio.Event(), asyncio.Event()

    async def closes_in_some_turns() -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            time.sleep(0.05)  # noqa: ASYNC251 - the stall
            for _ in range(5):
                await asyncio.sleep(0)
            closed.set()

    task = asyncio.create_task(closes_in_some_turns())
    await waiting.wait()
    await cancel(task)
    assert closed.is_set()


async def test_a_caller_that_is_cancelled_while_it_cancels_tasks_leaves_none_behind() -> None:
    waiting, deaf = asyncio.Event(), list[asyncio.Task[None]]()

    async def deaf_thrice() -> None:
        for _ in range(3):
            with suppress(asyncio.CancelledError):
                waiting.set()
                await asyncio.Event().wait()
        await asyncio.Event().wait()

    async def outer() -> None:
        deaf.append(asyncio.create_task(deaf_thrice()))
        try:
            await asyncio.Event().wait()
        finally:
            await cancel(*deaf)

    task = asyncio.create_task(outer())
    await waiting.wait()
    await cancel(task)
    assert task.cancelled()
    assert deaf[0].cancelled()


async def test_no_task_is_left_if_one_of_several_fails() -> None:
    ended = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        await run_all(waits(), fails())
    assert ended.is_set()


async def test_all_of_several_are_run_to_their_end() -> None:
    order: list[int] = []

    async def takes(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        order.append(turns)

    await run_all(takes(5), takes(1))
    assert order == [1, 5]


async def _raises(what: str) -> None:
    raise ValueError(what)


async def test_an_error_of_a_cancelled_task_is_not_left_for_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting = asyncio.Event()

    async def fails_at_its_end() -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            raise ValueError("at its end")

    task = asyncio.create_task(fails_at_its_end())
    await waiting.wait()
    await cancel(task)
    del task
    gc.collect()
    assert not caplog.records


async def test_an_error_of_a_task_that_nobody_waits_for_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = asyncio.create_task(_raises("here"), name="a task")
    task.add_done_callback(report)
    await asyncio.wait([task])
    await asyncio.sleep(0)
    del task
    gc.collect()
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (
        logging.ERROR,
        "a task has ended: internal error",
    )
