"""Redis's sorted-set commands as the oracle runs them. A score is kept as Redis writes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeAlias

from tests.oracle.data import (
    NOT_A_FLOAT,
    SYNTAX,
    Call,
    Error,
    Reply,
    Row,
    Value,
    integer,
    score_of,
    score_text,
)

Pairs: TypeAlias = "list[tuple[bytes, float]]"

_NAN = Error("ERR resulting score is not a number (NaN)")
_NOT_A_RANGE = Error("ERR min or max is not a float")
_FLAGS = {b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"}


def ordered(value: Value) -> Pairs:
    """Lowest score first, then by name; members of a set have the score 1."""
    scores = [(member, float(score or b"1")) for member, score in value.elements.items()]
    return sorted(scores, key=lambda pair: (pair[1], pair[0]))


# --- writing


class Flags(frozenset[bytes]):
    """ZADD's options, as a set of upper-case words."""

    def refusal(self, pairs: int) -> Error | None:
        """ZADD's error for options that exclude each other."""
        if {b"NX", b"XX"} <= self:
            return Error("ERR XX and NX options at the same time are not compatible")
        if len(self & {b"NX", b"GT", b"LT"}) > 1:
            return Error("ERR GT, LT, and/or NX options at the same time are not compatible")
        if b"INCR" in self and pairs > 1:
            return Error("ERR INCR option supports a single increment-element pair")
        return None

    def skips(self, current: float | None, score: float) -> bool:
        if current is None:
            return b"XX" in self
        return (
            b"NX" in self
            or (b"GT" in self and score <= current)
            or (b"LT" in self and score >= current)
        )


def scores_of(words: list[bytes]) -> list[float] | Error:
    scores = [score_of(word) for word in words]
    return NOT_A_FLOAT if None in scores else [each for each in scores if each is not None]


