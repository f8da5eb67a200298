"""KeyDB's and Dragonfly's commands in the oracle: they follow docs/semantics.md and the replies of
those servers. Garnet's commands are the nine of sorted sets under other names."""

from __future__ import annotations

from tests.oracle.data import (
    NOT_AN_INTEGER,
    WRONGTYPE,
    Call,
    Command,
    Error,
    Reply,
    Row,
    Value,
    integer,
    wrong_number,
)
from tests.oracle.keys import KEYS

_KEYDB_TYPES = {"hash", "set", "zset"}
_DRAGONFLY_TYPES = {"hash", "set"}


def _date(call: Call, value: Value, element: bytes, deadline: int) -> int:
    """1: deadline set, 2: element removed, -2: no such element."""
    if element not in value:
        return -2
    if deadline > call.now_ms:
        value.deadlines[element] = deadline
        return 1
    value.remove(element)
    call.store(call.words[1], value)
    return 2


def _expiremember(unit_ms: int, *, absolute: bool) -> Command:
    def run(call: Call) -> Reply:
        _, key, element, time, *unit = call.words
        ms = (integer(time) or 0) * (1 if unit and unit[0].lower() == b"ms" else unit_ms)
        value = call.find(key)
        if value is not None and value.type not in _KEYDB_TYPES:
            return Error("ERR object type is unsupported")
        if value is None:
            return 0
        return int(_date(call, value, element, ms if absolute else ms + call.now_ms) > 0)

    return run


def _pttl(call: Call) -> int:
    value = call.find(call.words[1])
    if value is None:
        return -2
    if value.type not in _KEYDB_TYPES or call.words[2] not in value.deadlines:
        return -1
    return max(0, value.deadlines[call.words[2]] - call.now_ms)


def _ttl(call: Call) -> int:
    left = _pttl(call)
    return left if left < 0 else (left + 500) // 1000


def _persist(call: Call) -> int:
    value = call.find(call.words[1])
    if value is None or value.type not in _KEYDB_TYPES:
        return 0
    return int(value.deadlines.pop(call.words[2], None) is not None)


def _longer(name: str, run: Command) -> Row:
    """Redis's own command if the number of words fits, else KeyDB's with one word more."""
    own = KEYS[name]

    def either(call: Call) -> Reply:
        words = len(call.words)
        return own.run(call) if own.accepts(words) else run(call)

    return Row(lambda call: either(call) if len(call.words) < 4 else wrong_number(name), -2)


def _fieldexpire(call: Call) -> Reply:
    _, key, seconds, *elements = call.words
    if (amount := integer(seconds) or 0) < 1:
        return NOT_AN_INTEGER
    value = call.find(key)
    if value is not None and value.type not in _DRAGONFLY_TYPES:
        return [-2] * len(elements)
    deadline = call.now_ms + amount * 1000
    found = value or Value("hash")
    return [_date(call, found, each, deadline) for each in elements]


def _fieldttl(call: Call) -> Reply:
    _, key, element = call.words
    value = call.find(key)
    if value is None:
        return -2
    if value.type not in _DRAGONFLY_TYPES:
        return WRONGTYPE
    if element not in value:
        return -3
    deadline = value.deadlines.get(element)
    return -1 if deadline is None else -(-max(0, deadline - call.now_ms) // 1000)


DIALECTS: dict[str, Row] = {
    "expiremember": Row(_expiremember(1000, absolute=False), -4),
    "expirememberat": Row(_expiremember(1000, absolute=True), 4),
    "pexpirememberat": Row(_expiremember(1, absolute=True), 4),
    "ttl": _longer("ttl", _ttl),
    "pttl": _longer("pttl", _pttl),
    "persist": _longer("persist", _persist),
    "fieldexpire": Row(_fieldexpire, -4),
    "fieldttl": Row(_fieldttl, 3),
}
