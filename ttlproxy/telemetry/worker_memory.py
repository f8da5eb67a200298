"""The memory of each worker process. Workers are numbered: pids would make ever new series."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Final

MEMORY: Final = "ttlproxy_worker_resident_memory_bytes"
# Linux has it: sizes of this process in pages, the resident ones second (man 5 proc).
_SIZES: Final = Path("/proc/self/statm")
# How a single process, or a worker that does not know its number, calls itself.
_ONE: Final = "1"


def own_memory() -> dict[str, float]:
    """Of this process, by its number; empty where the system does not tell."""
    try:
        pages = int(_SIZES.read_text("ascii").split()[1])
    except OSError:
        return {}
    return {_ONE: pages * os.sysconf("SC_PAGE_SIZE")}


class WorkerNumbers:
    """Numbers from 1 on: one that takes the place of another gets its number."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def add(self, pid: int) -> None:
        """The worker is there."""
        if pid not in self._numbers:
            taken = set(self._numbers.values())
            number = next(each for each in count(1) if each not in taken)
            self._numbers = {**self._numbers, pid: number}

    def remove(self, pid: int) -> None:
        """The worker has ended."""
        self._numbers = {key: number for key, number in self._numbers.items() if key != pid}

    def by_number(self, memory: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
        """`memory`: what each worker has said of its own, by pid."""
        numbers = self._numbers
        found = {
            numbers[pid]: said[_ONE]
            for pid, said in memory.items()
            if pid in numbers and _ONE in said
        }
        return {str(number): found[number] for number in sorted(found)}
