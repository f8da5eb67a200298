"""Redis's commands on whole keys and on strings, as the oracle runs them."""

from __future__ import annotations

from itertools import pairwise, zip_longest

from tests.oracle.data import (
    NO_SUCH_KEY,
    NOT_AN_INTEGER,
    OK,
    WRONGTYPE,
    Call,
    Error,
    Reply,
    Row,
    Value,
    integer,
    wrong_number,
)

_SAME = Error("ERR source and destination objects are the same")
_UNITS_MS = {b"EX": 1000, b"PX": 1, b"EXAT": 1000, b"PXAT": 1}


# --- strings, which may replace a collection


def _text(content: bytes) -> Value:
    return Value("string", {b"": content})


def _content(value: Value | None) -> bytes | None:
    return None if value is None else value.elements[b""]


def _set(call: Call) -> Reply:
    """SET key value [NX|XX] [GET] [EX s|PX ms|EXAT s|PXAT ms|KEEPTTL], and never NX with GET."""
    _, key, content, *rest = call.words
    options = [word.upper() for word in rest]
    old = call.find(key)
    if b"GET" in options and old is not None and old.type != "string":
        return WRONGTYPE
    answer = _content(old) if b"GET" in options else OK
    if (b"NX" in options and old is not None) or (b"XX" in options and old is None):
        return answer if b"GET" in options else None
    new = _text(content)
    if b"KEEPTTL" in options and old is not None:
        new.expires_ms = old.expires_ms
    for word, time in pairwise(options):
        if word in _UNITS_MS:
            base_ms = 0 if word.endswith(b"AT") else call.now_ms
            new.expires_ms = int(time) * _UNITS_MS[word] + base_ms
    _put(call, key, new)
    return answer


def _put(call: Call, key: bytes, value: Value) -> None:
    """Stores a key; if its expiry is already past, the key is deleted."""
    if value.expires_ms is not None and value.expires_ms <= call.now_ms:
        call.database.pop(key, None)
    else:
        call.database[key] = value


def _setex(unit_ms: int) -> Row:
    def run(call: Call) -> Reply:
        _, key, time, content = call.words
        new = _text(content)
        new.expires_ms = call.now_ms + int(time) * unit_ms
        call.database[key] = new
        return OK

    return Row(run, 4)


def _setnx(call: Call) -> Reply:
    if call.find(call.words[1]) is not None:
        return 0
    call.database[call.words[1]] = _text(call.words[2])
    return 1


def _getset(call: Call) -> Reply:
    value = call.typed(call.words[1], "string")
    if isinstance(value, Error):
        return value
    call.database[call.words[1]] = _text(call.words[2])
    return value.elements.get(b"")


def _mset(call: Call) -> Reply:
    if len(call.words) % 2 == 0:
        return wrong_number(call.name)
    nx = call.name == "msetnx"
    if nx and any(call.find(key) is not None for key in call.words[1::2]):
        return 0
    for key, content in zip(call.words[1::2], call.words[2::2], strict=True):
        call.database[key] = _text(content)
    return 1 if nx else OK


def _append(call: Call) -> Reply:
    value = call.typed(call.words[1], "string")
    if isinstance(value, Error):
        return value
    value.elements[b""] = value.elements.get(b"", b"") + call.words[2]
    call.database[call.words[1]] = value
    return len(value.elements[b""])


def _incr(call: Call) -> Reply:
    value = call.typed(call.words[1], "string")
    if isinstance(value, Error):
        return value
    start = integer(value.elements.get(b"", b"0"))
    if start is None:
        return NOT_AN_INTEGER
    value.elements[b""] = b"%d" % (start + 1)
    call.database[call.words[1]] = value
    return start + 1


def _bitop_or(call: Call) -> Reply:
    """BITOP OR target source ...; without any source value the target is deleted."""
    sources = [call.typed(key, "string") for key in call.words[3:]]
    texts = [each.elements.get(b"", b"") for each in sources if not isinstance(each, Error)]
    if len(texts) < len(sources):
        return WRONGTYPE
    joined = b""
    for text in texts:
        joined = bytes(a | b for a, b in zip_longest(joined, text, fillvalue=0))
    if joined:
        call.database[call.words[2]] = _text(joined)
    else:
        call.database.pop(call.words[2], None)
    return len(joined)


def _get(call: Call) -> Reply:
    value = call.typed(call.words[1], "string")
    return value if isinstance(value, Error) else value.elements.get(b"")


def _getdel(call: Call) -> Reply:
    value = call.typed(call.words[1], "string")
    if isinstance(value, Error):
        return value
    call.database.pop(call.words[1], None)
    return value.elements.get(b"")


# --- any type


def _keys(call: Call) -> Reply:
    """KEYS *"""
    return [key for key in list(call.database) if call.find(key) is not None]


def _scan(call: Call) -> Reply:
    """SCAN 0 COUNT n, with n above the number of keys."""
    return [b"0", _keys(call)]


def _copy(call: Call) -> Reply:
    """COPY source target [DB n] [REPLACE]"""
    _, source_key, target_key, *rest = call.words
    options = [word.upper() for word in rest]
    target_db = int(options[options.index(b"DB") + 1]) if b"DB" in options else call.db
    if (source_key, call.db) == (target_key, target_db):
        return _SAME
    value = call.find(source_key)
    if value is None:
        return 0
    if call.find(target_key, target_db) is not None and b"REPLACE" not in options:
        return 0
    call.databases[target_db][target_key] = value.copy()
    return 1


