"""A request gets the same reading, whether or not an earlier request helps to read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttlproxy.commands import calls, dialects, element_commands, parsing
from ttlproxy.commands.calls import repeating
from ttlproxy.commands.element_commands import family
from ttlproxy.commands.parsing import Refused
from ttlproxy.commands.router import LONGER, VIRTUALS
from ttlproxy.commands.spec import Call, Plan, Virtual
from ttlproxy.commands.types import hashes, sets
from ttlproxy.commands.types.hashes import HSETEX, planning_setex

Args = Sequence[bytes]


PLANNINGS: list[Callable[[], Plan]] = [
    partial(planning_setex, HSETEX),
    partial(element_commands.planning_timed, sets.SADDEX, "set_addex"),
    lambda: family(sets.NOUN, sets.NAMES, fill="")[1].plan,
    lambda: hashes.LONG.setter("PEXPIRE", parsing.MILLISECONDS).plan,
]
OPTIONS = ["", "5", "EX 5", "PXAT 9", "KEEPTTL", "KEEPTTL 5", "FNX", "MAXLEN 2", "MAXLEN 2 EVICT"]
WORDS = b"FIELDS fields MEMBERS members EX KEEPTTL FXX EVICT 0 1 2 3 007 70368744177664 a".split()


@st.composite
def _alike(draw: st.DrawFn) -> list[Args]:
    """Almost well-formed requests; each differs from the first in a word or two."""
    options = draw(st.lists(st.sampled_from(OPTIONS), max_size=2))
    number = draw(st.integers(1, 3))
    elements = ["a", "b", "1", "c", "d", "e"][: number * draw(st.integers(1, 2))]
    keyword = draw(st.sampled_from(["FIELDS", "MEMBERS"]))
    named = " ".join([keyword, str(number), *elements])
    first = " ".join(draw(st.permutations([*options, named]))).encode().split()
    requests = [first]
    for _ in range(3):
        words = list(first)
        at = draw(st.integers(0, len(words)))
        instead = draw(st.lists(st.sampled_from(WORDS), max_size=2))
        words[at : at + draw(st.integers(0, 2))] = instead
        requests.append(words)
    return [[b"NAME", b"k%d" % n, *words] for n, words in enumerate(requests)]


@pytest.mark.parametrize("planning", PLANNINGS, ids=["HSETEX", "SADDEX", "SPEXPIRE", "HPEXPIRE"])
def test_knowledge_of_other_commands_changes_no_call(planning: Callable[[], Plan]) -> None:
    experienced = planning()

    @given(_alike())
    def compare(requests: list[Args]) -> None:
        for args in requests:
            if len(args) > 3:
                assert _plain(experienced, args) == _plain(planning(), args)

    compare()


def _plain(plan: Plan, args: Args) -> object:
    try:
        call = plan(args)
    except Refused as refused:
        return refused.text, refused.time
    return call.script, [*call.keys], [*call.argv]


ROWS = {**VIRTUALS, **LONGER}
PLANS = [
    *((row.plan, row) for row in ROWS.values()),
    *((plan, ROWS[name]) for name, plan in dialects.VALKEY_FORMS.items()),
]
CACHES = tuple(calls.CACHES)  # those of these plans; tests make more


def _examples(row: Virtual) -> list[Args]:
    """The requests of a row in its examples."""
    lines = (line.encode().split() for line, _ in row.example)
    return [words for words in lines if words[0] == row.name.encode() and len(words) > 2]


def _altered(row: Virtual, number: int) -> Iterator[list[bytes]]:
    """Requests like a row's examples, of which many begin alike; always the same ones."""
    chance = Random(row.name)
    options = " ".join([*OPTIONS, *row.forms]).encode().split()
    for _ in range(number):
        words = [*chance.choice(_examples(row))]
        for _ in range(chance.randrange(3)):
            at = chance.randint(2, max(2, len(words)))
            instead = chance.choices([*WORDS, *options, *words], k=chance.randrange(3))
            words[at : at + chance.randrange(3)] = instead
        words[1:2] = [b"k%d" % chance.randrange(9)]
        if row.fits(words):
            yield words


def _misled(plan: Plan, requests: list[list[bytes]]) -> list[list[bytes]]:
    """The requests that are read otherwise when nothing is known of others."""
    _forget()
    with_others = [_plain(plan, args) for args in requests]
    used = [cache for cache in calls.CACHES if cache]
    found = []
    for args, call in zip(requests, with_others, strict=True):
        for cache in used:
            cache.clear()
        if used and call != _plain(plan, args):
            found.append(args)
    return found


def _forget() -> None:
    for cache in calls.CACHES:
        cache.clear()


def test_no_command_is_read_otherwise_after_others() -> None:
    for plan, row in PLANS:
        if _examples(row):
            assert not _misled(plan, [*_altered(row, 300)]), row.name


def test_every_command_that_is_cached_has_an_example_that_is() -> None:
    _forget()
    for plan, row in PLANS:
        for _ in map(plan, _examples(row)):
            pass
    assert all(CACHES)


def test_a_plan_that_looks_at_its_elements_is_found_out() -> None:
    row = VIRTUALS["SADDEX"]

    def plan(args: Args) -> Call:
        how = b"all" if args[-1] == b"EVICT" else b"some"
        return Call("script", (args[1],), (b"name", how, *args[3:]))

    assert _misled(repeating(plan, lambda args: 3), [*_altered(row, 300)])


def test_a_call_on_another_key_is_not_cached() -> None:
    def plan(args: Args) -> Call:
        return Call("script", (args[2],), (b"name", b"how", *args[3:]))

    repeated = repeating(plan, lambda args: 3)
    assert [repeated([b"C", b"k", key, b"a"]).keys for key in (b"x", b"x")] == [(b"x",)] * 2
    assert not calls.CACHES[-1]


def test_options_are_read_once() -> None:
    read: list[Args] = []

    def plan(args: Args) -> Call:
        read.append(args)
        return Call("script", (args[1],), (b"name", b"how", *args[4:]))

    repeated = repeating(plan, lambda args: args.index(b"FIELDS") + 2)
    first, second = ([b"C", key, b"FIELDS", b"1", key * 2] for key in (b"a", b"b"))
    repeated(first)
    assert _plain(repeated, second) == ("script", [b"b"], [b"name", b"how", b"bb"])
    assert read == [first]
    repeated([b"C", b"b", b"FIELDS", b"2", b"b"])
    assert len(read) == 2


def test_only_some_plans_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_MOST_ENTRIES", 3)
    read: list[Args] = []

    def plan(args: Args) -> Call:
        read.append(args)
        return Call("script", (args[1],), (b"name", args[2], args[3]))

    repeated = repeating(plan, lambda args: 3)
    for instant in (b"1", b"2", b"3", b"4", b"1"):
        repeated([b"C", b"k", instant, b"element"])
    assert len(read) == 5
