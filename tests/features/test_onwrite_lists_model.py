"""ONWRITE with MAXLEN, JITTER and REFRESH on a list, while its values expire, against a model.

After each command through one of two proxies the whole list and all its deadlines are read, to the
millisecond. By default this takes seconds; TTLPROXY_HYPOTHESIS=deep continues for
TTLPROXY_DEEP_MINUTES.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from redis.exceptions import ResponseError

from tests.data_path.test_differential import EXAMPLES, generated
from tests.features.test_onwrite_bounds_model import NAMES, OWN_MS, TTL_MS, Rule
from tests.support.deep import DEEP, TIMEOUT_S, compared
from tests.support.redis_client import Client

KEY, SOURCE = "list", "{list}from"


class ListRun:
    """A list, its rule, and what is known of it.

    entries: its values, from its head; deadlines: of each value, in ms; `inf` without one
    """

    def __init__(self, clients: Sequence[Client], rule: Rule) -> None:
        self._clients = clients
        self._rule = rule
        self.entries: list[str] = []
        self.deadlines: dict[str, float] = {}
        self._ask("DEL", KEY, SOURCE)
        assert self._ask(*rule.words(KEY)) == b"OK"

    def _ask(self, *words: Any, through: int = 0) -> Any:
        return self._clients[through].ask(*words)

    def check(self) -> None:
        """A client finds what the model has."""
        assert [each.decode() for each in self._ask("LRANGE", KEY, 0, -1)] == self.entries
        assert self._found() == self.deadlines

    def _found(self) -> dict[str, float]:
        times = self._ask("LPEXPIRETIMEELEMENT", KEY, "ELEMENTS", len(NAMES), *NAMES)
        found = zip(NAMES, times, strict=True)
        return {name: inf if ms == -1 else float(ms) for name, ms in found if ms != -2}

    # --- native commands

    def rpush(self, names: Sequence[str], through: int) -> None:
        self._push("RPUSH", names, through)

    def lpush(self, names: Sequence[str], through: int) -> None:
        self._push("LPUSH", names, through)

    def rpushx(self, names: Sequence[str], through: int) -> None:
        if self.entries:
            self._push("RPUSHX", names, through)
        else:
            assert self._ask("RPUSHX", KEY, *names, through=through) == 0

    def _push(self, command: str, names: Sequence[str], through: int) -> None:
        """Of more than MAXLEN the last stay, as with an LTRIM behind each push."""
        stay = names[-self._rule.maxlen :] if self._rule.evict else names
        from_far = 1 if command[0] == "R" else -1
        gone, surplus = self._evicted(self.entries[::from_far], stay)
        if gone is not None:
            self.entries = [name for name in self.entries[::from_far] if name not in gone]
            self.entries = [*self.entries[surplus:], *stay][::from_far]
        self._write(stay, gone, [command, KEY, *names], len(self.entries), through)

    def linsert(self, names: Sequence[str], through: int) -> None:
        """The place is found before others make room."""
        name, pivot = names[0], names[-1]
        words, reply = ["LINSERT", KEY, "BEFORE", pivot, name], -1 if self.entries else 0
        if pivot not in self.entries:
            assert self._ask(*words, through=through) == reply
            return
        gone, surplus = self._evicted(self.entries[::-1], [name])
        if surplus > 0:
            gone = None  # no copy of the value itself makes room
        if gone is not None:
            self.entries.insert(self.entries.index(pivot), name)
            self.entries = [each for each in self.entries if each not in gone]
        self._write([name], gone, words, len(self.entries), through)

    def lset(self, names: Sequence[str], through: int) -> None:
        """It makes a list no longer, so it is not bounded."""
        if not self.entries:
            return
        old, self.entries[0] = self.entries[0], names[0]
        keeps = old == names[0] and not self._rule.refresh
        gone = () if old in self.entries else (old,)
        self._write([] if keeps else names[:1], gone, ["LSET", KEY, 0, names[0]], b"OK", through)

    def lmove(self, names: Sequence[str], through: int) -> None:
        """What is moved brings its own deadline, and is not bounded."""
        name, has_own = names[0], len(names) > 1
        own_ms = int(self._clients[0].now_ms()) + OWN_MS
        self._ask("RPUSH", SOURCE, name)
        if has_own:
            self._ask("LPEXPIREATELEMENT", SOURCE, own_ms, "ELEMENTS", 1, name)
        is_undated = self.deadlines.get(name) == inf
        if has_own and name not in self.deadlines:
            self.deadlines[name] = own_ms
        self.entries.append(name)
        written = [name] if not has_own and (is_undated or name not in self.deadlines) else []
        words = ["LMOVE", SOURCE, KEY, "LEFT", "RIGHT"]
        self._write(written, (), words, name.encode(), through, moves=True)

    def _evicted(
        self, from_far: Sequence[str], names: Sequence[str]
    ) -> tuple[Collection[str] | None, int]:
        """Which values make room for `names`, and how many more entries would have to; None if
        there is no room.

        `from_far`: the entries, those first that are farthest from the end that is written. Equal
        entries go together.
        """
        over = len(from_far) + len(names) - self._rule.maxlen
        if not self._rule.maxlen or over <= 0:
            return (), 0
        if not self._rule.evict:
            return None, 0
        gone: list[str] = []

        def turn(name: str) -> tuple[float, Any]:
            ms = self.deadlines[name]
            return ms, name if ms < inf else from_far.index(name)

        for name in sorted({*from_far} - {*names}, key=turn):
            if over > 0:
                gone.append(name)
                over -= from_far.count(name)
        return gone, max(over, 0)

    def _write(
        self,
        names: Sequence[str],
        gone: Collection[str] | None,
        words: Sequence[Any],
        reply: Any,
        through: int,
        *,
        moves: bool = False,
    ) -> None:
        """Sends a command that writes `names`; then their deadlines are those that are found, if
        these may be. `gone`: the values that go; None if it is refused."""
        began_ms = self._clients[0].now_ms()
        found = self._ask(*words, through=through)
        if gone is None:
            assert isinstance(found, ResponseError)
            assert str(found).startswith("TTLMAXLEN")
            return
        assert found == reply
        for name in gone:
            self.deadlines.pop(name, None)
        latest_ms = self._clients[0].now_ms() + TTL_MS * (1 + self._rule.jitter / 100)
        after = self._found()
        for name in names:
            renews = self._rule.refresh and not moves
            if renews or self.deadlines.get(name, inf) == inf:
                assert began_ms + TTL_MS <= after[name] <= latest_ms
                self.deadlines[name] = after[name]

    # --- other commands

    def own(self, names: Sequence[str], through: int) -> None:
        """A command that gives a time itself is not bounded by the rule."""
        name, began_ms = names[0], self._clients[0].now_ms()
        self._ask("RPUSHEX", KEY, "PX", OWN_MS, "ELEMENTS", 1, name, through=through)
        self.entries.append(name)
        self.deadlines[name] = self._found()[name]
        assert began_ms <= self.deadlines[name] - OWN_MS <= self._clients[0].now_ms()

    def remove(self, names: Sequence[str], through: int) -> None:
        self._ask("LREM", KEY, 0, names[0], through=through)
        self._go(names[0])

    def pop(self, names: Sequence[str], through: int) -> None:
        self._ask("LPOP", KEY, through=through)
        if self.entries and self.entries.pop(0) not in self.entries:
            self.deadlines = {name: self.deadlines[name] for name in self.entries}

    def persist(self, names: Sequence[str], through: int) -> None:
        self._ask("LPERSISTELEMENT", KEY, names[0], through=through)
        if names[0] in self.deadlines:
            self.deadlines[names[0]] = inf

    def expire(self, names: Sequence[str], through: int) -> None:
        """It is gone once Redis's clock is past its deadline."""
        at_ms = int(self._clients[0].now_ms()) + 2
        self._ask("LPEXPIREATELEMENT", KEY, at_ms, "ELEMENTS", 1, names[0], through=through)
        while self._clients[0].now_ms() <= at_ms:
            pass
        self._go(names[0])

    def _go(self, name: str) -> None:
        self.entries = [each for each in self.entries if each != name]
        self.deadlines.pop(name, None)