def _move(call: Call) -> Reply:
    _, key, word = call.words
    target_db = int(word)
    if target_db == call.db:
        return _SAME
    value = call.find(key)
    if value is None or call.find(key, target_db) is not None:
        return 0
    call.databases[target_db][key] = call.database.pop(key)
    return 1


def _swapdb(call: Call) -> Reply:
    one, other = int(call.words[1]), int(call.words[2])
    databases = call.databases
    databases[one], databases[other] = databases[other], databases[one]
    return OK


def _flushdb(call: Call) -> Reply:
    call.database.clear()
    return OK


def _flushall(call: Call) -> Reply:
    for database in call.databases:
        database.clear()
    return OK


def _del(call: Call) -> Reply:
    gone = {key for key in call.words[1:] if call.find(key) is not None}
    for key in gone:
        del call.database[key]
    return len(gone)


def _exists(call: Call) -> Reply:
    return sum(call.find(key) is not None for key in call.words[1:])


def _type(call: Call) -> Reply:
    value = call.find(call.words[1])
    return b"none" if value is None else value.type.encode()


def _rename(call: Call) -> Reply:
    _, source_key, target_key = call.words
    value = call.find(source_key)
    if value is None:
        return NO_SUCH_KEY
    if call.name == "renamenx" and call.find(target_key) is not None:
        return 0
    del call.database[source_key]
    call.database[target_key] = value
    return 1 if call.name == "renamenx" else OK


def _expire(unit_ms: int, *, absolute: bool) -> Row:
    def run(call: Call) -> Reply:
        conditions = {word.upper() for word in call.words[3:]}
        if conditions and call.version < (7, 0):
            return wrong_number(call.name)
        for word in call.words[3:]:
            if word.upper() not in {b"NX", b"XX", b"GT", b"LT"}:
                return Error(f"ERR Unsupported option {word.decode(errors='surrogateescape')}")
        if b"NX" in conditions and len(conditions) > 1:
            return Error("ERR NX and XX, GT or LT options at the same time are not compatible")
        if {b"GT", b"LT"} <= conditions:
            return Error("ERR GT and LT options at the same time are not compatible")
        time = integer(call.words[2])
        if time is None:
            return NOT_AN_INTEGER
        return _expire_key(call, time * unit_ms + (0 if absolute else call.now_ms), conditions)

    return Row(run, -3)


def _expire_key(call: Call, expires_ms: int, conditions: set[bytes]) -> Reply:
    value = call.find(call.words[1])
    if value is None:
        return 0
    current = value.expires_ms
    refused = (
        (b"NX" in conditions and current is not None)
        or (b"XX" in conditions and current is None)
        or (b"GT" in conditions and (current is None or expires_ms <= current))
        or (b"LT" in conditions and current is not None and expires_ms >= current)
    )
    if refused:
        return 0
    value.expires_ms = expires_ms
    if expires_ms <= call.now_ms:
        del call.database[call.words[1]]
    return 1


def _persist(call: Call) -> Reply:
    value = call.find(call.words[1])
    if value is None or value.expires_ms is None:
        return 0
    value.expires_ms = None
    return 1


def _pttl(call: Call) -> int:
    value = call.find(call.words[1])
    if value is None:
        return -2
    return -1 if value.expires_ms is None else max(0, value.expires_ms - call.now_ms)


def _ttl(call: Call) -> int:
    left = _pttl(call)
    return left if left < 0 else (left + 500) // 1000


def _expiretime(unit_ms: int) -> Row:
    def run(call: Call) -> Reply:
        value = call.find(call.words[1])
        if value is None:
            return -2
        return -1 if value.expires_ms is None else (value.expires_ms + unit_ms // 2) // unit_ms

    return Row(run, 2)


KEYS: dict[str, Row] = {
    "set": Row(_set, -3),
    "setex": _setex(1000),
    "psetex": _setex(1),
    "setnx": Row(_setnx, 3),
    "getset": Row(_getset, 3),
    "getdel": Row(_getdel, 2),
    "mset": Row(_mset, -3),
    "msetnx": Row(_mset, -3),
    "append": Row(_append, 3),
    "incr": Row(_incr, 2),
    "bitop": Row(_bitop_or, -4),
    "get": Row(_get, 2),
    "del": Row(_del, -2),
    "unlink": Row(_del, -2),
    "exists": Row(_exists, -2),
    "type": Row(_type, 2),
    "keys": Row(_keys, 2),
    "scan": Row(_scan, -2),
    "rename": Row(_rename, 3),
    "renamenx": Row(_rename, 3),
    "copy": Row(_copy, -3),
    "move": Row(_move, 3),
    "swapdb": Row(_swapdb, 3),
    "flushdb": Row(_flushdb, -1),
    "flushall": Row(_flushall, -1),
    "expire": _expire(1000, absolute=False),
    "pexpire": _expire(1, absolute=False),
    "expireat": _expire(1000, absolute=True),
    "pexpireat": _expire(1, absolute=True),
    "persist": Row(_persist, 2),
    "ttl": Row(_ttl, 2),
    "pttl": Row(_pttl, 2),
    "expiretime": _expiretime(1000),
    "pexpiretime": _expiretime(1),
}
