"""Runs one coroutine as a process: log, event loop, exit code, and the signals that end it."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from types import FrameType
from typing import Final, Generic, NamedTuple, Self, TypeVar

from ttlproxy.addresses import Listen
from ttlproxy.config import Settings
from ttlproxy.errors import INTERRUPTED, TtlproxyError
from ttlproxy.net.tasks import Task, cancel, until
from ttlproxy.telemetry import logs

_STDIN: Final = 0


@contextmanager
def on_interrupt(act: Callable[[], None]) -> Iterator[None]:
    """Inside this context SIGINT makes the running loop call `act`; main thread only.

    With the loop's own add_signal_handler, SIGINT would raise KeyboardInterrupt at any point of the
    code once the loop has ended.
    """
    loop = asyncio.get_running_loop()

    def heard(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(act)

    before = signal.signal(signal.SIGINT, heard)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


async def until_interrupted(main: Coroutine[None, None, int]) -> int:
    """Returns the exit code of `main`, or INTERRUPTED if SIGINT ended it."""
    interrupted = asyncio.Event()
    with on_interrupt(interrupted.set):
        running = asyncio.create_task(main, name="main")
        try:
            await until(interrupted.wait(), [running])
        finally:
            await cancel(running)  # repeats the cancellation if it gets lost
    return INTERRUPTED if interrupted.is_set() else running.result()


class Signals:
    """The events that signals set.

    stop: begin to end; now: end at once; why_now: the reason for that, in words for the log
    reload: read the settings again; code: the exit code if nothing goes wrong
    """

    def __init__(self) -> None:
        self.stop, self.now = asyncio.Event(), asyncio.Event()
        self.why_now = "the proxy must end now"
        self.reload = asyncio.Event()
        self.code = 0
        self._loop = asyncio.get_running_loop()
        self._asked = False

    @classmethod
    @contextmanager
    def of_process(cls) -> Iterator[Self]:
        """The first SIGTERM or SIGINT sets `stop`, the second `now`; SIGHUP sets `reload`. A Ctrl-C
        at a terminal sets both, because a person who tries things out does not wait for clients."""
        signals = cls()
        signals._loop.add_signal_handler(signal.SIGTERM, signals._end)
        signals._loop.add_signal_handler(signal.SIGHUP, signals.reload.set)
        with on_interrupt(signals._interrupt):
            yield signals

    @classmethod
    @contextmanager
    def of_worker(cls) -> Iterator[Self]:
        """SIGINT sets `stop` and `now`. A worker ignores SIGTERM and SIGHUP, because a service
        manager may send them to the whole group: the process that listens passes them on by the fd
        channel."""
        signals = cls()
        for number in (signal.SIGTERM, signal.SIGHUP):
            signals._loop.add_signal_handler(number, lambda: None)
        with on_interrupt(signals._end_now):
            yield signals

    @property
    def ending(self) -> str:
        """The way in which the proxy ends, in words for the log."""
        return f"stopping at once, because {self.why_now}" if self.now.is_set() else "stopping"

    def stop_soon(self) -> None:
        """Sets `stop`; any thread may call it."""
        self._loop.call_soon_threadsafe(self.stop.set)

    async def pause(self, seconds: float) -> None:
        """Waits for this number of seconds, or until `now` is set."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.now.wait()

    def _end(self) -> None:
        if self._asked:
            self.why_now = "a second signal came"
            self.now.set()
        self.stop.set()
        self._asked = True

    def _interrupt(self) -> None:
        self.code = INTERRUPTED
        self._end()
        if os.isatty(_STDIN) and not self.now.is_set():
            self.why_now = "Ctrl-C was pressed"
            self.now.set()

    def _end_now(self) -> None:
        self.stop.set()
        self.now.set()


Shown = TypeVar("Shown", contravariant=True)


class Around(NamedTuple, Generic[Shown]):
    """The parts of a process beside what serves clients.

    vital: tasks without which it ends; say: called when clients may connect, with their address and
    with why Redis is not there; shown: shows a subject for its whole life
    """

    signals: Signals
    vital: list[Task]
    say: Callable[[Listen, str], None]
    shown: Callable[[Shown], AbstractAsyncContextManager[None]]


log = logging.getLogger(__name__)


def run(settings: Settings, main: Coroutine[None, None, int], process: str = "") -> int:
    """Runs a coroutine of `app` with the log and event loop of the settings; returns the exit code.

    `process`: the name of this process in its log lines; empty if there is only one.
    """
    logs.set_up(settings.log_level, settings.log_format, process)
    try:
        with asyncio.Runner(loop_factory=loop_factory(settings.event_loop)) as runner:
            return runner.run(main)
    except (TtlproxyError, OSError) as error:  # OSError: the address cannot be bound
        if settings.log_format == "text":
            print(f"ttlproxy: {error}", file=sys.stderr)
        else:
            log.critical("%s", error)
        return error.exit_code if isinstance(error, TtlproxyError) else 1
    except KeyboardInterrupt:  # if no handler for SIGINT was set, as `__main__` does
        return INTERRUPTED
    except Exception:  # a fault of ours: the log must have it, in its format, before the end
        log.critical("ended: internal error", exc_info=True)
        return 1


def loop_factory(choice: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Returns uvloop's loop if it is installed and `choice` allows it, else None for asyncio's
    own."""
    if choice == "asyncio" or not importlib.util.find_spec("uvloop"):
        return None
    import uvloop

    return uvloop.new_event_loop
