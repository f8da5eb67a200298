"""The rule of a key is found among many rules without trying all of them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ttlproxy.core.expiry_actions import Action, Actions, filled, written
from ttlproxy.core.glob import matching

PATTERNS = st.lists(st.text("ab:[-]?*\\", max_size=6).map(str.encode), max_size=12, unique=True)
KEYS = st.lists(st.text("ab:*[\\", max_size=6).map(str.encode), min_size=1, max_size=6)


def _action(pattern: bytes) -> Action:
    return Action(b"RPUSH VALUE 0", b"of %s: %%K %%1 %%2" % pattern, b"")


def _actions(patterns: list[bytes]) -> Actions:
    return Actions({pattern: written(_action(pattern), ()) for pattern in patterns})


def _found(patterns: list[bytes], key: bytes) -> bytes | None:
    """The destination, found as docs/expiry-rules.md says: one pattern after the other."""
    first = [key] if key in patterns else []
    for pattern in [*first, *sorted(patterns, key=lambda each: (-len(each), each))]:
        found = matching(pattern).fullmatch(key)
        if found or pattern == key:
            return filled(_action(pattern).dest, key, found.groups() if found else ())
    return None


@settings(deadline=None)
@given(patterns=PATTERNS, keys=KEYS)
def test_the_rule_of_a_key_is_the_one_that_a_walk_finds(
    patterns: list[bytes], keys: list[bytes]
) -> None:
    actions = _actions(patterns)
    for key in [*keys, *keys, *patterns]:
        action = actions.of(key)
        assert (action and action.dest) == _found(patterns, key)


def test_only_patterns_that_may_match_are_asked() -> None:
    numbers = [b"%d" % number for number in range(100, 400)]
    patterns = [pattern % number for number in numbers for pattern in (b"%s:*", b"*:%s", b"*:%s:*")]
    named = [found for found, _ in _actions(patterns)._patterns.that_may_match(b"107:x:108:y:109")]
    assert named == [b"*:108:*", b"*:109", b"107:*"]


def test_more_keys_than_are_remembered_are_found() -> None:
    actions = _actions([b"k:*"])
    for number in [*range(3000), 0]:
        action = actions.of(b"k:%d" % number)
        assert action is not None
        assert action.dest == b"of k:*: k:%d %d %%2" % (number, number)
    assert actions.of(b"k:" + b"long" * 1000) is not None
