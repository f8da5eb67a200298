"""The fast path of a reap does exactly what the general part does, and ordinary calls take it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data_path.test_differential import generated
from tests.semantics.test_fast_paths import (
    ELEMENTS,
    ENTRIES,
    FAR_MS,
    KEY,
    PLAIN,
    STATES,
    Outcome,
    State,
    World,
    requests,
)
from tests.support.containers import AnyServer
from ttlproxy.core.keys import DEFAULT_PREFIX, Keys
from ttlproxy.scripts import Script, Scripts, Traits

FAST = b"is_ordinary and reached < all"
# Both parts are run at different times.
CLOCK, TOOK, LATE = 0, 1, 4
NAMES = [b"k", b"{k}2", b"{k}3"]
Keyed = tuple[str, State]


class Reap(NamedTuple):
    """A call; stored: the version of the rules in Redis."""

    limit: str
    version: str
    stored: str


class Reaping(World):
    """A server to call the reap script on, as the link does: for the keys NAMES, or some."""

    def reap(self, keyed: Sequence[Keyed], reap: Reap, traits: Traits, text: bytes) -> Outcome:
        """`keyed`: type and state of each key."""
        self._write(keyed, reap, Keys(DEFAULT_PREFIX, traits.clustered))
        if any(state.is_full for _, state in keyed):
            self.direct.ask("CONFIG", "SET", "maxmemory", 1)
        self._events()
        reply = self._call(len(keyed), reap, text)
        events = self._events()
        self.direct.ask("CONFIG", "SET", "maxmemory", 0)
        return Outcome(_without_times(reply), self._content(), events)

    def commands(self, keyed: Sequence[Keyed], text: bytes) -> int:
        """How many commands of Redis a call calls."""
        self._write(keyed, ORDINARY, Keys(DEFAULT_PREFIX))
        return self.called_by(lambda: self._call(len(keyed), ORDINARY, text))

    def _call(self, count: int, reap: Reap, text: bytes) -> Any:
        words = ("0", reap.limit, "1000", reap.version, "", "", "", count)
        return self.direct.ask("EVAL", text, len(self._named), *self._named, *words)

    def _write(self, keyed: Sequence[Keyed], reap: Reap, keys: Keys) -> None:
        names = NAMES[: len(keyed)]
        indexes = [*map(keys.index, names)]
        schedule = keys.shared_by(KEY, keys.schedule)
        rules = keys.shared_by(KEY, keys.rules)
        guard = [keys.guard(KEY)] if keys.clustered else []
        self._named = [*guard, schedule, rules, *names, *indexes]
        self.direct.ask("FLUSHALL")
        for name, index, (kind, state) in zip(names, indexes, keyed, strict=True):
            self.direct.ask_many([*requests(state, kind, schedule, name, index), ["PING"]])
        if reap.stored:
            self.direct.ask("HSET", rules, "version", reap.stored)

    def _content(self) -> list[tuple[bytes, bytes, Any, int]]:
        """The general part counts when a key ends from two looks at the clock."""
        found = super()._content()
        return [
            (name, kind, [*map(_whole, value)] if kind == b"zset" else value, ends)
            for name, kind, value, ends in found
        ]


def _whole(word: bytes) -> bytes:
    near_end = (b"%d" % (FAR_MS - 1), b"%d" % (FAR_MS + 1))
    return b"%d" % FAR_MS if word in near_end else word


def _without_times(found: Any) -> Any:
    if not isinstance(found, list):
        return str(found)
    assert found[CLOCK] > FAR_MS / 10
    assert 0 <= found[TOOK] < 10**7
    rows = found[TOOK + 1 :]
    return [
        [*row[:LATE], row[LATE] > 0, *row[LATE + 1 :]] if isinstance(row, list) else str(row)
        for row in rows
    ]


@pytest.fixture
def world(plain: AnyServer) -> Iterator[Reaping]:
    with closing(Reaping(plain)) as made:
        yield made


def _script(traits: Traits) -> Script:
    scripts = Scripts(DEFAULT_PREFIX)
    scripts.suit(traits)
    return scripts["reap"]


def _general(script: Script) -> bytes:
    """The script without its fast path."""
    assert script.text.count(FAST) == 1
    return script.text.replace(FAST, b"false")


_past = st.dictionaries(
    st.sampled_from(ELEMENTS), st.sampled_from([1, 5, 10**12]), min_size=1, max_size=4
)
_all_past = st.builds(lambda state, dated: state._replace(dated=dated), STATES, _past)
# An element that goes when its key ends may be a millisecond earlier or later than that.
_states = st.one_of(_all_past, _all_past, STATES).filter(
    lambda state: not (state.key_expires and FAR_MS in state.dated.values())
)
_keyed = st.tuples(st.sampled_from([*ENTRIES]), _states)
REAPS = st.builds(
    Reap,
    st.sampled_from(["1", "2", "1000", "1000"]),
    st.sampled_from(["", "", "5", "+", "+5", "+4", "+6", "*"]),
    st.sampled_from(["", "5"]),
)
TRAITS = [Traits(), Traits(clustered=True), Traits(events="hKE"), Traits(ruled=True, counting=True)]


@generated
@given(
    keyed=st.lists(_keyed, min_size=1, max_size=len(NAMES)),
    reap=REAPS,
    traits=st.sampled_from(TRAITS),
)
def test_the_fast_path_does_what_the_general_part_does(
    world: Reaping, keyed: list[Keyed], reap: Reap, traits: Traits
) -> None:
    script = _script(traits)
    fast = world.reap(keyed, reap, traits, script.text)
    assert fast == world.reap(keyed, reap, traits, _general(script))


ALL_DUE = PLAIN._replace(dated={"a": 1, "b": 2})
ORDINARY = Reap("1000", "", "")


def _commands(world: Reaping, *keyed: Keyed) -> tuple[int, int]:
    """How many commands the script calls, and its general part, but for what tells how long it
    took: TIME, or os.clock where TIME stands still."""
    script = _script(Traits())
    tells = int(world.direct.ask("EVAL", "return rawget(_G, 'os') and 0 or 1", 0))
    fast, general = (world.commands(keyed, text) for text in (script.text, _general(script)))
    return fast - tells, general - tells


@pytest.mark.parametrize("kind", ["hash", "set", "zset"])
def test_a_key_whose_deadlines_are_all_past_takes_the_fast_path(world: Reaping, kind: str) -> None:
    assert _commands(world, (kind, ALL_DUE)) == (7, 11)


def test_so_do_several(world: Reaping) -> None:
    assert _commands(world, *[("hash", ALL_DUE)] * 3) == (15, 23)


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("list", ALL_DUE),
        ("hash", PLAIN._replace(dated={"a": 1, "b": FAR_MS})),
        ("hash", PLAIN._replace(dated={})),
    ],
    ids=["list", "another is later", "none is due"],
)
def test_others_do_not(world: Reaping, kind: str, state: State) -> None:
    """The fast path has looked at them in vain; ordinary keys in front of them take it."""
    fast, general = _commands(world, (kind, state))
    looks = fast - general
    assert looks > 0
    fast, general = _commands(world, ("hash", ALL_DUE), (kind, state))
    assert fast - general == looks - 2


def test_a_call_without_time_leaves_keys_to_the_next(world: Reaping) -> None:
    keys, due = Keys(DEFAULT_PREFIX), [b"k%d" % number for number in range(10, 34)]
    for name in due:
        world.direct.ask("SADD", name, "a")
        world.direct.ask("ZADD", keys.index(name), 1, "a")
        world.direct.ask("ZADD", keys.schedule, 1, name)
    text = _script(Traits()).text
    while due:
        named = [keys.schedule, keys.rules, *due, *map(keys.index, due)]
        words = ("0", "1000", "0", "", "", "", "", len(due))
        _, _, _, *rows = world.direct.ask("EVAL", text, len(named), *named, *words)
        assert len(rows) == 8
        due = due[8:]
        assert world.direct.ask("ZRANGE", keys.schedule, 0, -1) == due
        assert world.direct.ask("DBSIZE") == 2 * len(due) + bool(due)
