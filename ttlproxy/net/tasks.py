"""Runs tasks that live and end together, and limits the time of what other machines do. Knows
nothing else of ttlproxy.

After it has stood still, an event loop runs its timers before it looks at its sockets, and may
cancel a task whose result has come. So such time does not count for a limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

log = logging.getLogger(__name__)

Task = asyncio.Task[Any]

# The pauses between two attempts to cancel a task: the first, and the longest.
_AGAIN_S = 0.01
_LONGEST_S = 1.0
# A pause has this number of pieces, so that tasks get at least as many turns of the event loop:
# after the loop has stood still, a whole pause would be over before they could do anything.
_PIECES = 10


async def until_first(*tasks: Task) -> None:
    """Waits until one of the tasks ends, and raises what it raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def until(event: Coroutine[None, None, object], others: Sequence[Task]) -> None:
    """Waits for the event, or until one of the other tasks ends; raises what that task raised."""
    waiting = asyncio.create_task(event)
    try:
        await until_first(waiting, *others)
    finally:
        await cancel(waiting)


async def unless(done: asyncio.Future[Any], work: Coroutine[None, None, object], name: str) -> bool:
    """Does `work`, as a task of this name, unless `done` is done before; returns whether it was
    done. Raises what it raised."""
    working = asyncio.create_task(work, name=name)
    try:
        await asyncio.wait({done, working}, return_when=asyncio.FIRST_COMPLETED)
        if done.done():
            return False
        working.result()
        return True
    finally:
        await cancel(working)


async def run_together(**coroutines: Coroutine[None, None, object]) -> None:
    """Runs coroutines, as tasks named after their keywords, until one ends; cancels the others.

    Raises what that one raised. asyncio.TaskGroup would leave its own task marked as being
    cancelled (CPython 3.11 and 3.12), and wrap the exception.
    """
    tasks = [asyncio.create_task(each, name=name) for name, each in coroutines.items()]
    try:
        await until_first(*tasks)
    finally:
        await cancel(*tasks)


async def run_all(*coroutines: Coroutine[None, None, object]) -> None:
    """Runs coroutines, as tasks, until all have ended.

    Raises what the first failing one raises, after the others are cancelled.
    """
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        await cancel(*tasks)


async def cancel(*tasks: Task) -> None:
    """Cancels the tasks and waits until all have ended; drops what they raise then.

    A task that goes on is cancelled again: CPython 3.11's `wait_for` loses a cancellation that
    comes at the moment when what it waits for is done. A task that was cancelled before gets a
    pause of its own first, because it may be closing something. If the caller is cancelled
    meanwhile, it still waits for the tasks first, because nobody else would.
    """
    left, pause_s = set(tasks), _AGAIN_S
    ending = {task for task in left if task.cancelling()}
    interrupted = False  # keeping the exception would make a reference cycle with this frame
    for task in tasks:
        task.add_done_callback(drop)
    while left:
        for task in left - ending:
            task.cancel()
        ending = set()
        try:
            for _ in range(_PIECES):
                _, waiting = await asyncio.wait(left, timeout=pause_s / _PIECES)
                if not waiting:
                    break
        except asyncio.CancelledError:
            interrupted = True
        left = {task for task in left if not task.done()}
        pause_s = min(pause_s * 2, _LONGEST_S)
    if interrupted:
        raise asyncio.CancelledError


def report(task: Task) -> None:
    """Logs at once what a task raised that nobody waits for; for `add_done_callback`.

    asyncio would log it only when the task is garbage-collected, and without the task's purpose.
    """
    if not task.cancelled() and (trouble := task.exception()) is not None:
        log.error("%s has ended: internal error", task.get_name(), exc_info=trouble)


def fail(answer: asyncio.Future[Any], trouble: Exception) -> None:
    """Ends the wait for an answer by an exception, unless it has ended; maybe nobody waits."""
    if not answer.done():
        answer.set_exception(trouble)
        drop(answer)


def drop(task: asyncio.Future[Any]) -> None:
    """Retrieves what a task raised, so that asyncio does not log it as never retrieved; for
    `add_done_callback`."""
    if not task.cancelled():
        task.exception()


# A limit has this number of pieces. However long the loop stands still, that takes only one of
# them, and the loop looks at its sockets before the next one ends.
_LIMIT_PIECES: Final = 10


class _Pieces:
    """Lets a limit expire after its pieces. It is no function that refers to itself: with that the
    task, and the task's client, would live on until a collection of cycles."""

    def __init__(self, limit: asyncio.Timeout, limit_s: float) -> None:
        self._limit = limit
        self._left = _LIMIT_PIECES
        self._piece_s = limit_s / _LIMIT_PIECES
        self._next()

    def _next(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._piece_s, self._ended)

    def _ended(self) -> None:
        self._left -= 1
        if self._left:
            self._next()
        else:
            self._limit.reschedule(asyncio.get_running_loop().time())

    def cancel(self) -> None:
        self._timer.cancel()


@asynccontextmanager
async def time_limit(limit_s: float) -> AsyncIterator[None]:
    """Raises TimeoutError, with a text, if its body takes longer, as `asyncio.timeout` does."""
    limit = asyncio.timeout(None)
    pieces = _Pieces(limit, limit_s)
    try:
        async with limit:
            yield
    except TimeoutError as trouble:
        if limit.expired():
            raise TimeoutError(f"it took longer than {limit_s:g} s") from trouble
        raise
    finally:
        pieces.cancel()
