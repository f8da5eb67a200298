"""Starts and ends a fleet, whose members are in two processes beside this one."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.bench.fleet.recording import recorded, write
from tests.support.forkserver import asking
from tests.support.servers import ROOT, Server


class Size(NamedTuple):
    """The numbers of members that are real, and that replay."""

    real: int
    replayed: int

    @property
    def all(self) -> int:
        return self.real + self.replayed


class Fleet:
    """Members in front of a Redis; none is attached until `start`."""

    def __init__(
        self,
        redis: Server,
        size: Size,
        words: Sequence[str] = (),
        asks: bool | None = None,
        restarts: bool = False,
    ) -> None:
        """`words`: settings of all members, as on the command line; `asks`: as of Proxy;
        `restarts`: Redis is restarted now, to record what proxies do then."""
        self.size = size
        self._stack = ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ttlproxy-bench-"))
        recording = Path(folder, "recording.json")
        if size.replayed:
            with asking(asks):
                write(asyncio.run(recorded(redis, words, restarts)), recording)
        self._children = [
            self._launch(redis.port, each, recording, words, asks)
            for each in (Size(size.real, 0), Size(0, size.replayed))
            if each.all
        ]

    def start(self, within_s: float = 0.0) -> float:
        """Starts all members, evenly within that time; returns the seconds until they serve."""
        return self._do("start", within_s)

    def stop(self, within_s: float = 0.0) -> float:
        """Drains all members as SIGTERM does; returns the seconds until they have ended."""
        return self._do("stop", within_s)

    def until_lost(self) -> None:
        """Returns when all members have noticed that Redis is away."""
        self._do("until lost")

    def until_serving(self) -> float:
        """Returns the seconds until all members serve."""
        return self._do("until serving")

    def close(self) -> None:
        """Ends the members without draining them."""
        for child in self._children:
            child.kill()
            child.communicate()
        self._stack.close()

    def _do(self, command: str, within_s: float = 0.0) -> float:
        """Raises RuntimeError if a process of members has ended."""
        for child in self._children:
            assert child.stdin is not None
            child.stdin.write(json.dumps([command, within_s]) + "\n")
            child.stdin.flush()
        took_s, serve = zip(*map(_answer, self._children), strict=True)
        if command.endswith(("start", "serving")) and sum(serve) < self.size.all:
            raise RuntimeError(f"{sum(serve)} of {self.size.all} members serve after: {command}")
        return float(max(took_s))

    @staticmethod
    def _launch(
        port: int, size: Size, recording: Path, words: Sequence[str], asks: bool | None
    ) -> subprocess.Popen[str]:
        numbers = map(str, (port, *size, json.dumps(asks)))
        return subprocess.Popen(
            [sys.executable, "-m", "tests.bench.fleet", *numbers, str(recording), *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


def _answer(child: subprocess.Popen[str]) -> tuple[float, int]:
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line:
        raise RuntimeError("a process with members of a fleet has ended")
    took_s, serve = json.loads(line)
    return took_s, serve
