"""Commands for the oracle's test, as Hypothesis draws them: rows of words, with places to fill in.

Keys and elements are places in small pools, so that commands share them. Times are relative to a
clock that only the running test can read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TypeAlias

from hypothesis import strategies as st

from tests.oracle.command_rows import BLOCKING, EVICTING, TYPES_NOT_YET, rows, rows_of

# Names that break a careless index key, parser or script.
KEYS = [b"k", b"h{1}", b"a{b}c", b"{}x", b"a}b", b"}{", b"\x00\r\n\xff", b"a}:b", b""]
ELEMENTS = [b"f", b"FIELDS", b"MEMBERS", b"\x00\r\n\xff", b"7", b"", b"nx", b"KEEPTTL", b"m" * 70]


@dataclass(frozen=True)
class Key:
    place: int


@dataclass(frozen=True)
class Element:
    place: int


@dataclass(frozen=True)
class Time:
    """`ms` from the clock; if `fixed`, from the example's start, so that deadlines can be equal."""

    ms: int
    unit_ms: int = 1
    absolute: bool = False
    fixed: bool = False


Word: TypeAlias = bytes | Key | Element | Time
Words: TypeAlias = tuple[Word, ...]
Strategy: TypeAlias = st.SearchStrategy[Words]

# Two keys of each type.
_EVERY = ("hash", "set", "zset", "list")
KEYS_OF = {type_: (Key(2 * n), Key(2 * n + 1)) for n, type_ in enumerate(_EVERY)}
STRING = Key(2 * len(_EVERY))
TYPES = tuple(type_ for type_ in _EVERY if type_ not in TYPES_NOT_YET)
PLACES = [Element(place) for place in range(3)]
SCRIPT = b"return redis.pcall(ARGV[1], KEYS[1], unpack(ARGV, 2))"
NEAR_MS, FAR_MS = range(3, 15, 3), 100_000


# --- the words for the braces


def _one_of(*words: Word) -> Strategy:
    return st.sampled_from([(word,) for word in words])


def _times(unit_ms: int, *, absolute: bool) -> Strategy:
    """Mostly far, often near if the unit is a millisecond, sometimes already past."""
    far = [Time(FAR_MS + n * 1000, unit_ms, absolute, absolute) for n in range(3)]
    near = [Time(ms, 1, absolute) for ms in NEAR_MS] if unit_ms == 1 else []
    past = [Time(-5000, unit_ms, True, True) if absolute else Time(0, unit_ms)]
    return _one_of(*far * 2, *near, *past)


def _some(part: Strategy, most: int) -> Strategy:
    found = st.lists(part, min_size=1, max_size=most)
    return found.map(lambda parts: tuple(chain.from_iterable(parts)))


def _counted(part: Strategy, most: int = 3) -> Strategy:
    """A count, and then so many parts."""
    found = st.lists(part, min_size=1, max_size=most)
    return found.map(lambda parts: (b"%d" % len(parts), *chain.from_iterable(parts)))


_NEAR = _one_of(*(Time(ms, absolute=True) for ms in NEAR_MS))
_ELEMENT = _one_of(*PLACES)
_COUNTED = _counted(_ELEMENT)
_VALUE = _one_of(b"1", b"2", b"-3", b"0.5", b"word", b"")
_PAIR = st.tuples(st.sampled_from(PLACES), st.sampled_from([b"1", b"-3", b"0.5", b"word", b""]))

_SCORE = _one_of(b"1", b"2", b"-3", b"0.5", b"inf", b"-inf")
_SCORED = st.tuples(st.sampled_from([b"1", b"2", b"2", b"-3", b"+inf"]), st.sampled_from(PLACES))
_ZADD_FLAGS = [(), (b"NX",), (b"XX",), (b"GT",), (b"LT", b"CH"), (b"XX", b"GT"), (b"CH",)]
_SET_OPTIONS: list[Words] = [
    *((), (), (b"NX",), (b"XX",), (b"GET",), (b"KEEPTTL",)),
    (b"EX", Time(FAR_MS, 1000)),
    (b"PXAT", Time(FAR_MS, 1, True, True)),
]

