"""The end of a proxy: clients are served for a while, then each may finish, and the log says how
many are left and for how long.

Knows limits of time and numbers of clients; does not know what a client is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from math import ceil
from typing import Protocol

from ttlproxy.config import Settings
from ttlproxy.core.text import counted
from ttlproxy.net.progress import Progress
from ttlproxy.net.tasks import cancel, until
from ttlproxy.process.runner import Signals

log = logging.getLogger(__name__)


class Drained(Protocol):
    """A server that has clients."""

    async def drain(self, limit_s: float) -> None:
        """Accepts no client any more, and lets what is in flight finish, for at most `limit_s`."""

    def unfinished(self) -> Counter[str]:
        """Returns the reasons why the remaining clients have not ended, in words for the log."""


async def serve_on(settings: Settings, signals: Signals, clients: Callable[[], int]) -> None:
    """Waits for drain_min, or until a second signal comes; `clients()` returns how many are
    connected."""
    left_s = _time_left(settings.drain_min)

    def how_far() -> str:
        served = counted(clients(), "client is", "clients are")
        return f"stopping: {served} connected, and served for {left_s()} s more"

    await _telling(settings, how_far, signals.pause(settings.drain_min))


async def finish(settings: Settings, server: Drained, signals: Signals) -> None:
    """Lets what is in flight finish, for at most drain_max or until it must end now."""
    left_s = _time_left(settings.drain_max)

    def how_far() -> str:
        clients = server.unfinished()
        left = counted(clients.total(), "client is", "clients are")
        return f"stopping: {left} left ({_shown(clients)}); they have {left_s()} s more"

    draining = asyncio.create_task(server.drain(settings.drain_max), name="drain")
    try:
        await _telling(settings, how_far, until(signals.now.wait(), [draining]))
    finally:
        await cancel(draining)
    if clients := server.unfinished():
        why = signals.why_now if signals.now.is_set() else "drain_max is over"
        cut_off = counted(clients.total(), "client is", "clients are")
        log.warning("%s cut off, because %s: %s", cut_off, why, _shown(clients))


def _shown(clients: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in clients.most_common())


def _time_left(limit_s: float) -> Callable[[], int]:
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + limit_s
    return lambda: max(ceil(ends_s - loop.time()), 0)


async def _telling(settings: Settings, how_far: Callable[[], str], work: Awaitable[object]) -> None:
    """Waits for `work`, and reports its progress meanwhile."""
    progress = Progress.logged(log, may_replace=settings.may_replace_lines)
    telling = asyncio.create_task(progress.keep_telling(how_far), name="progress")
    try:
        await work
    finally:
        await cancel(telling)
