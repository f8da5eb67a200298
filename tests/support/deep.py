"""Tests with a model that go on for as long as one likes: TTLPROXY_HYPOTHESIS=deep, and
TTLPROXY_DEEP_MINUTES for each of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

DEEP = os.environ.get("TTLPROXY_HYPOTHESIS") == "deep"
DEEP_MINUTES = float(os.environ.get("TTLPROXY_DEEP_MINUTES", "10"))
TIMEOUT_S = 0 if DEEP else 600  # shrinking gets 300 s from Hypothesis


@dataclass
class Tally:
    """What was compared with a model; of a history, the changes of rules, and the writes."""

    sequences: int = 0
    commands: int = 0


def repeated(test: Callable[[], None], tally: Tally, share: int = 1) -> None:
    """Does it once; if deep, until a `share`-th of the minutes is over. Prints what was done."""
    until_s = time.monotonic() + (DEEP_MINUTES * 60 / share if DEEP else 0)
    try:
        test()
        while time.monotonic() < until_s:
            test()
    finally:
        print(f"{tally.sequences} sequences with {tally.commands} commands")


def compared(
    follow: Callable[..., None],
    profile: Callable[[Callable[..., None]], Callable[..., None]],
    steps: st.SearchStrategy[list[Any]],
    **drawn: st.SearchStrategy[Any],
) -> None:
    """Follows many sequences of `steps` with what else is drawn, as often as `repeated` says."""
    tally = Tally()

    @profile
    @given(steps=steps, **drawn)
    def each(steps: list[Any], **others: Any) -> None:
        tally.sequences += 1
        tally.commands += len(steps)
        follow(steps=steps, **others)

    repeated(each, tally)