PUSHES = [ListRun.rpush, ListRun.lpush, ListRun.rpushx]
STEPS = [
    *PUSHES,
    *PUSHES,
    *(ListRun.linsert, ListRun.lset, ListRun.lmove, ListRun.own),
    *(ListRun.remove, ListRun.pop, ListRun.persist, ListRun.expire),
]


def steps() -> st.SearchStrategy[list[Any]]:
    """(what is done, with which values, through which proxy)."""
    names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=5)
    step = st.tuples(st.sampled_from(STEPS), names, st.integers(0, 1))
    return st.lists(step, min_size=20 if DEEP else 0, max_size=40)


RULES = st.builds(
    Rule,
    jitter=st.sampled_from([0, 50]),
    refresh=st.booleans(),
    maxlen=st.sampled_from([0, 1, 2, 3, 3]),
    evict=st.sampled_from([False, True, True]),
)
# Fewer than of other models, because each is longer.
FEW = settings(generated, max_examples=EXAMPLES // 4 or 1)


@pytest.mark.timeout(TIMEOUT_S)
def test_lists_with_rules_are_those_of_the_model(proxies: list[Client]) -> None:
    compared_with_the_lists_model(proxies)


def compared_with_the_lists_model(proxies: list[Client], profile: settings = FEW) -> None:
    """Many sequences of commands through two proxies."""

    def follow(rule: Rule, steps: list[Any]) -> None:
        run = ListRun(proxies, rule)
        for do, names, through in steps:
            do(run, names, through)
            run.check()

    compared(follow, profile, rule=RULES, steps=steps())
