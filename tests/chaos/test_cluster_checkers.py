"""The checkers of a Cluster's chaos run, on histories written by hand: each fault is found, and
nothing that a failover or Redis itself explains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import pytest

from tests.chaos.cluster.deliveries import Deliveries
from tests.chaos.cluster.pools import Pool
from tests.chaos.cluster.round import ClusterRound
from tests.chaos.cluster.system import Away, ClusterSystem
from tests.chaos.history import GONE, Excuses, Key, Read, ServersClock, State, Window, Write
from tests.support.servers import Proxy

DUE = 1000.0
END = 5000.0
# A replica took over at some time in it.
REWOUND = Excuses(rewound=[(100, 200)])
DATED, LATER, PLAIN = State("v", DUE, DUE), State("w", 2000, 2000), State("w")


def _write(begun_ms: float, *states: State) -> Write:
    return Write(begun_ms, begun_ms + 10, states, "a request")


def _shown(at_ms: float, value: str | None) -> Read:
    return Read(at_ms, at_ms + 5, {} if value is None else {"e": value}, "a client")


@pytest.mark.parametrize(
    ("writes", "read", "fault"),
    [
        ([_write(0, DATED)], _shown(500, None), "not shown to a client"),
        ([_write(0, DATED)], _shown(1500, "v"), "500 ms after its deadline"),
        ([_write(0, DATED), _write(300, GONE)], _shown(END, "v"), "'v' shown to a client"),
        ([_write(0, DATED), _write(150, LATER)], _shown(300, None), "not shown to a client"),
        ([_write(0, DATED), _write(150, LATER)], _shown(2500, "w"), "500 ms after its deadline"),
        ([_write(0, DATED), _write(150, PLAIN), _write(250, DATED)], _shown(END, "w"), "'w' shown"),
        ([_write(0, DATED), _write(150, LATER)], _shown(300, "v"), ""),
        ([_write(0, DATED), _write(150, LATER)], _shown(300, "w"), ""),
        ([_write(0, DATED), _write(150, GONE)], _shown(300, "v"), ""),
        ([_write(150, PLAIN)], _shown(300, None), ""),
        ([Write(150, 190, (State("v", 160, 160),), "a request")], _shown(170, "v"), ""),
        ([Write(150, 190, (State("v", 160, 160),), "a request")], _shown(295, "v"), "5 ms after"),
    ],
)
def test_a_failover_may_lose_the_last_writes_and_nothing_else(
    writes: list[Write], read: Read, fault: str
) -> None:
    found = list(Key("k", {"e": writes}, [read]).faults(ServersClock(), REWOUND))
    assert [fault in str(each) for each in found] == [True] * bool(fault)


def test_while_slots_move_no_write_is_in_doubt() -> None:
    writes = [_write(0, DATED), _write(150, LATER)]
    found = Key("k", {"e": writes}, [_shown(300, "v")]).faults(ServersClock(), Excuses())
    assert len(list(found)) == 1


def _tasks(*, written_ms: float = 0, cancelled_ms: float | None = None) -> Deliveries:
    tasks = Deliveries({"t": 1000}, {"t"}, written_ms={"t": written_ms})
    if cancelled_ms is not None:
        tasks.cancelled.add("t")
        tasks.cancelled_ms["t"] = cancelled_ms
    return tasks


@pytest.mark.parametrize(
    ("tasks", "fired_ms", "fault"),
    [
        (_tasks(), [1001], ""),
        (_tasks(), [], "was lost"),
        (_tasks(), [1001, 1002], "came 2 times"),
        (_tasks(), [900], "came 100 ms early"),
        (_tasks(cancelled_ms=50), [1001], "came though cancelled"),
        (_tasks(cancelled_ms=150), [1001], ""),
        (_tasks(cancelled_ms=150), [], ""),
        (_tasks(written_ms=150), [], ""),
        (_tasks(written_ms=150), [1001, 1002], "came 2 times"),
    ],
)
def test_a_task_is_delivered_once_and_in_time(
    tasks: Deliveries, fired_ms: list[float], fault: str
) -> None:
    found = list(tasks.faults_but(REWOUND, [("t", at_ms) for at_ms in fired_ms]))
    assert [fault in each for each in found] == [True] * bool(fault)


def test_a_delivery_that_tells_no_time_is_early_if_it_is_seen_early() -> None:
    tasks = _tasks()
    tasks.see(["t"], 900)
    tasks.see(["t"], 1500)
    assert list(tasks.faults_but(Excuses(), tasks.seen(["t"]))) == ["t came 100 ms early"]
    assert list(_tasks().faults_but(Excuses(), _tasks().seen(["t"]))) == []


@pytest.mark.parametrize(
    ("due_ms", "put_ms", "taken", "doubts", "left", "fault"),
    [
        (math.inf, 0, [(300, 310)], 0, [], ""),
        (math.inf, 0, [], 0, ["i"], ""),
        (DUE, 0, [], 0, [], ""),
        (math.inf, 0, [], 0, [], "i are lost, and 0 replies"),
        (math.inf, 0, [], 1, [], ""),
        (math.inf, 150, [], 0, [], ""),
        (math.inf, 0, [(300, 310), (400, 410)], 0, [], "i was taken 2 times"),
        (math.inf, 0, [(150, 160), (400, 410)], 0, [], ""),
        (math.inf, 0, [(300, 310)], 0, ["i"], "i was taken 1 times, and is there 1 times"),
        (math.inf, 0, [(150, 160)], 0, ["i"], ""),
        (math.inf, 0, [], 0, ["i", "i"], "i is there 2 times"),
        (DUE, 0, [(1100, 1110)], 0, [], "i was taken 100 ms after its deadline"),
        (DUE, 0, [(990, 1110)], 0, [], ""),
        (DUE, 0, [(1000.9, 1110)], 0, [], ""),
        (DUE, 0, [(1001.1, 1110)], 0, [], "i was taken 1 ms after its deadline"),
        (DUE, 0, [], 0, ["i"], "i is there 4000 ms after its deadline"),
    ],
)
def test_an_item_is_taken_once_and_in_time(
    due_ms: float, put_ms: float, taken: list[Window], doubts: int, left: list[str], fault: str
) -> None:
    pool = Pool("k", {"i": due_ms}, {"i": put_ms}, {}, {"i": taken} if taken else {})
    pool.in_doubt = [(0.0, 1.0)] * doubts
    found = list(pool.faults(left, END, REWOUND))
    assert [fault in each for each in found] == [True] * bool(fault)


@pytest.mark.parametrize(("taken_ms", "is_late"), [(1100, False), (1160, True)])
def test_an_item_that_is_put_after_its_deadline_may_be_taken_meanwhile(
    taken_ms: float, is_late: bool
) -> None:
    pool = Pool("k", {"i": DUE}, {"i": 1150}, {"i": 1150}, {"i": [(taken_ms, taken_ms + 90)]})
    assert list(map(bool, pool.faults([], END, Excuses()))) == [True] * is_late


def test_an_item_that_nobody_put_is_a_fault() -> None:
    assert list(Pool("k").faults(["x"], END, Excuses())) == ["x came from nowhere"]


class _System:
    """Processes that are not there."""

    is_cautious = False
    now_ms = 0.0
    words: Sequence[str] = tuple(f"w{number}" for number in range(12))

    def __init__(self, *aways: Away) -> None:
        self.aways = aways
        self.proxies: list[Proxy] = []


def test_an_error_is_a_fault_unless_a_master_was_in_trouble() -> None:
    system = cast(ClusterSystem, _System(Away(100, 200, frozenset(), loses=False)))
    round_ = ClusterRound(system, 0, seed=0)
    for since_ms, at_ms in ((10, 90), (150, 160), (10, 300), (210, 300)):
        round_.failed([("GET", "k")], "an error", since_ms)
        round_.incidents[-1] = round_.incidents[-1]._replace(at_ms=at_ms)
    found = [each.partition(",")[0] for each in round_.unexcused()]
    assert found == ["between 10 and 90", "between 210 and 300"]
