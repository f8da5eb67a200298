"""Redis's own commands as the oracle runs them: the tables of docs/semantics.md.

Hashes and sets are here, the rest in modules of its own.
"""

from __future__ import annotations

import re
from decimal import Decimal, localcontext

from tests.oracle.data import (
    INT64,
    NOT_AN_INTEGER,
    OK,
    SYNTAX,
    WRONGTYPE,
    Call,
    Error,
    Reply,
    Row,
    Value,
    integer,
    wrong_number,
)
from tests.oracle.keys import KEYS
from tests.oracle.lists import LISTS
from tests.oracle.sorted_sets import ZSETS
from tests.oracle.stores import STORES

_FLOAT = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


# --- hashes


def _hset(call: Call) -> Reply:
    if len(call.words) % 2:
        return wrong_number(call.name)
    key = call.words[1]
    value = call.typed(key, "hash")
    if isinstance(value, Error):
        return value
    created = 0
    for field, content in zip(call.words[2::2], call.words[3::2], strict=True):
        created += field not in value.elements
        value.elements[field] = content
        value.deadlines.pop(field, None)
    call.store(key, value)
    return created if call.name == "hset" else OK


def _hsetnx(call: Call) -> Reply:
    _, key, field, content = call.words
    value = call.typed(key, "hash")
    if isinstance(value, Error):
        return value
    if field in value.elements:
        return 0
    value.elements[field] = content
    call.store(key, value)
    return 1


def _hincrby(call: Call) -> Reply:
    _, key, field, by = call.words
    step = integer(by)
    if step is None:
        return NOT_AN_INTEGER
    value = call.typed(key, "hash")
    if isinstance(value, Error):
        return value
    start = integer(value.elements.get(field, b"0"))
    if start is None:
        return Error("ERR hash value is not an integer")
    if not -INT64 <= start + step < INT64:
        return Error("ERR increment or decrement would overflow")
    value.elements[field] = b"%d" % (start + step)
    call.store(key, value)
    return start + step


def _hincrbyfloat(call: Call) -> Reply:
    _, key, field, by = call.words
    if _FLOAT.fullmatch(by) is None:
        return Error("ERR value is not a valid float")
    value = call.typed(key, "hash")
    if isinstance(value, Error):
        return value
    start = value.elements.get(field, b"0")
    if _FLOAT.fullmatch(start) is None:
        return Error("ERR hash value is not a float")
    with localcontext(prec=40):
        total = Decimal(start.decode()) + Decimal(by.decode())
        text = f"{total:.17f}".rstrip("0").rstrip(".")
    value.elements[field] = text.encode()
    call.store(key, value)
    return value.elements[field]


def _hget(call: Call) -> Reply:
    value = call.typed(call.words[1], "hash")
    return value if isinstance(value, Error) else value.elements.get(call.words[2])


def _hgetall(call: Call) -> Reply:
    value = call.typed(call.words[1], "hash")
    if isinstance(value, Error):
        return value
    return [word for pair in value.elements.items() for word in pair]


# --- sets


def _sadd(call: Call) -> Reply:
    key = call.words[1]
    value = call.typed(key, "set")
    if isinstance(value, Error):
        return value
    before = len(value.elements)
    for member in call.words[2:]:
        value.elements.setdefault(member, b"")
    call.store(key, value)
    return len(value.elements) - before


def _spop(call: Call) -> Reply:
    if len(call.words) > 3:
        return SYNTAX
    key = call.words[1]
    count = integer(call.words[2]) if len(call.words) == 3 else 1
    if count is None or count < 0:
        return Error("ERR value is out of range, must be positive")
    value = call.typed(key, "set")
    if isinstance(value, Error):
        return value
    popped = _picked(call, value, min(count, len(value.elements)))
    for member in popped:
        value.remove(member)
    call.store(key, value)
    if len(call.words) == 3:
        return list(popped)
    return popped[0] if popped else None


def _picked(call: Call, value: Value, count: int) -> list[bytes]:
    """The members that the server says it took, if that is possible, else any others."""
    said = call.seen if isinstance(call.seen, list) else [call.seen]
    names = [member for member in said if isinstance(member, bytes)]
    if len(names) == len(set(names)) == count and set(names) <= value.elements.keys():
        return names
    return list(value.elements)[:count]


def _smove(call: Call) -> Reply:
    _, source_key, target_key, member = call.words
    if call.find(source_key) is None:
        return 0
    source, target = call.typed(source_key, "set"), call.typed(target_key, "set")
    if isinstance(source, Error) or isinstance(target, Error):
        return WRONGTYPE
    if member not in source.elements:
        return 0
    if source_key == target_key:
        return 1
    deadline = source.deadlines.get(member)
    source.remove(member)
    if member not in target.elements:
        target.elements[member] = b""
        if deadline is not None:
            target.deadlines[member] = deadline
    call.store(source_key, source)
    call.store(target_key, target)
    return 1


def _smembers(call: Call) -> Reply:
    value = call.typed(call.words[1], "set")
    return value if isinstance(value, Error) else list(value.elements)


# --- more than one type


def _length(type_: str) -> Row:
    def run(call: Call) -> Reply:
        value = call.typed(call.words[1], type_)
        return value if isinstance(value, Error) else len(value)

    return Row(run, 2)


def _contains(type_: str) -> Row:
    def run(call: Call) -> Reply:
        value = call.typed(call.words[1], type_)
        return value if isinstance(value, Error) else int(call.words[2] in value.elements)

    return Row(run, 3)


def _removal(type_: str) -> Row:
    def run(call: Call) -> Reply:
        value = call.typed(call.words[1], type_)
        if isinstance(value, Error):
            return value
        gone = value.elements.keys() & set(call.words[2:])
        for element in gone:
            value.remove(element)
        call.store(call.words[1], value)
        return len(gone)

    return Row(run, -3)


NATIVE: dict[str, Row] = {
    "hset": Row(_hset, -4),
    "hmset": Row(_hset, -4),
    "hsetnx": Row(_hsetnx, 4),
    "hincrby": Row(_hincrby, 4),
    "hincrbyfloat": Row(_hincrbyfloat, 4),
    "hdel": _removal("hash"),
    "hget": Row(_hget, 3),
    "hgetall": Row(_hgetall, 2),
    "hlen": _length("hash"),
    "hexists": _contains("hash"),
    "sadd": Row(_sadd, -3),
    "srem": _removal("set"),
    "spop": Row(_spop, -2),
    "smove": Row(_smove, 4),
    "smembers": Row(_smembers, 2),
    "scard": _length("set"),
    "sismember": _contains("set"),
    "zrem": _removal("zset"),
    "zcard": _length("zset"),
    **LISTS,
    **ZSETS,
    **STORES,
    **KEYS,
}
