"""What was written is delivered, removed or still there, and nothing twice, whatever happens.

`python -m tests.chaos` runs the same for longer.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.system import Log, System
from tests.chaos.trial import trial
from tests.support.servers import Binary

pytestmark = pytest.mark.long

SECONDS = 20.0
# Its first round has rules, the second has none: on a busy machine there may be time for one only.
SEED = 8
COUNTED = ("troubles", "elements", "tasks", "items done")


@pytest.mark.slow
def test_pauses_kills_failovers_and_clocks_that_jump_leave_nothing_lost_late_or_immortal(
    binary: Binary, clock_shim: Path
) -> None:
    with System(binary, clock_shim, Log(None), forked=True) as system:
        account = trial(system, SECONDS, SEED, round_s=SECONDS / 2)
    assert account.faults == []
    assert all(account.counts[name] for name in COUNTED), account.counts
