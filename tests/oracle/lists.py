"""Redis's list commands as the oracle runs them. Equal values of one list share one deadline."""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle.data import (
    NO_SUCH_KEY,
    OK,
    SYNTAX,
    WRONGTYPE,
    Call,
    Error,
    Reply,
    Row,
    Value,
    integer,
)

_NOT_POSITIVE = Error("ERR value is out of range, must be positive")
_SIDES = {b"LEFT": 0, b"RIGHT": -1}


def push(value: Value, side: int, items: list[bytes]) -> None:
    """Pushes one after the other, at the head (0) or the tail (-1)."""
    if side == 0:
        value.items[:0] = items[::-1]
    else:
        value.items += items


def _numbers(call: Call, *places: int) -> list[int]:
    """Arguments that this test draws only as integers."""
    found = [integer(call.words[place]) for place in places]
    return [number for number in found if number is not None]


def _range(items: list[bytes], start: int, stop: int) -> slice:
    """Redis's inclusive range; negative indexes count from the end."""
    start = max(0, start + len(items)) if start < 0 else start
    stop = stop + len(items) if stop < 0 else stop
    return slice(start, max(start, stop + 1))


def _push(side: int, *, only_there: bool = False) -> Row:
    def run(call: Call) -> Reply:
        value = call.typed(call.words[1], "list")
        if isinstance(value, Error):
            return value
        if only_there and not len(value):
            return 0
        push(value, side, call.words[2:])
        call.store(call.words[1], value)
        return len(value)

    return Row(run, -3)


def _linsert(call: Call) -> Reply:
    _, key, where, pivot, item = call.words
    if where.upper() not in {b"BEFORE", b"AFTER"}:
        return SYNTAX
    value = call.typed(key, "list")
    if isinstance(value, Error):
        return value
    if not len(value):
        return 0
    if pivot not in value.items:
        return -1
    value.items.insert(value.items.index(pivot) + (where.upper() == b"AFTER"), item)
    return len(value)


def _lset(call: Call) -> Reply:
    value = call.typed(call.words[1], "list")
    if isinstance(value, Error):
        return value
    if not len(value):
        return NO_SUCH_KEY
    (place,) = _numbers(call, 2)
    if not -len(value) <= place < len(value):
        return Error("ERR index out of range")
    value.items[place] = call.words[3]
    value.forget_absent()
    return OK


def _lrem(call: Call) -> Reply:
    value = call.typed(call.words[1], "list")
    if isinstance(value, Error):
        return value
    (count,) = _numbers(call, 2)
    places = [place for place, item in enumerate(value.items) if item == call.words[3]]
    gone = places[count:] if count < 0 else places[: count or None]
    value.items = [item for place, item in enumerate(value.items) if place not in gone]
    return _after_removal(call, value, len(gone))


def _after_removal(call: Call, value: Value, reply: Reply) -> Reply:
    value.forget_absent()
    call.store(call.words[1], value)
    return reply


def _ltrim(call: Call) -> Reply:
    value = call.typed(call.words[1], "list")
    if isinstance(value, Error):
        return value
    start, stop = _numbers(call, 2, 3)
    value.items = value.items[_range(value.items, start, stop)]
    return _after_removal(call, value, OK)


def _pop(side: int) -> Row:
    def run(call: Call) -> Reply:
        count = integer(call.words[2]) if len(call.words) > 2 else 1
        if count is None or count < 0:
            return _NOT_POSITIVE
        value = call.typed(call.words[1], "list")
        if isinstance(value, Error):
            return value
        if not len(value):
            return None
        popped = _taken(value, side, count)
        _after_removal(call, value, None)
        return list(popped) if len(call.words) > 2 else popped[0]

    return Row(run, -2)


def _taken(value: Value, side: int, count: int) -> list[bytes]:
    if side == 0:
        popped, value.items = value.items[:count], value.items[count:]
        return popped
    kept = max(0, len(value.items) - count)
    popped, value.items = value.items[kept:][::-1], value.items[:kept]
    return popped


