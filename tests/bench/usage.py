"""What a process has used so far, from /proc: Linux only. Knows pids and nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_TICK_US = 1e6 / os.sysconf("SC_CLK_TCK")


class Cpu(NamedTuple):
    """CPU time in µs. The total is of the main thread, to the nanosecond; its two parts are of all
    threads, to a tick of the kernel (10 ms as a rule)."""

    total_us: float
    user_us: float
    system_us: float

    def since(self, earlier: Cpu) -> Cpu:
        return Cpu(*(now - then for now, then in zip(self, earlier, strict=True)))


NONE = Cpu(0, 0, 0)


def cpu(pid: int) -> Cpu:
    total_ns = Path(f"/proc/{pid}/schedstat").read_text().split()[0]
    # Behind the name, which may hold anything: fields 14 and 15 of proc(5).
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return Cpu(int(total_ns) / 1000, int(fields[11]) * _TICK_US, int(fields[12]) * _TICK_US)


def forget_peak(pid: int) -> None:
    """From here on `peak_bytes` begins with what is resident now (proc(5), clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_bytes(pid: int) -> int:
    """The most that was resident."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (kib,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(kib) * 1024