def _zadd(call: Call) -> Reply:
    rest = call.words[2:]
    said: set[bytes] = set()
    while rest and rest[0].upper() in _FLAGS:
        said.add(rest.pop(0).upper())
    if not rest or len(rest) % 2:
        return SYNTAX
    flags = Flags(said)
    refusal = flags.refusal(len(rest) // 2)
    if refusal is not None:
        return refusal
    scores = scores_of(rest[::2])
    if isinstance(scores, Error):
        return scores
    value = call.typed(call.words[1], "zset")
    if isinstance(value, Error):
        return value
    if b"INCR" in flags:
        return _increment(call, value, rest[1], scores[0], flags)
    added, updated = 0, 0
    for member, score in zip(rest[1::2], scores, strict=True):
        current = score_in(value, member)
        if flags.skips(current, score):
            continue
        added += current is None
        updated += current is not None and current != score
        value.elements[member] = score_text(score)
        value.deadlines.pop(member, None)
    call.store(call.words[1], value)
    return added + updated if b"CH" in flags else added


def score_in(value: Value, member: bytes) -> float | None:
    score = value.elements.get(member)
    return None if score is None else float(score)


def _increment(call: Call, value: Value, member: bytes, by: float, flags: Flags) -> Reply:
    current = score_in(value, member)
    score = by + (current or 0.0)
    if current is None and b"XX" in flags:
        return None
    if current is not None and b"NX" in flags:
        return None
    if math.isnan(score):
        return _NAN
    if flags.skips(current, score):
        return None
    value.elements[member] = score_text(score)
    call.store(call.words[1], value)
    return score_text(score)


def _zincrby(call: Call) -> Reply:
    by = score_of(call.words[2])
    if by is None:
        return NOT_A_FLOAT
    value = call.typed(call.words[1], "zset")
    if isinstance(value, Error):
        return value
    return _increment(call, value, call.words[3], by, Flags())


# --- ranges

_Range: TypeAlias = "Callable[[Pairs, bytes, bytes], Pairs | Error]"


def _by_rank(pairs: Pairs, low: bytes, high: bytes) -> Pairs:
    start, stop = int(low), int(high)
    start = max(0, start + len(pairs)) if start < 0 else start
    stop = stop + len(pairs) if stop < 0 else stop
    return pairs[start : max(start, stop + 1)]


def _by_score(pairs: Pairs, low: bytes, high: bytes) -> Pairs | Error:
    least, most = score_of(low.removeprefix(b"(")), score_of(high.removeprefix(b"("))
    if least is None or most is None:
        return _NOT_A_RANGE
    return [
        (member, score)
        for member, score in pairs
        if (least < score or (least == score and not low.startswith(b"(")))
        and (score < most or (score == most and not high.startswith(b"(")))
    ]


def _by_lex(pairs: Pairs, low: bytes, high: bytes) -> Pairs:
    """Only `- +` and `+ -`: Redis promises no order among members of different scores."""
    return pairs if (low, high) == (b"-", b"+") else []


_WAYS: dict[bytes, _Range] = {b"BYSCORE": _by_score, b"BYLEX": _by_lex}


def _chosen(value: Value, words: list[bytes]) -> Pairs | Error:
    """`min max [BYSCORE|BYLEX] [REV] [LIMIT offset count]`, without WITHSCORES."""
    low, high, *rest = words
    options = [word.upper() for word in rest]
    how = next((_WAYS[word] for word in options if word in _WAYS), _by_rank)
    pairs = ordered(value)
    if b"REV" in options:
        pairs.reverse()
        low, high = (low, high) if how is _by_rank else (high, low)
    found = how(pairs, low, high)
    if isinstance(found, Error) or b"LIMIT" not in options:
        return found
    at = options.index(b"LIMIT")
    offset, count = int(options[at + 1]), int(options[at + 2])
    return found[offset:] if count < 0 else found[offset : offset + count]


def flat(pairs: Iterable[tuple[bytes, float]], *, scores: bool) -> list[Reply]:
    if not scores:
        return [member for member, _ in pairs]
    return [word for member, score in pairs for word in (member, score_text(score))]


def _zrange(prefix: tuple[bytes, ...]) -> Row:
    """ZRANGE; with the options in `prefix`, its older variants."""

    def run(call: Call) -> Reply:
        value = call.typed(call.words[1], "zset")
        words = [*call.words[2:4], *prefix, *call.words[4:]]
        pairs = _chosen(Value("zset") if isinstance(value, Error) else value, words)
        if isinstance(pairs, Error):
            return pairs
        if isinstance(value, Error):
            return value
        return flat(pairs, scores=b"WITHSCORES" in (word.upper() for word in words))

    return Row(run, -4)


def _zrangestore(call: Call) -> Reply:
    value = call.typed(call.words[2], "zset")
    pairs = _chosen(Value("zset") if isinstance(value, Error) else value, call.words[3:])
    if isinstance(pairs, Error):
        return pairs
    if isinstance(value, Error):
        return value
    result = {member: score_text(score) for member, score in pairs}
    call.store(call.words[1], Value("zset", result))
    return len(result)


def _in_range(how: _Range, answer: Callable[[Call, Value, Pairs], int]) -> Row:
    def run(call: Call) -> Reply:
        value = call.typed(call.words[1], "zset")
        held = Value("zset") if isinstance(value, Error) else value
        pairs = how(ordered(held), call.words[2], call.words[3])
        if isinstance(pairs, Error):
            return pairs
        return value if isinstance(value, Error) else answer(call, value, pairs)

    return Row(run, 4)


def _without(call: Call, value: Value, pairs: Pairs) -> int:
    for member, _ in pairs:
        value.remove(member)
    call.store(call.words[1], value)
    return len(pairs)


def _counted(_call: Call, _value: Value, pairs: Pairs) -> int:
    return len(pairs)


# --- popping


def _first(value: Value, count: int, *, highest: bool) -> Pairs:
    pairs = ordered(value)
    return (pairs[::-1] if highest else pairs)[:count]


def _zpop(*, highest: bool) -> Row:
    def run(call: Call) -> Reply:
        count = integer(call.words[2]) if len(call.words) > 2 else 1
        value = call.typed(call.words[1], "zset")
        if isinstance(value, Error):
            return value
        pairs = _first(value, count or 0, highest=highest)
        _without(call, value, pairs)
        return flat(pairs, scores=True)

    return Row(run, -2)


def _zmpop(call: Call) -> Reply:
    """ZMPOP numkeys key ... MIN|MAX [COUNT n]; pops from the first key that has something."""
    numkeys = integer(call.words[1]) or 0
    end, *rest = call.words[2 + numkeys :]
    count = integer(rest[1]) if rest else 1
    found = call.first_filled(call.words[2 : 2 + numkeys], "zset")
    if found is None or isinstance(found, Error):
        return found
    key, value = found
    pairs = _first(value, count or 1, highest=end.upper() == b"MAX")
    for member, _ in pairs:
        value.remove(member)
    call.store(key, value)
    return [key, flat(pairs, scores=True)]


def _bzpop(*, highest: bool) -> Row:
    """The reply to a client that need not wait, or whose wait has timed out."""

    def run(call: Call) -> Reply:
        found = call.first_filled(call.words[1:-1], "zset")
        if found is None or isinstance(found, Error):
            return found
        key, value = found
        pairs = _first(value, 1, highest=highest)
        value.remove(pairs[0][0])
        call.store(key, value)
        return [key, *flat(pairs, scores=True)]

    return Row(run, -3)


# --- looking


def _zscore(call: Call) -> Reply:
    value = call.typed(call.words[1], "zset")
    return value if isinstance(value, Error) else value.elements.get(call.words[2])


def _zmscore(call: Call) -> Reply:
    value = call.typed(call.words[1], "zset")
    if isinstance(value, Error):
        return value
    return [value.elements.get(member) for member in call.words[2:]]


def _zrank(*, highest: bool) -> Row:
    def run(call: Call) -> Reply:
        value = call.typed(call.words[1], "zset")
        if isinstance(value, Error):
            return value
        names = [member for member, _ in _first(value, len(value), highest=highest)]
        return names.index(call.words[2]) if call.words[2] in names else None

    return Row(run, 3)


ZSETS: dict[str, Row] = {
    "zadd": Row(_zadd, -4),
    "zincrby": Row(_zincrby, 4),
    "zpopmin": _zpop(highest=False),
    "zpopmax": _zpop(highest=True),
    "zmpop": Row(_zmpop, -4),
    "bzpopmin": _bzpop(highest=False),
    "bzpopmax": _bzpop(highest=True),
    "zremrangebyrank": _in_range(_by_rank, _without),
    "zremrangebyscore": _in_range(_by_score, _without),
    "zremrangebylex": _in_range(_by_lex, _without),
    "zrange": _zrange(()),
    "zrevrange": _zrange((b"REV",)),
    "zrangebyscore": _zrange((b"BYSCORE",)),
    "zrevrangebyscore": _zrange((b"BYSCORE", b"REV")),
    "zrangestore": Row(_zrangestore, -5),
    "zcount": _in_range(_by_score, _counted),
    "zlexcount": _in_range(_by_lex, _counted),
    "zscore": Row(_zscore, 3),
    "zmscore": Row(_zmscore, -3),
    "zrank": _zrank(highest=False),
    "zrevrank": _zrank(highest=True),
}
