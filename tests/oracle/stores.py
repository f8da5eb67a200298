"""Commands that compute a new collection from others: unions, intersections, differences, SORT.

A result starts clean (R4): no deadlines and no key-level expiry, whatever was at its key before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import NamedTuple, TypeAlias

from tests.oracle.data import WRONGTYPE, Call, Error, Reply, Row, Value, integer, score_text
from tests.oracle.sorted_sets import Pairs, flat, ordered

_Combined: TypeAlias = "Callable[[set[bytes], set[bytes]], set[bytes]]"

_WAYS: dict[str, _Combined] = {
    "union": set.union,
    "inter": set.intersection,
    "diff": set.difference,
}


# --- sets


def _members(call: Call, keys: list[bytes], way: str) -> set[bytes] | Error:
    """The members that result from the keys' sets."""
    found: list[set[bytes]] = []
    for key in keys:
        value = call.typed(key, "set")
        if isinstance(value, Error):
            return value
        found.append(set(value.elements))
    return reduce(_WAYS[way], found)


def _set_read(way: str) -> Row:
    def run(call: Call) -> Reply:
        members = _members(call, call.words[1:], way)
        return members if isinstance(members, Error) else list(members)

    return Row(run, -2)


def _set_store(way: str) -> Row:
    def run(call: Call) -> Reply:
        members = _members(call, call.words[2:], way)
        if isinstance(members, Error):
            return members
        call.store(call.words[1], Value("set", dict.fromkeys(members, b"")))
        return len(members)

    return Row(run, -3)


def _sintercard(call: Call) -> Reply:
    """SINTERCARD numkeys key ..."""
    members = _members(call, call.words[2:], "inter")
    return members if isinstance(members, Error) else len(members)


# --- sorted sets; their commands read a set as scores that are all 1


class _Sources(NamedTuple):
    values: list[Value]
    weights: list[float]
    aggregate: bytes


def _sources(call: Call, words: list[bytes]) -> _Sources | Error:
    """`numkeys key ... [WEIGHTS w ...] [AGGREGATE how]`"""
    numkeys = integer(words[0]) or 0
    values: list[Value] = []
    for key in words[1 : 1 + numkeys]:
        value = call.find(key) or Value("zset")
        if value.type not in {"zset", "set"}:
            return WRONGTYPE
        values.append(value)
    options = [word.upper() for word in words[1 + numkeys :]]
    weights = [1.0] * numkeys
    if b"WEIGHTS" in options:
        at = options.index(b"WEIGHTS") + 1
        weights = [float(word) for word in options[at : at + numkeys]]
    aggregate = options[options.index(b"AGGREGATE") + 1] if b"AGGREGATE" in options else b"SUM"
    return _Sources(values, weights, aggregate)


def _joined(sources: _Sources, way: str) -> Pairs:
    members = reduce(_WAYS[way], [set(value.elements) for value in sources.values])
    scored: list[dict[bytes, float]] = []
    for value, weight in zip(sources.values, sources.weights, strict=True):
        scored.append({member: _number(score * weight) for member, score in ordered(value)})
    if way == "diff":
        return [(member, scored[0][member]) for member in members]
    return [
        (member, _aggregated([each[member] for each in scored if member in each], sources))
        for member in members
    ]


def _aggregated(scores: list[float], sources: _Sources) -> float:
    if sources.aggregate == b"MIN":
        return min(scores)
    return max(scores) if sources.aggregate == b"MAX" else _number(sum(scores))


def _number(score: float) -> float:
    """Redis uses 0 here for a result that is not a number."""
    return 0.0 if math.isnan(score) else score


def _value(pairs: Pairs) -> Value:
    return Value("zset", {member: score_text(score) for member, score in pairs})


def _zset_read(way: str) -> Row:
    def run(call: Call) -> Reply:
        sources = _sources(call, call.words[1:])
        if isinstance(sources, Error):
            return sources
        result = ordered(_value(_joined(sources, way)))
        return flat(result, scores=call.words[-1].upper() == b"WITHSCORES")

    return Row(run, -3)


def _zset_store(way: str) -> Row:
    def run(call: Call) -> Reply:
        sources = _sources(call, call.words[2:])
        if isinstance(sources, Error):
            return sources
        result = _value(_joined(sources, way))
        call.store(call.words[1], result)
        return len(result)

    return Row(run, -4)


# --- SORT


def _sort(call: Call) -> Reply:
    """SORT key ALPHA [STORE target]"""
    value = call.find(call.words[1]) or Value("list")
    if value.type not in {"list", "set", "zset"}:
        return WRONGTYPE
    items = sorted([*value.items, *value.elements])
    if len(call.words) == 3:
        return list(items)
    call.store(call.words[4], Value("list", items=items))
    return len(items)


STORES: dict[str, Row] = {
    **{f"s{way}": _set_read(way) for way in _WAYS},
    **{f"s{way}store": _set_store(way) for way in _WAYS},
    "sintercard": Row(_sintercard, -3),
    **{f"z{way}": _zset_read(way) for way in _WAYS},
    **{f"z{way}store": _zset_store(way) for way in _WAYS},
    "sort": Row(_sort, -2),
}
