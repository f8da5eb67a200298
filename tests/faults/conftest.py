"""Sentinels for the tests of failovers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.support.sentinels import Sentinel
from tests.support.servers import Binary

StartSentinel = Callable[..., Sentinel]


@pytest.fixture
def start_sentinel(binary: Binary) -> Iterator[StartSentinel]:
    """start_sentinel(port, *config) is a Sentinel that watches the server there."""
    with ExitStack() as owned:

        def start(port: int, *config: str) -> Sentinel:
            sentinel = Sentinel(binary, port, *config)
            owned.callback(sentinel.remove)
            return sentinel.start()

        yield start
