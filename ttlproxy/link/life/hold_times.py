"""Measures how long requests are held before they go to Redis, by what they wait for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ttlproxy.core.counters import Counters


@contextmanager
def held(counters: Counters, why: str) -> Iterator[None]:
    """The body is one hold; `why`: one of HELD. It counts if it fails, but not if it is cancelled:
    then the client has gone."""
    began_s = time.monotonic()

    def observe() -> None:
        counters.hold_ms[why].observe((time.monotonic() - began_s) * 1000)

    try:
        yield
    except Exception:
        observe()
        raise
    observe()
