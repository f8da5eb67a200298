"""Commands for the oracle's test, as Hypothesis draws them: rows of words, with places to fill in.

Keys and elements are places in small pools, so that commands meet each other; times say how far
they are from a clock that only the running test can read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from hypothesis import strategies as st

# Names that a careless index key, parser or script would stumble over.
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
    """`ms` from the clock; if `fixed`, from the example's start, so that deadlines meet."""

    ms: int
    unit_ms: int = 1
    absolute: bool = False
    fixed: bool = False


Word: TypeAlias = bytes | Key | Element | Time
Words: TypeAlias = tuple[Word, ...]
Strategy: TypeAlias = st.SearchStrategy[Words]

HASHES, SETS, STRING = (Key(0), Key(1)), (Key(2), Key(3)), Key(4)
PLACES = [Element(place) for place in range(3)]
NEAR_MS, FAR_MS = range(3, 15, 3), 100_000


# --- rows: a weight, then words; what stands in braces is drawn

_HASH_ROWS = """
    4 HSET {hash} {pairs}
    2 HMSET {hash} {pairs}
    2 HSETNX {hash} {element} {value}
    3 HINCRBY {hash} {element} {by}
    2 HINCRBYFLOAT {hash} {element} {by_float}
    3 HDEL {hash} {elements}
    1 HGET {hash} {element}
    1 HGETALL {hash}
    2 HLEN {hash}
    1 HEXISTS {hash} {element}
    1 HSET {hash} {pairs} {element}
"""

_SET_ROWS = """
    5 SADD {set} {elements}
    3 SREM {set} {elements}
    1 SPOP {set}
    2 SPOP {set} {pop}
    7 SMOVE {set} {set} {element}
    1 SMEMBERS {set}
    2 SCARD {set}
    1 SISMEMBER {set} {element}
"""

_KEY_ROWS = """
    1 DEL {key}
    1 UNLINK {key} {key}
    1 EXISTS {key} {key}
    2 EXPIRE {key} {s} {condition}
    3 PEXPIRE {key} {ms} {condition}
    1 EXPIREAT {key} {at_s} {condition}
    2 PEXPIREAT {key} {at_ms} {condition}
    3 PERSIST {key}
    1 TTL {key}
    1 PTTL {key}
    1 TYPE {key}
    2 RENAME {hash} {hash}
    2 RENAME {set} {set}
    2 RENAMENX {hash} {hash}
    2 RENAMENX {set} {set}
    1 RENAME {key} {key}
"""

_FIELD_ROWS = """
    1 HEXPIREFIELD {hash} {element} {s} {condition}
    1 HPEXPIREFIELD {hash} {element} {ms} {condition}
    1 HEXPIREATFIELD {hash} {element} {at_s} {condition}
    1 HPEXPIREATFIELD {hash} {element} {at_ms} {condition}
    2 HEXPIREFIELD {hash} {s} {condition} FIELDS {counted}
    2 HPEXPIREFIELD {hash} {ms} {condition} FIELDS {counted}
    2 HEXPIREATFIELD {hash} {at_s} {condition} FIELDS {counted}
    2 HPEXPIREATFIELD {hash} {at_ms} {condition} FIELDS {counted}
    2 HPERSISTFIELD {hash} {element}
    2 HPERSISTFIELD {hash} FIELDS {counted}
    1 HTTLFIELD {hash} {element}
    1 HPTTLFIELD {hash} {element}
    1 HEXPIRETIMEFIELD {hash} {element}
    1 HPEXPIRETIMEFIELD {hash} {element}
    1 HTTLFIELD {hash} FIELDS {counted}
    1 HPEXPIRETIMEFIELD {hash} FIELDS {counted}
"""

_FIELD_FAULTS = """
    2 HEXPIREFIELD {hash} {element} {bad_time} {condition}
    2 HPEXPIREATFIELD {hash} {bad_time} FIELDS {counted}
    1 HEXPIREATFIELD {hash} {element} {s} {bad_condition}
    1 HEXPIREFIELD {hash} {s} FIELDS {bad_count} {elements}
    1 HPEXPIREFIELD {hash} {s} {condition} WORDS {bad_count} {element}
    1 HTTLFIELD {hash} FIELDS {bad_count} {elements}
    1 HPERSISTFIELD {hash} WORDS {bad_count} {elements}
    1 HPTTLFIELD {hash} {element} {element}
    1 HPEXPIREFIELD {hash} {element}
    1 HEXPIRETIMEFIELD {hash}
"""

_HSETEX_ROWS = """
    4 HSETEX {hash} {fnx} {expiry} FIELDS {counted_pairs}
    2 HSETEX {hash} {expiry} {fnx} FIELDS {counted_pairs}
"""

_HSETEX_FAULTS = """
    1 HSETEX {hash} EX {bad_time} FIELDS {counted_pairs}
    1 HSETEX {hash} FNX FXX FIELDS {counted_pairs}
    1 HSETEX {hash} WORD FIELDS {counted_pairs}
    1 HSETEX {hash} FIELDS {bad_count} {pairs}
"""

# No member twice where the deadline may be past: SEMANTICS.md leaves open what that counts.
_SADDEX_ROWS = """
    3 SADDEX {set} {nx} {expiry} MEMBERS {distinct}
    1 SADDEX {set} {expiry} {nx} MEMBERS {distinct}
    2 SADDEX {set} {s} {member} {other_member}
    2 SADDEX {set} KEEPTTL {s} {member} {other_member}
"""


def _of_sets(rows: str) -> str:
    for field, member in (("{hash}", "{set}"), ("FIELD", "MEMBER"), (" H", " S")):
        rows = rows.replace(field, member)
    return rows


