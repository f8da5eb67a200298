"""ONWRITE against a model: native commands through two proxies, and who has which deadline then.
Lists have a model of their own.

By default this takes seconds; TTLPROXY_HYPOTHESIS=deep continues for TTLPROXY_DEEP_MINUTES.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from tests.data_path.test_differential import generated
from tests.support.deep import DEEP, TIMEOUT_S, compared
from tests.support.redis_client import Client

RULE_S, OWN_S = 1000, 5000
NAMES = ["a", "b", "c"]


class Model:
    """One key of each type, `s` `h` `z`: element -> its time to live in s, None without.

    by_rule, refresh: what the rule in force gives, None without one
    scores: of the sorted set
    """

    def __init__(self) -> None:
        self.refresh = False
        self.by_rule: int | None = None
        self.ttls: dict[str, dict[str, int | None]] = {kind: {} for kind in "shz"}
        self.scores: dict[str, float] = {}

    def written(self, kind: str, name: str) -> None:
        """Its value is written."""
        self.ttls[kind][name] = self.by_rule

    def new(self, kind: str, name: str) -> None:
        """Its value is written if it is not there."""
        self.ttls[kind].setdefault(name, self.by_rule)

    def again(self, kind: str, name: str) -> None:
        """It is added, or is there and added or altered again."""
        is_new = name not in self.ttls[kind]
        if is_new or (self.refresh and self.by_rule):
            self.ttls[kind][name] = self.by_rule

    def own(self, kind: str, name: str) -> None:
        """It is written with a time of its own."""
        self.ttls[kind][name] = OWN_S

    def persisted(self, kind: str, name: str) -> None:
        if name in self.ttls[kind]:
            self.ttls[kind][name] = None

    def gone(self, kind: str, name: str) -> None:
        self.ttls[kind].pop(name, None)
        if kind == "z":
            self.scores.pop(name, None)


Command = Callable[[Model, str, str], list[Any]]


def _command(
    words: str, effect: Callable[[Model, str, str], None], scored: float | None = None
) -> Command:
    """`words`: of a request, with a name or two; `effect`: on each of them; `scored`: the score
    that the name gets, or that is added to it."""
    first, kind, *_ = words.split()

    def do(model: Model, name: str, other: str) -> list[Any]:
        for each in [name, other][: 1 + ("{1}" in words)]:
            effect(model, kind, each)
        if scored is not None:
            added = model.scores.get(name, 0) if first == "ZINCRBY" else 0
            model.scores[name] = scored + added
        return words.format(name, other).split()

    return do


def _zadd(*options: str) -> Command:
    def add(model: Model, name: str, other: str) -> list[Any]:
        score = float(NAMES.index(other))
        old = model.scores.get(name)
        skipped = (
            ("NX" in options and old is not None)
            or ("XX" in options and old is None)
            or ("GT" in options and old is not None and score <= old)
        )
        if not skipped:
            if old == score and model.by_rule:
                model.again("z", name)
            else:
                model.written("z", name)
            model.scores[name] = score
        return ["ZADD", "z", *options, int(score), name]

    return add


COMMANDS = [
    _command("SADD s {0} {1}", Model.again),
    _command(f"SADDEX s {OWN_S} {{0}}", Model.own),
    _command("SREM s {0}", Model.gone),
    _command("SPERSISTMEMBER s {0}", Model.persisted),
    _command("HSET h {0} 1 {1} 1", Model.written),
    _command("HSETNX h {0} 1", Model.new),
    _command("HINCRBY h {0} 1", Model.again),
    _command("HINCRBYFLOAT h {0} 1", Model.again),
    _command(f"HSETEX h EX {OWN_S} FIELDS 1 {{0}} 1", Model.own),
    _command("HDEL h {0}", Model.gone),
    *(_zadd(), _zadd("NX"), _zadd("XX"), _zadd("GT")),
    _command("ZINCRBY z 1 {0}", Model.again, scored=1),
    _command(f"ZADDEX z {OWN_S} 1 {{0}}", Model.own, scored=1),
    _command("ZREM z {0}", Model.gone),
]
ASK = {
    "s": ("STTLMEMBER", "MEMBERS"),
    "h": ("HTTLFIELD", "FIELDS"),
    "z": ("ZTTLMEMBER", "MEMBERS"),
}


def _rule(ttl_s: int | None, *, refresh: bool = False) -> Command:
    def set_rule(model: Model, name: str, other: str) -> list[Any]:
        model.by_rule, model.refresh = ttl_s, refresh
        if ttl_s is None:
            return ["ONWRITE", "?", "DEL"]
        return ["ONWRITE", "?", "EX", ttl_s, *(["REFRESH"] if refresh else [])]

    return set_rule


RULES = [
    *(_rule(RULE_S), _rule(2 * RULE_S)),
    *(_rule(RULE_S, refresh=True), _rule(2 * RULE_S, refresh=True), _rule(None)),
]


def _rounded(seconds: int) -> int:
    """The time that an element was given: the test takes less than 900 s."""
    return -(-seconds // RULE_S) * RULE_S if seconds > 0 else seconds


def model_steps() -> st.SearchStrategy[list[Any]]:
    """(command, two names, which proxy sends it, whether in MULTI)."""
    step = st.tuples(
        st.sampled_from([*COMMANDS, *RULES]),
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        st.integers(0, 1),
        st.booleans(),
    )
    return st.lists(step, min_size=30 if DEEP else 0, max_size=60 if DEEP else 40)


WITH_RULE = st.sampled_from([True, True, True, False])


@pytest.mark.timeout(TIMEOUT_S)
def test_elements_have_the_deadlines_of_the_model(proxies: list[Client]) -> None:
    compared_with_the_model(proxies)


def compared_with_the_model(proxies: list[Client], profile: settings = generated) -> None:
    """Many sequences of commands through two proxies."""
    follow = partial(follow_the_model, proxies)
    compared(follow, profile, refresh=st.booleans(), ruled=WITH_RULE, steps=model_steps())


def follow_the_model(proxies: list[Client], refresh: bool, ruled: bool, steps: list[Any]) -> None:
    """Sends commands, and compares all deadlines after each of them."""
    one = proxies[0]
    one.ask("DEL", *ASK)
    model = Model()
    one.ask(*_rule(RULE_S if ruled else None, refresh=refresh)(model, "", ""))
    for command, name, other, which, in_multi in steps:
        in_one = in_multi and command not in RULES  # a Cluster refuses that
        proxies[which].ask_many([command(model, name, other)], transaction=in_one)
        for kind, (question, noun) in ASK.items():
            expected = [model.ttls[kind].get(each, -2) for each in NAMES]
            found = one.ask(question, kind, noun, len(NAMES), *NAMES)
            assert [*map(_rounded, found)] == [-1 if ttl is None else ttl for ttl in expected]
