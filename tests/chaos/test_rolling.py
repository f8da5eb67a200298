"""A rolling restart under load loses nothing: `python -m tests.chaos.rolling` goes on with it."""

from __future__ import annotations

import pytest

from tests.chaos.rolling import Tier, restart
from tests.conftest import StartServer

pytestmark = [pytest.mark.any_server, pytest.mark.long]

# More than hear of all keys: the others ask at each request. Which those are changes as they come
# and go.
PROXIES = 6


def test_proxies_that_are_replaced_one_after_the_other_lose_nothing(
    start_server: StartServer,
) -> None:
    with Tier(start_server(), PROXIES, forked=True) as tier:
        account = restart(tier, seed=1)
    assert account.faults == []
    assert account.counts["replaced"] == PROXIES
    assert all(account.counts[name] for name in ("elements", "tasks", "looks at a key"))