# --- what may stand in the braces


def _one_of(*words: Word) -> Strategy:
    return st.sampled_from([(word,) for word in words])


def _times(unit_ms: int, *, absolute: bool) -> Strategy:
    """Mostly far, often near where a millisecond can be said, now and then already past."""
    far = [Time(FAR_MS + n * 1000, unit_ms, absolute, absolute) for n in range(3)]
    near = [Time(ms, 1, absolute) for ms in NEAR_MS] if unit_ms == 1 else []
    past = [Time(-5000, unit_ms, True, True) if absolute else Time(0, unit_ms)]
    return _one_of(*far * 2, *near, *past)


def _some(part: Strategy, most: int) -> Strategy:
    found = st.lists(part, min_size=1, max_size=most)
    return found.map(lambda parts: tuple(chain.from_iterable(parts)))


def _counted(part: Strategy, most: int = 3) -> Strategy:
    """How many, and then as many."""
    found = st.lists(part, min_size=1, max_size=most)
    return found.map(lambda parts: (b"%d" % len(parts), *chain.from_iterable(parts)))


_NEAR = _one_of(*(Time(ms) for ms in NEAR_MS))
_ELEMENT = _one_of(*PLACES)
_COUNTED = _counted(_ELEMENT)
_VALUE = _one_of(b"1", b"2", b"-3", b"0.5", b"word", b"")
_PAIR = st.tuples(st.sampled_from(PLACES), st.sampled_from([b"1", b"-3", b"0.5", b"word", b""]))

_EXPIRIES = [
    (),
    (b"KEEPTTL",),
    *((b"EX", Time(ms, 1000)) for ms in (FAR_MS, FAR_MS + 1000, 0)),
    *((b"PX", Time(ms)) for ms in (FAR_MS, *NEAR_MS)),
    *((b"EXAT", Time(ms, 1000, True, True)) for ms in (FAR_MS, -5000)),
    *((b"PXAT", Time(ms, 1, True, True)) for ms in (FAR_MS, FAR_MS + 1)),
]

_SLOTS: dict[str, Strategy] = {
    # Mostly of the wanted type.
    "{hash}": _one_of(*HASHES * 6, *SETS, STRING),
    "{set}": _one_of(*SETS * 6, *HASHES, STRING),
    "{key}": _one_of(*HASHES, *SETS, STRING),
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
}

_SPELLINGS: list[Callable[[bytes], bytes]] = [
    lambda word: word,
    lambda word: word.lower(),
    lambda word: bytes(byte ^ 32 * (i % 2) for i, byte in enumerate(word)),
]


def _rows(*tables: tuple[int, str]) -> list[tuple[str, ...]]:
    """Each row as often as its weight and its table's say."""
    found = []
    for times, table in tables:
        for line in table.strip().splitlines():
            weight, *words = line.split()
            found += [tuple(words)] * int(weight) * times
    return found


_ROW = st.sampled_from(
    _rows(
        *((3, table) for table in (_HASH_ROWS, _SET_ROWS, _KEY_ROWS, _HSETEX_ROWS, _SADDEX_ROWS)),
        *((3, table) for table in (_FIELD_ROWS, _of_sets(_FIELD_ROWS))),
        *((1, table) for table in (_FIELD_FAULTS, _of_sets(_FIELD_FAULTS), _HSETEX_FAULTS)),
    )
)
_SPELLING = st.sampled_from(_SPELLINGS)


# --- what a test draws


@st.composite
def command(draw: st.DrawFn) -> Words:
    """Any one of them, its own words in upper, lower or mixed case."""
    words = draw(_ROW)
    spelled = draw(_SPELLING)
    filled: list[Word] = []
    for word in words:
        filled += draw(_SLOTS[word]) if word in _SLOTS else [spelled(word.encode())]
    return tuple(filled)


@dataclass(frozen=True)
class Fleeting:
    """Elements of every key that are there, and gone before anyone can look twice."""

    first: list[Words]
    then: list[Words]


@st.composite
def fleeting(draw: st.DrawFn) -> Fleeting:
    between = draw(st.lists(command(), max_size=3))
    expire = [(b"HPEXPIREFIELD", key, b"FIELDS") for key in HASHES]
    expire += [(b"SPEXPIREMEMBER", key, b"MEMBERS") for key in SETS]
    dated = [(name, key, *draw(_NEAR), word, *draw(_COUNTED)) for name, key, word in expire]
    first = [*map(fill, (*HASHES, *SETS)), *between, *dated]
    return Fleeting(first, draw(st.lists(command(), min_size=2, max_size=8)))


def fill(key: Key) -> Words:
    """Every element that commands may be about."""
    if key in HASHES:
        pairs: list[Word] = [word for place in PLACES for word in (place, b"1")]
        return (b"HSET", key, *pairs)
    return (b"SADD", key, *PLACES)


# What there is to lose: a new example starts with this in both databases.
STOCK: list[Words] = [
    *map(fill, (*HASHES, *SETS)),
    (b"HEXPIREATFIELD", HASHES[0], Time(FAR_MS, 1000, True, True), b"FIELDS", b"2", *PLACES[:2]),
    (b"SEXPIREATMEMBER", SETS[0], Time(FAR_MS, 1000, True, True), b"MEMBERS", b"2", *PLACES[:2]),
    (b"EXPIREAT", HASHES[1], Time(FAR_MS, 1000, True, True)),
    (b"EXPIREAT", SETS[1], Time(FAR_MS, 1000, True, True)),
]
