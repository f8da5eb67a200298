"""System calls of a running process, by strace. Knows their names, not what they carry."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.requirements import absent

READS = ("read", "recvfrom", "readv", "recvmsg")
WRITES = ("write", "sendto", "writev", "sendmsg")
WAITS = ("epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "select")

_LINE = re.compile(r"(?P<name>\w+)\((?P<first>-?\w*).* = (?P<result>-?\d+)")


@dataclass(frozen=True)
class Call:
    """first: the first argument, for reads and writes a descriptor; result: for those, the bytes"""

    name: str
    first: str
    result: int


@contextmanager
def traced(pid: int, folder: Path) -> Iterator[list[Call]]:
    """The system calls of a process's main thread; the list is filled when the context ends."""
    strace = shutil.which("strace")
    if strace is None:
        absent("strace", "strace is not installed")
    output, calls = folder / "calls", list[Call]()
    with subprocess.Popen(
        [strace, "-s", "0", "-o", output, "-p", str(pid)], stderr=subprocess.PIPE, text=True
    ) as tracer:
        assert tracer.stderr
        attached = tracer.stderr.readline()
        if "attached" not in attached:
            absent("strace", f"strace may not trace here: {attached}")
        try:
            yield calls
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait()
    found = map(_LINE.match, output.read_text().splitlines())
    calls += [Call(one["name"], one["first"], int(one["result"])) for one in found if one]
