"""A process with members of a fleet, led by tests.bench.fleet.fleet.

It reads a command a line, as JSON, and answers each with a line when that is done: the seconds that
it took, and how many serve.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Protocol

from tests.bench.fleet.real import Real
from tests.bench.fleet.recording import read
from tests.bench.fleet.replayed import Replayed
from tests.support.forkserver import set_asking
from ttlproxy.net.tasks import run_all

# Redis, and those who measure it, go first.
_NICE = 10
_LOOK_S = 0.005


class Member(Protocol):
    """serves: whether its clients would be served"""

    @property
    def serves(self) -> bool: ...

    def start(self) -> None: ...

    async def until_serving(self) -> None: ...

    async def stop(self) -> None: ...


async def _start(member: Member, within_s: float) -> None:
    await asyncio.sleep(random.random() * within_s)
    member.start()
    await member.until_serving()


async def _stop(member: Member, within_s: float) -> None:
    await asyncio.sleep(random.random() * within_s)
    await member.stop()


async def _until_lost(member: Member) -> None:
    while member.serves:  # noqa: ASYNC110 - no event tells
        await asyncio.sleep(_LOOK_S)


def _done(command: str, member: Member, within_s: float) -> Coroutine[None, None, None]:
    match command:
        case "start":
            return _start(member, within_s)
        case "stop":
            return _stop(member, within_s)
        case "until lost":
            return _until_lost(member)
        case "until serving":
            return member.until_serving()
    raise ValueError(command)


async def _run(members: Sequence[Member]) -> None:
    """Until the end of standard input."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command, within_s = json.loads(line)
        began_s = loop.time()
        await run_all(*(_done(command, member, within_s) for member in members))
        serve = sum(member.serves for member in members)
        print(json.dumps([loop.time() - began_s, serve]), flush=True)


async def main(port: int, real: int, replayed: int, recording: str, words: Sequence[str]) -> None:
    others: list[Replayed] = []
    if replayed:
        steps = read(Path(recording))
        others += [Replayed(port, steps, others) for _ in range(replayed)]
    await _run([*(Real(f"redis://127.0.0.1:{port}", words) for _ in range(real)), *others])


if __name__ == "__main__":
    import uvloop

    os.nice(_NICE)
    logging.disable()  # each of them would say that Redis is away
    port, real, replayed, asks, recording, *words = sys.argv[1:]
    set_asking(json.loads(asks))
    uvloop.run(main(int(port), int(real), int(replayed), recording, words))
