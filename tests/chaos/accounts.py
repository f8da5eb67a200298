"""What all long runs have in common: their flags, their rounds, and what they say at the end."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.chaos.system import Log
from tests.support.doctor import examine
from tests.support.servers import Proxy

# The findings of the doctor about the setup of these servers.
_SETUP = {"persistence", "replicas", "cluster"}
# Words that no log of a proxy may contain.
_UNEXPECTED = ("Traceback", " (at ", "never retrieved", "CRITICAL")


@dataclass(frozen=True)
class Account:
    """What happened, in numbers, and the faults."""

    counts: Counter[str]
    faults: Sequence[str]

    def report(self, seed: int) -> int:
        """Prints it; the exit code."""
        for name, count in self.counts.items():
            print(f"{name:20}{count:>10,}")
        for fault in self.faults:
            print(f"FAULT: {fault}")
        print(f"{len(self.faults)} faults with seed {seed}")
        return int(bool(self.faults))


def parser(program: str, doc: str | None) -> argparse.ArgumentParser:
    """With the flags that each program has. SIGTERM ends it as Ctrl-C does."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    made = argparse.ArgumentParser(f"python -m {program}", description=doc)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--redis", default="7.0", help="its version (default: 7.0)")
    return made


@contextmanager
def logged(path: str | None) -> Iterator[Log]:
    """A log of events in this file, if there is a path."""
    with ExitStack() as stack:
        yield Log(stack.enter_context(open(path, "w", encoding="utf-8")) if path else None)


def rounds(
    log: Log, seconds: float, round_s: float, run: Callable[[int, float], Account]
) -> Account:
    """Runs rounds until the time is over. `run(number, seconds)`: one of them."""
    counts: Counter[str] = Counter()
    faults: list[str] = []
    until_s = time.monotonic() + seconds
    while not counts["rounds"] or time.monotonic() < until_s:
        length_s = max(1.0, min(round_s, until_s - time.monotonic()))
        try:
            found = run(counts["rounds"], length_s)
        except TimeoutError as late:
            faults.append(f"nobody is served: {late}")
            break
        counts.update(found.counts)
        counts["rounds"] += 1
        for fault in found.faults:
            log("fault", text=fault)
        faults += found.faults
        log("round over", counts=counts, faults=len(faults))
    return Account(counts, faults)


def unclean(url: str, proxies: Sequence[Proxy]) -> Iterator[str]:
    """What the doctor finds, and what is wrong in the logs."""
    for finding in examine(url):
        if finding.severity > 1 and finding.check not in _SETUP:
            yield f"doctor: {finding.check}: {finding.what}"
    for number, proxy in enumerate(proxies):
        lines = proxy.stderr.splitlines()
        for at, line in enumerate(lines):
            if any(unexpected in line for unexpected in _UNEXPECTED):
                yield "\n    ".join([f"proxy {number} logged:", *lines[max(0, at - 1) : at + 20]])
