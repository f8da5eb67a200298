"""Rules of ONWRITE: which one is for a key, and what sessions do with keys that match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.session_world import World, passes
from ttlproxy.core.registry import Registry
from ttlproxy.core.write_rules import (
    NOTHING_BUT_KEEPS,
    RuleBook,
    WriteRule,
    WriteRules,
    name_of,
    parted,
    rule_of,
)
from ttlproxy.wire import NOTHING_DUE, encode


def _rules(**patterns: WriteRule) -> WriteRules:
    rows = {name_of(pattern.encode()): rule.row((b"x",)) for pattern, rule in patterns.items()}
    return WriteRules(rows)


def test_a_rule_is_read_as_it_was_written() -> None:
    for rule in (WriteRule(1), WriteRule(5, 10, True, 3, True), WriteRule(0, keeps_all=True)):
        assert rule_of(rule.row((b"p", b"EX", b"5"))) == rule
    assert rule_of(b"5:LPUSH4:dest0:") is None
    assert rule_of(b"what") is None
    assert parted(name_of(b"a:b", b"set")) == (b"set", b"a:b")
    assert parted(b"a:b") is None


def test_a_script_gets_the_rule_in_one_word() -> None:
    assert WriteRule(1000).how(keeps=True) == b"1+1000"
    assert WriteRule(1000, refreshes=True).how(keeps=True) == b"0+1000"
    assert WriteRule(1000, 7, False, 3, True).how(keeps=False) == b"0+1000/3E#7"
    assert WriteRule(1000, 7, False, 3, True, True).how(keeps=False) == b"1K+1000/3E#7"
    assert WriteRule(0, keeps_all=True).how(keeps=False) == NOTHING_BUT_KEEPS


def test_of_several_databases_each_may_have_a_rule() -> None:
    book = RuleBook()
    book.replace(3, _rules(k=WriteRule(1000)))
    assert book.how((0,), b"k", b"set", True) is None
    assert book.how((3,), b"k", b"set", True) == b"1+1000"
    assert book.how((3, 0), b"k", b"set", True) == b"3=1+1000;0=1"
    book.replace(0, _rules(k=WriteRule(1000)))
    assert book.how((3, 0), b"k", b"set", True) == b"1+1000"


def test_names_have_the_keys_that_match_and_all_while_rules_are_in_doubt() -> None:
    book = RuleBook()
    registry = Registry(rules=book)
    registry.end_reading(registry.begin_reading(NOTHING_DUE), NOTHING_DUE)
    registry.announced(0, b"managed", 5)
    view = registry.view((0,))
    assert view.names is view.managed
    book.replace(0, _rules(k=WriteRule(1000)))
    assert (b"k" in view.names, b"other" in view.names) == (True, False)
    assert (view.names[b"k"], view.names[b"managed"]) == (NOTHING_DUE, 5)
    assert view.names.keys().isdisjoint([b"other", b"another", None, 5])
    assert not view.names.keys().isdisjoint([b"other", b"k"])
    book.doubt([0])
    assert b"other" in view.names
    assert view.names[b"other"] == 0
    book.replace(0, _rules())
    assert view.names is view.managed


def test_only_writes_of_elements_need_a_script_where_a_rule_matches() -> None:
    world = World()
    world.registry.rules.replace(0, _rules(k=WriteRule(1000)))
    for plain in ("SET k text", "INCR k", "DEL k other", "EXISTS k", "SMEMBERS k", "EXPIRE k 5"):
        assert world.say(plain) == [plain.encode().split()]
    (words,) = world.say("SADD k a")
    assert words[-3:] == [b"0 sadd", b"1+1000", b"a"]


NAMES = st.text("ab*?[", max_size=4)


@given(st.lists(NAMES, min_size=1, max_size=3), st.text("abc", max_size=3))
def test_a_write_passes_if_and_only_if_no_rule_is_for_its_key(
    patterns: list[str], name: str
) -> None:
    """Also a key without a name, and patterns that may match any first byte."""
    world, key = World(), name.encode()
    rules = _rules(**dict.fromkeys(patterns, WriteRule(1000)))
    world.registry.rules.replace(0, rules)
    (words,) = world.say(encode((b"SADD", key, b"m")))
    assert (words[0] == b"SADD") is not rules.matches(key)


# Commands, and how many of their words are looked at, because a rule may concern such a key.
REQUESTS = {"SADD": 1, "sadd": 1, "HINCRBY": 1, "SUNIONSTORE": 2, "SISMEMBER": 0, "PING": 0}


@given(
    st.lists(NAMES, min_size=1, max_size=3),
    st.lists(st.tuples(st.sampled_from([*REQUESTS]), NAMES, NAMES), min_size=1, max_size=4),
    st.booleans(),
)
def test_a_chunk_passes_only_if_no_rule_is_for_a_key_that_it_writes(
    patterns: list[str], requests: list[tuple[str, str, str]], others_are_managed: bool
) -> None:
    """It does pass if none of these keys begins as a rule."""
    world, rules = World(), _rules(**dict.fromkeys(patterns, WriteRule(1000)))
    world.registry.rules.replace(0, rules)
    if others_are_managed:
        world.registry.announced(0, b"managed", NOTHING_DUE)
    words = [
        tuple(map(str.encode, (*request, "1")[: 1 if request[0] == "PING" else 4]))
        for request in requests
    ]
    written = [key for name, *keys in requests for key in keys[: REQUESTS[name]]]
    has_passed = passes(world.session, b"".join(map(encode, words)))
    if any(rules.matches(key.encode()) for key in written):
        assert not has_passed
    elif not any(key.encode().startswith(tuple(rules.literal_prefixes)) for key in written):
        assert has_passed or "" in {request[1] for request in requests}


@pytest.mark.parametrize("request_", ["SADD other m", "SISMEMBER other m"])
def test_while_rules_are_in_doubt_no_key_passes(request_: str) -> None:
    world = World()
    world.registry.rules.replace(0, _rules(k=WriteRule(1000)))
    chunk = encode(tuple(request_.encode().split()))
    assert passes(world.session, chunk)
    world.registry.rules.doubt([0])
    assert not passes(world.session, chunk)
