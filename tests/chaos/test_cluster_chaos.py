"""Elements and deliveries are exact while slots move and masters fail, and clients see no error as
long as only slots move.

`python -m tests.chaos.cluster` runs the same for longer.
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.chaos.cluster.moves import can_move_whole
from tests.chaos.cluster.system import NODES, ClusterSystem
from tests.chaos.cluster.trial import trial
from tests.chaos.system import Log
from tests.support.network import Network, NoNetworkError
from tests.support.processes import wait_until
from tests.support.servers import Binary, moves_whole_slots

# A round and its checks take minutes on a busy machine.
pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(600)]

SECONDS = 6.0
# Longer than nodes of a busy machine are silent, where nobody needs to be taken for dead.
CALM_MS = 60_000
TIMEOUT_MS = 4000


@pytest.mark.any_server("7.0")  # 6.2 names an announced port only after a start
def test_moving_slots_and_planned_failovers_are_exact(binary: Binary) -> None:
    with ClusterSystem(binary, Log(None), CALM_MS, forked=True) as system:
        account = trial(system, SECONDS, 1, ["reshard", "failover", "takeover", "distance"])
    assert account.faults == []
    assert all(account.counts[name] for name in ("troubles", "elements", "tasks", "items taken"))


@pytest.mark.any_server("7.0")  # as above
def test_a_slot_that_all_servers_have_lost_gets_a_master(binary: Binary) -> None:
    with ClusterSystem(binary, Log(None), CALM_MS, forked=True) as system:
        number = system.slots[0]

        def is_lost() -> bool:
            for node in system.nodes:  # again, as a claim of before may still arrive
                system.ask(node, "CLUSTER", "DELSLOTS", number)
            told = (each for node in system.nodes for each in system.view(node))
            return not any(number in each.slots for each in told)

        wait_until(is_lost, "no server knows the slot's master")
        system.until_settled()
        assert number in system.me(system.owner(number)).slots


@pytest.mark.any_server
def test_slots_that_move_as_a_whole_are_exact() -> None:
    binary = moves_whole_slots()
    if binary is None:
        pytest.skip("no server here has CLUSTER MIGRATESLOTS")
    with ClusterSystem(binary, Log(None), CALM_MS, forked=True) as system:
        assert can_move_whole(system)
        account = trial(system, SECONDS, 3, ["atomic"])
    assert account.faults == []
    assert account.counts["incidents"] == 0


@pytest.mark.any_server
def test_masters_that_are_killed_stopped_or_cut_off_are_exact(binary: Binary) -> None:
    kinds = ["kill", "stop"]
    with ExitStack() as stack:
        try:
            network = stack.enter_context(Network(NODES))
            kinds.append("partition")
        except NoNetworkError:  # no right to make one: the others are tried
            network = None
        system = ClusterSystem(binary, Log(None), TIMEOUT_MS, forked=True, network=network)
        stack.enter_context(system)
        account = trial(system, SECONDS, 4, kinds)
    assert account.faults == []
    assert all(account.counts[name] for name in ("elements", "tasks", "items taken"))