_PAST = (Time(0, 1000), Time(-5000, 1000, True, True))
_EXPIRIES: list[Words] = [
    (),
    (b"KEEPTTL",),
    *((b"EX", Time(ms, 1000)) for ms in (FAR_MS, FAR_MS + 1000, 0)),
    *((b"PX", Time(ms)) for ms in (FAR_MS, *NEAR_MS)),
    *((b"EXAT", Time(ms, 1000, True, True)) for ms in (FAR_MS, -5000)),
    *((b"PXAT", Time(ms, 1, True, True)) for ms in (FAR_MS, FAR_MS + 1)),
]

_SLOTS: dict[str, Strategy] = {
    "{element}": _ELEMENT,
    "{elements}": _some(_ELEMENT, 2),
    "{counted}": _COUNTED,
    "{distinct}": st.permutations(PLACES).map(lambda places: (b"2", *places[:2])),
    "{member}": _one_of(*PLACES[:2]),
    "{other_member}": _one_of(*PLACES[2:]),
    "{value}": _VALUE,
    "{pairs}": _some(_PAIR, 2),
    "{counted_pairs}": _counted(_PAIR, 2),
    "{condition}": st.sampled_from([(), (), (), (b"NX",), (b"XX",), (b"GT",), (b"LT",)]),
    "{nx}": st.sampled_from([(), (), (b"NX",), (b"XX",)]),
    "{fnx}": st.sampled_from([(), (), (b"FNX",), (b"FXX",)]),
    "{expiry}": st.sampled_from(_EXPIRIES),
    "{s}": _times(1000, absolute=False),
    "{ms}": _times(1, absolute=False),
    "{at_s}": _times(1000, absolute=True),
    "{at_ms}": _times(1, absolute=True),
    "{by}": _one_of(b"1", b"-2", b"9223372036854775807", b"1.5", b"+1"),
    "{by_float}": _one_of(b"1", b"-0.5", b"1e2", b"word"),
    "{pop}": _one_of(b"0", b"1", b"2", b"-1"),
    "{bad_time}": _one_of(
        *(b"-1", b"+1", b"01", b" 1", b"1.5", b"x", b"", b"-0"),
        *(b"70368744177664", b"9223372036854775808"),
    ),
    "{bad_condition}": _one_of(b"ZZ", b"", b"FIELDS"),
    "{bad_count}": _one_of(b"0", b"-1", b"+1", b"x", b"7", b"99999999999999999999"),
    "{score}": _SCORE,
    "{scored}": _some(_SCORED, 2),
    "{distinct_scored}": st.permutations(PLACES).map(lambda p: (b"2", b"1", p[0], b"2", p[1])),
    "{zadd_flags}": st.sampled_from(_ZADD_FLAGS),
    "{place}": _one_of(b"0", b"1", b"2", b"-1", b"-2"),
    "{bound}": _one_of(b"-inf", b"(1", b"1", b"2", b"+inf"),
    "{lex}": st.sampled_from([(b"-", b"+"), (b"-", b"+"), (b"+", b"-")]),
    "{count}": _one_of(b"1", b"2", b"5"),
    "{end}": _one_of(b"MIN", b"max"),
    "{aggregate}": _one_of(b"SUM", b"MIN", b"max"),
    "{side}": _one_of(b"LEFT", b"right"),
    "{where}": _one_of(b"BEFORE", b"after"),
    "{timed}": st.sampled_from([each for each in _EXPIRIES if each[1:] and each[1] not in _PAST]),
    "{most}": _one_of(b"1", b"2", b"3"),
    "{getex}": st.sampled_from([*(each for each in _EXPIRIES if each[1:]), (), (b"PERSIST",)]),
    "{script}": _one_of(SCRIPT),
    "{db}": _one_of(b"0", b"1"),
    "{replace}": st.sampled_from([(), (b"REPLACE",)]),
    "{set_options}": st.sampled_from(_SET_OPTIONS),
    "{string}": _one_of(STRING),
}


@cache
def _keys(types: tuple[str, ...]) -> dict[str, Strategy]:
    """The placeholders for keys in an example about `types`: mostly a key of the wanted type."""
    every = [key for type_ in types for key in KEYS_OF[type_]]
    slots: dict[str, Strategy] = {"{key}": _one_of(*every * 2, STRING)}
    for type_, keys in KEYS_OF.items():
        slots[f"{{{type_}}}"] = _one_of(*keys * 6, *every, STRING)
    pairs = [KEYS_OF[type_] for type_ in types]
    slots["{alike}"] = st.sampled_from([each for one, two in pairs for each in _orders(one, two)])
    slots["{two}"] = st.permutations(KEYS_OF["list"]).map(tuple)
    return slots


