"""What the outside tells the process to do. Knows the numbers of signals, not what follows."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, Self

# The exit code, as shells have it for a process that SIGINT has ended.
INTERRUPTED: Final = 130


@contextmanager
def on_interrupt(act: Callable[[], None]) -> Iterator[None]:
    """Meanwhile SIGINT has the running loop call `act`; of the main thread alone.

    With the loop's own add_signal_handler it would raise KeyboardInterrupt, wherever that hits,
    from the end of the loop on.
    """
    loop = asyncio.get_running_loop()

    def heard(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(act)

    before = signal.signal(signal.SIGINT, heard)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Signals:
    """stop: the end is to begin; now: and to come at once; reload: settings are to be read anew;
    code: how the process ends, if nothing goes wrong."""

    def __init__(self) -> None:
        self.stop, self.now = asyncio.Event(), asyncio.Event()
        self.reload = asyncio.Event()
        self.code = 0
        self._loop = asyncio.get_running_loop()
        self._asked = False

    @classmethod
    @contextmanager
    def of_process(cls) -> Iterator[Self]:
        """stop and now: at the first SIGTERM or SIGINT, and at the second; reload: at SIGHUP."""
        signals = cls()
        signals._loop.add_signal_handler(signal.SIGTERM, signals._end)
        signals._loop.add_signal_handler(signal.SIGHUP, signals.reload.set)
        with on_interrupt(signals._interrupt):
            yield signals

    @classmethod
    @contextmanager
    def of_worker(cls) -> Iterator[Self]:
        """SIGINT is for both. The others are for the process that listens, which hands on what they
        mean: a service manager may send them to all processes of a group.
        """
        signals = cls()
        for number in (signal.SIGTERM, signal.SIGHUP):
            signals._loop.add_signal_handler(number, lambda: None)
        with on_interrupt(signals._end_now):
            yield signals

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

    def _interrupt(self) -> None:
        self.code = INTERRUPTED
        self._end()

    def _end_now(self) -> None:
        self.stop.set()
        self.now.set()
