"""ONWRITE with MAXLEN, JITTER and REFRESH, while elements expire, against a model.

After each command through one of two proxies all deadlines are read, to the millisecond. By default
this takes seconds; TTLPROXY_HYPOTHESIS=deep continues for TTLPROXY_DEEP_MINUTES.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from redis.exceptions import ResponseError

from tests.data_path.test_differential import generated
from tests.support.deep import DEEP, TIMEOUT_S, compared
from tests.support.redis_client import Client

NAMES = ["a", "b", "c", "d", "e"]
TTL_MS, OWN_MS = 1_000_000, 9_000_000
# name -> when the element expires, in ms; `inf` without a deadline
Deadlines = dict[str, float]


class Type(NamedTuple):
    """How a native command writes elements, and what the others are called.

    writes: whether that writes the value anew, so that the element always gets a deadline
    """

    key: str
    native: Callable[[Sequence[str]], list[Any]]
    writes: bool
    own: Callable[[str], list[Any]]
    remove: str
    noun: str
    letter: str

    def virtual(self, command: str, *names: str, time: int | None = None) -> list[Any]:
        """EXPIRETIME and the like, with the letter of this type, for these elements."""
        times = [] if time is None else [time]
        return [f"{self.letter}{command}{self.noun}", self.key, *times, *self.named(names)]

    def named(self, names: Sequence[str]) -> list[Any]:
        return [f"{self.noun}S", len(names), *names]


TYPES = [
    Type(
        "set",
        lambda names: ["SADD", "set", *names],
        False,
        lambda name: ["SADDEX", "set", "PX", OWN_MS, "MEMBERS", 1, name],
        "SREM",
        "MEMBER",
        "S",
    ),
    Type(
        "hash",
        lambda names: ["HSET", "hash", *(word for name in names for word in (name, 1))],
        True,
        lambda name: ["HSETEX", "hash", "PX", OWN_MS, "FIELDS", 1, name, 1],
        "HDEL",
        "FIELD",
        "H",
    ),
    Type(
        "zset",
        lambda names: ["ZADD", "zset", *(word for name in names for word in (1, name))],
        False,
        lambda name: ["ZADDEX", "zset", "PX", OWN_MS, "MEMBERS", 1, 1, name],
        "ZREM",
        "MEMBER",
        "Z",
    ),
]


class Rule(NamedTuple):
    jitter: int
    refresh: bool
    maxlen: int
    evict: bool

    def words(self, key: str) -> list[Any]:
        jitter = ["JITTER", self.jitter] if self.jitter else []
        refresh = ["REFRESH"] if self.refresh else []
        maxlen = ["MAXLEN", self.maxlen] if self.maxlen else []
        evict = ["EVICT"] if self.maxlen and self.evict else []
        return ["ONWRITE", key, "PX", TTL_MS, *jitter, *refresh, *maxlen, *evict]


class Run:
    """One key, its rule, and what is known of it.

    deadlines: of the elements that are there
    """

    def __init__(self, clients: Sequence[Client], type_: Type, rule: Rule) -> None:
        self._clients = clients
        self._type = type_
        self._rule = rule
        self.deadlines: Deadlines = {}
        self._ask("DEL", type_.key)
        assert self._ask(*rule.words(type_.key)) == b"OK"

    def _ask(self, *words: Any, through: int = 0) -> Any:
        return self._clients[through].ask(*words)

    def found(self) -> Deadlines:
        """What a client finds."""
        times = self._ask(*self._type.virtual("PEXPIRETIME", *NAMES))
        found = zip(NAMES, times, strict=True)
        return {name: inf if ms == -1 else float(ms) for name, ms in found if ms != -2}

    def write(self, names: Sequence[str], through: int) -> None:
        """A native command; then the model is what is found, if it is one of what may be."""
        names, before = list(dict.fromkeys(names)), self.deadlines
        began_ms = self._clients[0].now_ms()
        reply = self._ask(*self._type.native(names), through=through)
        refused = isinstance(reply, ResponseError)
        ended_ms, after = self._clients[0].now_ms(), self.found()
        new = [name for name in names if name not in before]
        assert str(reply).startswith("TTLMAXLEN") if refused else reply == len(new)
        over = len(before) + len(new) - self._rule.maxlen if self._rule.maxlen else 0
        surplus = over - len(before.keys() - names)
        assert refused == bool(new and over > 0 and (not self._rule.evict or surplus > 0))
        if refused:
            assert after == before
            return
        self._check_evicted(before, after, names, over if self._rule.evict else 0)
        renewed = {*names} if self._type.writes or self._rule.refresh else {*new}
        latest_ms = ended_ms + TTL_MS * (1 + self._rule.jitter / 100)
        for name in after:
            if name in renewed:
                assert began_ms + TTL_MS <= after[name] <= latest_ms
            else:
                assert after[name] == before[name]
        assert {*names} <= after.keys()
        self.deadlines = after

    @staticmethod
    def _check_evicted(
        before: Deadlines, after: Deadlines, names: Sequence[str], over: int
    ) -> None:
        """So many of the others have gone, the earliest; all if they are too few."""
        others = {name: ms for name, ms in before.items() if name not in names}
        gone = [ms for name, ms in others.items() if name not in after]
        stayed = [ms for name, ms in others.items() if name in after]
        assert len(gone) == min(max(over, 0), len(others))
        assert max(gone, default=0) <= min(stayed, default=inf)

    def own(self, names: Sequence[str], through: int) -> None:
        """A command that gives a time itself is not bounded by the rule."""
        began_ms = self._clients[0].now_ms()
        self._ask(*self._type.own(names[0]), through=through)
        ended_ms, after = self._clients[0].now_ms(), self.found()
        assert began_ms + OWN_MS <= after[names[0]] <= ended_ms + OWN_MS
        self.deadlines = {**self.deadlines, names[0]: after[names[0]]}

    def remove(self, names: Sequence[str], through: int) -> None:
        self._ask(self._type.remove, self._type.key, names[0], through=through)
        self.deadlines.pop(names[0], None)

    def persist(self, names: Sequence[str], through: int) -> None:
        self._ask(*self._type.virtual("PERSIST", names[0]), through=through)
        if names[0] in self.deadlines:
            self.deadlines[names[0]] = inf

    def expire(self, names: Sequence[str], through: int) -> None:
        """It is gone once Redis's clock is past its deadline."""
        at_ms = self._clients[0].now_ms() + 2
        self._ask(*self._type.virtual("PEXPIREAT", names[0], time=int(at_ms)), through=through)
        while self._clients[0].now_ms() <= at_ms:
            pass
        self.deadlines.pop(names[0], None)


STEPS = [Run.write, Run.write, Run.write, Run.own, Run.remove, Run.persist, Run.expire]
RULES = st.builds(
    Rule, st.sampled_from([0, 50]), st.booleans(), st.sampled_from([0, 1, 3]), st.booleans()
)


def steps() -> st.SearchStrategy[list[Any]]:
    """(what is done, with which elements, through which proxy)."""
    names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4)
    step = st.tuples(st.sampled_from(STEPS), names, st.integers(0, 1))
    return st.lists(step, min_size=20 if DEEP else 0, max_size=40 if DEEP else 20)


@pytest.mark.timeout(TIMEOUT_S)
def test_bounds_jitter_and_expiry_are_those_of_the_model(proxies: list[Client]) -> None:
    compared_with_the_bounds_model(proxies)


def compared_with_the_bounds_model(proxies: list[Client], profile: settings = generated) -> None:
    """Many sequences of commands through two proxies."""

    def follow(type_: Type, rule: Rule, steps: list[Any]) -> None:
        run = Run(proxies, type_, rule)
        for do, names, through in steps:
            do(run, names, through)
            assert run.found() == run.deadlines

    compared(follow, profile, type_=st.sampled_from(TYPES), rule=RULES, steps=steps())