def _orders(one: Key, two: Key) -> list[tuple[Key, Key]]:
    return [(one, two), (two, one)] * 3 + [(one, one)]


_SPELLINGS: list[Callable[[bytes], bytes]] = [
    lambda word: word,
    lambda word: word.lower(),
    lambda word: bytes(byte ^ 32 * (i % 2 and byte > 64) for i, byte in enumerate(word)),
]


_SPELLING = st.sampled_from(_SPELLINGS)


# --- what a test draws


@st.composite
def _command(
    draw: st.DrawFn, row: st.SearchStrategy[tuple[str, ...]], slots: dict[str, Strategy]
) -> Words:
    """One of the rows, its command and options in upper, lower or mixed case."""
    words = draw(row)
    spelled = draw(_SPELLING)
    filled: list[Word] = []
    for word in words:
        filled += draw(slots[word]) if word in slots else [spelled(word.encode())]
    return tuple(filled)


@cache
def command(types: tuple[str, ...]) -> Strategy:
    return _command(st.sampled_from(rows(types)), _SLOTS | _keys(types))


def any_key(types: tuple[str, ...]) -> st.SearchStrategy[Key]:
    return st.sampled_from([*(key for type_ in types for key in KEYS_OF[type_]), STRING])


@cache
def blocking_command(types: tuple[str, ...]) -> Strategy:
    """GET if none of the types has a blocking command."""
    found = rows_of(BLOCKING, types) or [("GET", "{string}")]
    return _command(st.sampled_from(found), _SLOTS | _keys(types))


@cache
def evicting_command(types: tuple[str, ...]) -> Strategy:
    return _command(st.sampled_from(rows_of(EVICTING, types)), _SLOTS | _keys(types))


@dataclass(frozen=True)
class Fleeting:
    """Elements of every key that exist, and expire before anyone can look twice."""

    first: list[Words]
    then: list[Words]


_EXPIRE_AT = {
    "hash": (b"HPEXPIREATFIELD", b"FIELDS"),
    "set": (b"SPEXPIREATMEMBER", b"MEMBERS"),
    "zset": (b"ZPEXPIREATMEMBER", b"MEMBERS"),
    "list": (b"LPEXPIREATELEMENT", b"ELEMENTS"),
}


@st.composite
def fleeting(draw: st.DrawFn, types: tuple[str, ...]) -> Fleeting:
    between = draw(st.lists(command(types), max_size=3))
    dated: list[Words] = []
    for type_ in types:
        name, word = _EXPIRE_AT[type_]
        dated += [(name, key, *draw(_NEAR), word, *draw(_COUNTED)) for key in KEYS_OF[type_]]
    first = [*fill(types), *between, *dated]
    return Fleeting(first, draw(st.lists(command(types), min_size=2, max_size=8)))


_FILL: dict[str, Words] = {
    "hash": (b"HSET", *(word for place in PLACES for word in (place, b"1"))),
    "set": (b"SADD", *PLACES),
    "zset": (b"ZADD", *(word for n, place in enumerate(PLACES) for word in (b"%d" % n, place))),
    "list": (b"RPUSH", *PLACES, PLACES[0]),
}


def fill(types: tuple[str, ...]) -> list[Words]:
    """Adds every element that commands may name, to both keys of each type."""
    found: list[Words] = []
    for type_ in types:
        name, *rest = _FILL[type_]
        found += [(name, key, *rest) for key in KEYS_OF[type_]]
    return found


def stock(types: tuple[str, ...]) -> list[Words]:
    """Something to lose: of each type a key with elements' deadlines and its own, and one with its
    own alone."""
    far = Time(FAR_MS, 1000, True, True)
    found = fill(types)
    for type_ in types:
        name, word = _EXPIRE_AT[type_]
        dated, expiring = KEYS_OF[type_]
        found.append((name.replace(b"PEXPIRE", b"EXPIRE"), dated, far, word, b"2", *PLACES[:2]))
        found += [(b"EXPIREAT", key, far) for key in (dated, expiring)]
    return found
