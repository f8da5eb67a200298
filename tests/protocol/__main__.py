"""`python -m tests.protocol`: explores the model of families, and the same without one rule at a
time. Prints a line for each, and exits with 1 if one is not as expected. `--ways` prints the
shortest way to each fault. docs/decisions/0036 has the result. The whole takes some minutes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from tests.protocol.explorer import Explored, Explorer
from tests.protocol.families import (
    ADD,
    BREAK,
    CUT,
    FLUSH,
    MAKE_RULE,
    RESTART,
    SET_DEADLINE,
    WRITE,
    Model,
    Rules,
)

MOST_STATES = 4_000_000
A, B, C = range(3)


class Scenario(NamedTuple):
    """programs: what each client asks for, of which proxy; late: proxies that are not there yet"""

    programs: tuple[tuple[tuple[int, str], ...], ...]
    troubles: tuple[tuple[str, int], ...] = ()
    late: tuple[int, ...] = ()
    proxies: int = 2


_EX, _W, _RULE, _ADD = (A, SET_DEADLINE), (B, WRITE), (A, MAKE_RULE), (B, ADD)
_FLUSHED = (_EX, (A, FLUSH), _EX, _W)

SCENARIOS = {
    "one after the other": Scenario(((_EX, _W),)),
    "beside another client": Scenario(((_EX, _W), (_W,))),
    "B starts": Scenario(((_EX, _W),), late=(B,)),
    "B starts, beside another client": Scenario(((_EX, _W), (_W,)), late=(B,)),
    "B is cut off": Scenario(((_EX, _W), (_W,)), ((CUT, B),)),
    "A is cut off": Scenario(((_EX, _W),), ((CUT, A),)),
    "A is cut off, and B starts": Scenario(((_EX, _W),), ((CUT, A),), late=(B,)),
    "a connection of B breaks": Scenario(((_EX, _W), (_W,)), ((BREAK, B),)),
    "B restarts": Scenario(((_EX, _W), (_W,)), ((RESTART, B),)),
    "A restarts": Scenario(((_EX, _W),), ((RESTART, A),)),
    "A restarts, and B starts": Scenario(((_EX, _W),), ((RESTART, A),), late=(B,)),
    "a flush": Scenario((_FLUSHED,)),
    "a flush, and B starts": Scenario((_FLUSHED,), late=(B,)),
    "a flush, A is cut off, and B starts": Scenario((_FLUSHED,), ((CUT, A),), late=(B,)),
    "a rule": Scenario(((_RULE, _ADD),)),
    "a rule, beside another client": Scenario(((_RULE, _ADD), (_ADD,))),
    "a rule, and B is cut off": Scenario(((_RULE, _ADD),), ((CUT, B),)),
    "a rule, and B starts": Scenario(((_RULE, _ADD),), late=(B,)),
    "three proxies": Scenario(((_EX, _W), ((C, WRITE),)), proxies=3),
    "two set deadlines": Scenario(((_EX, _W), ((C, SET_DEADLINE),)), proxies=3),
    "two set deadlines, and one is cut off": Scenario(
        ((_EX, _W), ((C, SET_DEADLINE),)), ((CUT, C),), proxies=3
    ),
}
# Each rule, with a scenario in which its lack is a fault.
LACKS = {
    "named_first": "B restarts",
    "verified": "B is cut off",
    "joins": "B starts",
    "kills_orphans": "A is cut off, and B starts",
    "reads_schedule": "A restarts, and B starts",
    "one_look": "A is cut off, and B starts",
    "drains": "beside another client",
    "counts_lost": "a connection of B breaks",
    "asks_all": "one after the other",
    "looks_for_orphans": "B is cut off",
    "bound": "a connection of B breaks",
    "forgets_sureness": "a flush, A is cut off, and B starts",
    "keeps_known": "a flush, A is cut off, and B starts",
}


def explored(scenario: Scenario, rules: Rules) -> Explored:
    """All states of a scenario under these rules."""
    model = Model(rules, *scenario)
    return Explorer(model.steps, model.faults, model.has_ended).explore(model.first, MOST_STATES)


def _cases() -> Iterator[tuple[str, str, Rules, bool]]:
    """What to print, the scenario, the rules, and whether there is a fault."""
    yield "hints by pushes alone", "one after the other", Rules(pushes_only=True), True
    for name in SCENARIOS:
        yield "all rules", name, Rules(), False
    for rule, name in LACKS.items():
        yield f"without {rule}", name, Rules()._replace(**{rule: False}), True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.protocol", description=__doc__)
    parser.add_argument("--ways", action="store_true")
    own = parser.parse_args()
    wrong = 0
    for what, name, rules, expected in _cases():
        began_s = time.monotonic()
        found = explored(SCENARIOS[name], rules)
        took_s = time.monotonic() - began_s
        faults = ", ".join(sorted(found.faults)) or ("stuck" if found.stuck else "no fault")
        print(f"{what:24} {name:40} {found.states:9,} states {took_s:6.1f} s  {faults}", flush=True)
        ways = {**found.faults, **({"stuck": found.stuck} if found.stuck else {})}
        for fault, way in ways.items() if own.ways else ():
            print("", fault, *way, sep="\n    ")
        wrong += bool(ways) != expected
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
