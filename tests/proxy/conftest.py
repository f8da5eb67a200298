"""The parts of the proxy in this process, with real sockets and virtual time. Knows no Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.support.virtual_time import VirtualTime

Run = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture
def run() -> Run:
    """Runs a coroutine function in virtual time."""

    async def awaited(main: Callable[[], Awaitable[None]]) -> None:
        await main()

    def run_on(main: Callable[[], Awaitable[None]]) -> None:
        with asyncio.Runner(loop_factory=VirtualTime) as runner:
            runner.run(awaited(main))

    return run_on


async def let_pass(seconds: float) -> None:
    """Ends after some seconds of virtual time."""
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, passed.set)
    await passed.wait()


async def until(holds: Callable[[], bool]) -> None:
    """Ends when something holds that only the kernel or the proxy changes; no time passes."""
    while not holds():  # noqa: ASYNC110 - neither tells an event
        await asyncio.sleep(0)
