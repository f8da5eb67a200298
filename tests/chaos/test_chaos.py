"""What was written is delivered, removed or still there, and nothing twice, whatever happens.

`python -m tests.chaos` runs the same for longer.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.run import PROXIES, run
from tests.chaos.system import Log, System
from tests.chaos.trial import trial
from tests.conftest import StartProxy, StartServer
from tests.support.servers import Binary

pytestmark = pytest.mark.long

SECONDS = 6.0
ALL_SECONDS = 20.0


@pytest.mark.slow
def test_proxies_killed_at_any_point_lose_nothing_and_deliver_nothing_twice_or_early(
    start_server: StartServer, start_proxy: StartProxy, ioredis: Path
) -> None:
    server = start_server()
    proxies = [start_proxy(server.url) for _ in range(PROXIES)]
    account = run(server, proxies, SECONDS, seed=1, node=ioredis)
    assert account.faults == []
    assert all(account.counts[name] for name in ("tasks written", "tasks cancelled", "items done"))


@pytest.mark.slow
def test_pauses_kills_failovers_and_clocks_that_jump_leave_nothing_lost_late_or_immortal(
    binary: Binary, clock_shim: Path
) -> None:
    with System(binary, clock_shim, Log(None), forked=True) as system:
        account = trial(system, ALL_SECONDS, seed=3, round_s=ALL_SECONDS / 2)
    assert account.faults == []
    assert all(account.counts[name] for name in ("troubles", "elements", "tasks"))
