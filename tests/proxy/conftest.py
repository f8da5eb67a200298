"""The parts of the proxy in this process, with real sockets and virtual time. Knows no Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.support.virtual_time import VirtualTime


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """All tests here are in virtual time."""
    return {"virtual": VirtualTime}


async def let_pass(seconds: float) -> None:
    """Ends after some seconds of virtual time."""
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, passed.set)
    await passed.wait()


async def until(holds: Callable[[], bool]) -> None:
    """Ends when something holds that only the kernel or the proxy changes; no time passes."""
    while not holds():  # noqa: ASYNC110 - neither tells an event
        await asyncio.sleep(0)
