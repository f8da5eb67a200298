"""The fast path of a reap does exactly what the general part does, and ordinary calls take it."""

from __future__ import annotations

from collections.abc import Iterator
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
    INDEX,
    KEY,
    PLAIN,
    STATES,
    Outcome,
    State,
    World,
    Write,
)
from tests.support.containers import AnyServer
from ttlproxy.core.keys import DEFAULT_PREFIX, Keys
from ttlproxy.scripts import Script, Scripts, Traits

FAST = b"count == '1' and"
# Both parts are run at different times.
CLOCK, TOOK, LATE = 0, 1, 4


class Reap(NamedTuple):
    """A call; stored: the version of the rules in Redis."""

    limit: str
    version: str
    stored: str


class Reaping(World):
    """A server to call the reap script on, as the link does."""

    def in_layout_of_a_cluster(self, clustered: bool) -> None:
        keys = Keys(DEFAULT_PREFIX, clustered)
        self._schedule = keys.shared_by(KEY, keys.schedule)
        self._rules = keys.shared_by(KEY, keys.rules)
        guard = [keys.guard(KEY)] if clustered else []
        self._named = [*guard, self._schedule, self._rules, KEY, INDEX]
        self._stored = ""

    def reap(self, state: State, kind: str, reap: Reap, text: bytes) -> Outcome:
        self._stored = reap.stored
        words = ("0", reap.limit, "1000", reap.version, "", "", "", "1")
        return self.run(state, Write("reap", kind, words), text)

    def _called(self, write: Write, text: bytes) -> bytes:
        if self._stored:
            self.direct.ask("HSET", self._rules, "version", self._stored)
        found = self.direct.ask("EVAL", text, len(self._named), *self._named, *write.words)
        return repr(_without_times(found)).encode()

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
    reaped = found[TOOK + 1]
    return [*reaped[:LATE], reaped[LATE] > 0, *reaped[LATE + 1 :]] if reaped else reaped


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
    return script.text.replace(FAST, b"false and")


_past = st.dictionaries(st.sampled_from(ELEMENTS), st.sampled_from([1, 5, 10**12]), max_size=4)
_all_past = st.builds(lambda state, dated: state._replace(dated=dated), STATES, _past)
# An element that goes when its key ends may be a millisecond earlier or later than that.
_states = st.one_of(_all_past, STATES).filter(
    lambda state: not (state.key_expires and FAR_MS in state.dated.values())
)
REAPS = st.builds(
    Reap,
    st.sampled_from(["1", "2", "1000", "1000"]),
    st.sampled_from(["", "", "5", "+", "+5", "+4", "+6", "*"]),
    st.sampled_from(["", "5"]),
)
TRAITS = [Traits(), Traits(clustered=True), Traits(events="hKE"), Traits(ruled=True, counting=True)]


@generated
@given(
    state=_states,
    kind=st.sampled_from([*ENTRIES]),
    reap=REAPS,
    traits=st.sampled_from(TRAITS),
)
def test_the_fast_path_does_what_the_general_part_does(
    world: Reaping, state: State, kind: str, reap: Reap, traits: Traits
) -> None:
    script = _script(traits)
    world.in_layout_of_a_cluster(traits.clustered)
    fast = world.reap(state, kind, reap, script.text)
    assert fast == world.reap(state, kind, reap, _general(script))


ALL_DUE = PLAIN._replace(dated={"a": 1, "b": 2})
ORDINARY = Reap("1000", "", "")


def _commands(world: Reaping, state: State, kind: str) -> tuple[int, int]:
    """How many commands the script calls, and its general part."""
    script = _script(Traits())
    words = ("0", ORDINARY.limit, "1000", "", "", "", "", "1")
    write = Write("reap", kind, words)
    return world.count(state, write, script.text), world.count(state, write, _general(script))


@pytest.mark.parametrize("kind", ["hash", "set", "zset"])
def test_a_key_whose_deadlines_are_all_past_takes_the_fast_path(world: Reaping, kind: str) -> None:
    fast, general = _commands(world, ALL_DUE, kind)
    assert (fast, general) == (10, 11)


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
    fast, general = _commands(world, state, kind)
    assert fast >= general
