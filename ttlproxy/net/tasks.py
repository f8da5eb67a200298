"""Tasks that live and end together. Knows nothing else of ttlproxy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)

Task = asyncio.Task[Any]

# Between two attempts to cancel a task: the first pause, and the longest.
_AGAIN_S = 0.01
_LONGEST_S = 1.0


async def until_first(*tasks: Task) -> None:
    """Waits for the first of the tasks to end, and raises what it raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def run_together(**coroutines: Coroutine[None, None, object]) -> None:
    """Runs coroutines, as tasks named after their keywords, until one ends; then none is left.

    Raises what that one raised. asyncio.TaskGroup would leave its own task marked as being
    cancelled (CPython 3.11 and 3.12), and wrap what is raised.
    """
    tasks = [asyncio.create_task(each, name=name) for name, each in coroutines.items()]
    try:
        await until_first(*tasks)
    finally:
        await cancel(*tasks)


async def run_all(*coroutines: Coroutine[None, None, object]) -> None:
    """Runs coroutines, as tasks, until all have ended.

    Raises what one of them raises; then none is left.
    """
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        await cancel(*tasks)


async def cancel(*tasks: Task) -> None:
    """Ends the tasks, whatever they are at; what they raise then is lost.

    One that goes on is told again: CPython 3.11's `wait_for`, by which redis-py writes, loses a
    cancellation that comes in the moment when the write is done. Who is cancelled here meanwhile
    ends when the tasks have: they would go on without anybody who waits for them.
    """
    left, pause_s = set(tasks), _AGAIN_S
    interrupted = False  # no exception is kept: its traceback would keep this frame, in a circle
    for task in tasks:
        task.add_done_callback(_drop)
    while left:
        for task in left:
            task.cancel()
        try:
            await asyncio.wait(left, timeout=pause_s)
        except asyncio.CancelledError:
            interrupted = True
        left = {task for task in left if not task.done()}
        pause_s = min(pause_s * 2, _LONGEST_S)
    if interrupted:
        raise asyncio.CancelledError


def report(task: Task) -> None:
    """For `add_done_callback` of a task that nobody waits for: what it raised is logged at once.

    asyncio would say so when the task is collected, whenever that is, and not what it was for.
    """
    if not task.cancelled() and (trouble := task.exception()) is not None:
        log.error("%s has ended, by a fault of ttlproxy", task.get_name(), exc_info=trouble)


def _drop(task: Task) -> None:
    """Asks for what a task raised, as else asyncio logs that nobody has."""
    if not task.cancelled():
        task.exception()
