"""What the outside tells the process to do. Knows the numbers of signals, not what follows."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import Self


class Signals:
    """stop: the end is to begin; now: and to come at once; reload: settings are to be read anew."""

    def __init__(self) -> None:
        self.stop, self.now = asyncio.Event(), asyncio.Event()
        self.reload = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._asked = False

    @classmethod
    def of_process(cls) -> Self:
        """stop and now: at the first SIGTERM or SIGINT, and at the second; reload: at SIGHUP."""
        signals = cls()
        for number in (signal.SIGTERM, signal.SIGINT):
            signals._loop.add_signal_handler(number, signals._end)
        signals._loop.add_signal_handler(signal.SIGHUP, signals.reload.set)
        return signals

    @classmethod
    def of_worker(cls) -> Self:
        """SIGINT is for both. The others are for the process that listens, which hands on what they
        mean: a service manager may send them to all processes of a group.
        """
        signals = cls()
        signals._loop.add_signal_handler(signal.SIGINT, signals._end_now)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signals._loop.add_signal_handler(number, lambda: None)
        return signals

    def stop_soon(self) -> None:
        """Begins the end, if nothing has; any thread may call it."""
        self._loop.call_soon_threadsafe(self.stop.set)

    async def pause(self, seconds: float) -> None:
        """Some time, which ends early with `now`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.now.wait()

    def _end(self) -> None:
        (self.now if self._asked else self.stop).set()
        self._asked = True

    def _end_now(self) -> None:
        self.stop.set()
        self.now.set()