def _lmpop(call: Call) -> Reply:
    """LMPOP numkeys key ... LEFT|RIGHT [COUNT n]; pops from the first key that has something."""
    (numkeys,) = _numbers(call, 1)
    side, *rest = call.words[2 + numkeys :]
    count = integer(rest[1]) if rest else 1
    found = call.first_filled(call.words[2 : 2 + numkeys], "list")
    if found is None or isinstance(found, Error):
        return found
    key, value = found
    popped = _taken(value, _SIDES[side.upper()], count or 1)
    value.forget_absent()
    call.store(key, value)
    return [key, list(popped)]


def _bpop(side: int) -> Row:
    """The reply to a client that need not wait, or whose wait has timed out."""

    def run(call: Call) -> Reply:
        found = call.first_filled(call.words[1:-1], "list")
        if found is None or isinstance(found, Error):
            return found
        key, value = found
        (popped,) = _taken(value, side, 1)
        value.forget_absent()
        call.store(key, value)
        return [key, popped]

    return Row(run, -3)


def _mover(sides: Callable[[list[bytes]], list[bytes]], arity: int, *, dated: bool = True) -> Row:
    """`sides` finds LEFT or RIGHT twice in the words. Deadlines move along only if `dated`."""

    def run(call: Call) -> Reply:
        wanted = [_SIDES.get(word.upper()) for word in sides(call.words)]
        origin, side = wanted
        if origin is None or side is None:
            return SYNTAX
        if call.find(call.words[1]) is None:
            return None
        source = call.typed(call.words[1], "list")
        target = call.typed(call.words[2], "list")
        if isinstance(source, Error) or isinstance(target, Error):
            return WRONGTYPE
        return _moved(call, source, target, origin, side, dated=dated)

    return Row(run, arity)


def _moved(
    call: Call, source: Value, target: Value, origin: int, side: int, *, dated: bool
) -> Reply:
    (item,) = _taken(source, origin, 1)
    deadline = source.deadlines.get(item)
    if target is not source:
        if dated and deadline is not None and item not in target.items:
            target.deadlines[item] = deadline
        source.forget_absent()
    push(target, side, [item])
    call.store(call.words[1], source)
    call.store(call.words[2], target)
    return item


def _lrange(call: Call) -> Reply:
    value = call.typed(call.words[1], "list")
    if isinstance(value, Error):
        return value
    start, stop = _numbers(call, 2, 3)
    return list(value.items[_range(value.items, start, stop)])


def _lindex(call: Call) -> Reply:
    value = call.typed(call.words[1], "list")
    if isinstance(value, Error):
        return value
    (place,) = _numbers(call, 2)
    return value.items[place] if -len(value) <= place < len(value) else None


def _llen(call: Call) -> Reply:
    value = call.typed(call.words[1], "list")
    return value if isinstance(value, Error) else len(value)


def _lpos(call: Call) -> Reply:
    """LPOS key element [COUNT n]"""
    value = call.typed(call.words[1], "list")
    if isinstance(value, Error):
        return value
    places: list[Reply] = [n for n, item in enumerate(value.items) if item == call.words[2]]
    if len(call.words) == 3:
        return places[0] if places else None
    (count,) = _numbers(call, 4)
    return places[: count or None]


LISTS: dict[str, Row] = {
    "lpush": _push(0),
    "rpush": _push(-1),
    "lpushx": _push(0, only_there=True),
    "rpushx": _push(-1, only_there=True),
    "linsert": Row(_linsert, 5),
    "lset": Row(_lset, 4),
    "lrem": Row(_lrem, 4),
    "ltrim": Row(_ltrim, 4),
    "lpop": _pop(0),
    "rpop": _pop(-1),
    "lmpop": Row(_lmpop, -4),
    "blpop": _bpop(0),
    "brpop": _bpop(-1),
    "lmove": _mover(lambda words: words[3:5], 5),
    "rpoplpush": _mover(lambda _: [b"RIGHT", b"LEFT"], 3),
    "blmove": _mover(lambda words: words[3:5], 6, dated=False),
    "brpoplpush": _mover(lambda _: [b"RIGHT", b"LEFT"], 4, dated=False),
    "lrange": Row(_lrange, 4),
    "lindex": Row(_lindex, 3),
    "llen": Row(_llen, 2),
    "lpos": Row(_lpos, -3),
}
