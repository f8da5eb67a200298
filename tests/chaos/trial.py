"""Rounds of trouble, and a check of everything after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

from tests.chaos.accounts import Account, rounds, unclean
from tests.chaos.history import ServersClock
from tests.chaos.judging import Judged, deferred, disturb, fired, judged
from tests.chaos.system import System, machine_ms
from tests.chaos.troubles import SEEN_MS, Troubles
from tests.chaos.writers import Round, through
from ttlproxy.core.keys import Keys

ROUND_S = 20.0
# How long a script that delivers what is due may take on a busy machine.
_SCRIPT_MS = 1000


def trial(
    system: System,
    seconds: float,
    seed: int,
    round_s: float = ROUND_S,
    only: Sequence[str] = (),
) -> Account:
    """Runs rounds until the time is over, on a running `system`. `only`: names of troubles."""

    def run(number: int, length_s: float) -> Account:
        troubles = Troubles(system, Random(f"{seed}:{number}"), only)
        round_ = Round(system, number, seed)
        faults = _round(system, round_, troubles, length_s)
        return Account(round_.counts + troubles.counts, faults)

    account = rounds(system.log, seconds, round_s, run)
    return Account(account.counts, [*account.faults, *_at_the_end(system)])


def _round(system: System, round_: Round, troubles: Troubles, seconds: float) -> list[str]:
    """Runs one round; returns its faults."""
    system.clock.forget_before(machine_ms())
    # The last round ended with a jump of the clock; the proxies may not have seen it yet.
    system.excuses.forget_before(machine_ms())
    set_rules(system, round_)
    disturb(round_, troubles, seconds)
    _let_pass(system, round_.last_due_ms)
    faults = list(of_round(system, round_))
    for pattern in round_.rules:
        through(system, "ONEXPIRE", pattern, "DEL")
    names = [key.name for key in round_.keys.values()]
    ruled = sorted(set(round_.ruled_keys.of.values()))
    through(system, "DEL", *names, *ruled, *round_.streams, *round_.lists)
    return faults


def set_rules(system: Judged, round_: Round) -> None:
    if round_.has_rule:
        for pattern, action in round_.rules.items():
            through(system, "ONEXPIRE", pattern, *action)


def _let_pass(system: System, due_ms: float) -> None:
    """Moves the servers' clock past `due_ms` at once."""
    begun_ms = machine_ms()
    system.jump(max(0, round(due_ms - system.now_ms)) + 10)
    system.excuses.set_forward(begun_ms, machine_ms() + SEEN_MS)


def of_round(system: Judged, round_: Round) -> Iterator[str]:
    """All faults of a round that is over."""
    return judged(system, round_, lambda: _left(system, round_))


def _left(system: Judged, round_: Round) -> Iterator[str]:
    """What is wrong with tasks and items."""
    stream, fired_to = round_.streams
    came = [(task, delivered_ms(system.clock, at)) for task, at in deferred(system, stream)]
    yield from (f"deferred {fault}" for fault in round_.deferred.faults(came))
    round_.ruled.doubted |= round_.ruled_keys.lost(system.excuses_of(fired_to))
    for fault in round_.ruled.faults(fired(system, fired_to)):
        yield f"ruled {round_.ruled_keys.described(fault)}"
    work, busy = round_.lists
    here = system.at_redis(work, "LRANGE", work, 0, -1)
    here += system.at_redis(busy, "SMEMBERS", busy)
    places = Counter(item.decode() for item in here)
    yield from (f"item {fault}" for fault in round_.items.faults(places))


def delivered_ms(clock: ServersClock, entry: bytes) -> float:
    """The most that the clock can have shown when a script added this entry to a stream.

    Its id has the time at which XADD ran: never before TIME in the same script, unless the clock
    jumped back between the two. And ids never go back: of an entry that is not the first one with
    its time, it is not known when XADD ran, if the clock has jumped back since that time.
    """
    shown_ms, number = map(int, entry.split(b"-"))
    most_ms = clock.most_before(shown_ms, _SCRIPT_MS)
    return max(most_ms, clock.most_since(shown_ms)) if number else most_ms


def _at_the_end(system: System) -> Iterator[str]:
    """Nothing may be left, since rounds remove their keys; the doctor and the logs are clean."""
    if keys := through(system, "DBSIZE"):
        yield f"{keys} keys are left"
    if entries := system.ask(system.master, "ZCARD", Keys().schedule):
        yield f"{entries} entries are left in the schedule"
    yield from unclean(system.master.url, system.proxies)
