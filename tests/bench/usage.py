"""What a process has used so far, from /proc: Linux only. Knows pids and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_TICK_US = 1e6 / os.sysconf("SC_CLK_TCK")


class Cpu(NamedTuple):
    """CPU time in µs, of all threads. The total is exact to the nanosecond, user and system time to
    a tick of the kernel (usually 10 ms)."""

    total_us: float
    user_us: float
    system_us: float

    def since(self, earlier: Cpu) -> Cpu:
        return Cpu(*(now - then for now, then in zip(self, earlier, strict=True)))


NONE = Cpu(0, 0, 0)


def cpu(pid: int) -> Cpu:
    threads = Path(f"/proc/{pid}/task").iterdir()
    total_ns = sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)
    # Fields 14 and 15 of proc(5), counted after the name, which may contain anything.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return Cpu(total_ns / 1000, int(fields[11]) * _TICK_US, int(fields[12]) * _TICK_US)


def total(used: Iterable[Cpu]) -> Cpu:
    """That of several processes."""
    return Cpu(*map(sum, zip(*used, strict=True)))


def forget_peak(pid: int) -> None:
    """Resets the peak to what is resident now (proc(5), clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_bytes(pid: int) -> int:
    """The peak of resident memory, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (kib,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(kib) * 1024
