"""The virtual commands as the oracle runs them: docs/semantics.md on setting deadlines.

The nine of each type are here, the timed writes in a module of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle.data import Call, Error, Reply, Row, Value, integer
from tests.oracle.timed_writes import (
    ELEMENT,
    FIELD,
    MEMBER,
    TIMED_WRITES,
    ZMEMBER,
    Noun,
    deadline_ms,
)

_CONDITIONS = {b"NX", b"XX", b"GT", b"LT"}


def _long(noun: Noun, words: list[bytes], not_positive: str) -> list[bytes] | Error:
    """The elements in `FIELDS n field ...`, the rest of a command."""
    if words[0].upper() != noun.word:
        name = noun.word.decode()
        return Error(f"ERR Mandatory argument {name} is missing or not at the right position")
    count = integer(words[1])
    if count is None or count < 1:
        return Error(not_positive)
    if count != len(words) - 2:
        return Error(f"ERR The `num{noun.singular}s` parameter must match the number of arguments")
    return words[2:]


# --- HEXPIREFIELD and its variants


def _setter(noun: Noun, unit_ms: int, *, absolute: bool, long: bool = False) -> Row:
    """Both forms; with `long` only the long one, as Redis 8 has it for hashes."""
    not_positive = f"ERR Parameter `num{noun.singular.title()}s` should be greater than 0"

    def run(call: Call) -> Reply:
        words = call.words
        short = not long and (len(words) < 6 or _must_be_short(noun, words))
        value = call.typed(words[1], noun.type)
        if isinstance(value, Error):
            return value
        base_ms = 0 if absolute else call.now_ms
        deadline = deadline_ms(words[3 if short else 2], unit_ms, base_ms, call.name)
        if isinstance(deadline, Error):
            return deadline
        rest = words[4:] if short else words[3:]
        condition = rest.pop(0).upper() if rest and rest[0].upper() in _CONDITIONS else None
        if short:
            if rest and all(word.upper() in _CONDITIONS for word in rest):
                return Error("ERR Multiple condition flags specified")
            rest = [word for word in rest if word.upper() not in _CONDITIONS]
            if rest:
                return Error(f"ERR Unsupported option {rest[0].decode(errors='surrogateescape')}")
            return _expire_element(call, value, words[2], deadline, condition)
        elements = _long(noun, rest, not_positive)
        if isinstance(elements, Error):
            return elements
        return [_expire_element(call, value, each, deadline, condition) for each in elements]

    return Row(run, -6 if long else -4)


def _must_be_short(noun: Noun, words: list[bytes]) -> bool:
    """Whether only the short form fits: too many words for it, and a time where it has one."""
    named = noun.word in (word.upper() for word in words[3:5])
    return integer(words[3]) is not None and integer(words[2]) is None and not named


def _expire_element(
    call: Call, value: Value, element: bytes, deadline: int, condition: bytes | None
) -> int:
    if element not in value:
        return -2
    current = value.deadlines.get(element)
    refused = (
        (condition == b"NX" and current is not None)
        or (condition == b"XX" and current is None)
        or (condition == b"GT" and (current is None or deadline <= current))
        or (condition == b"LT" and current is not None and deadline >= current)
    )
    if refused:
        return 0
    if deadline <= call.now_ms:
        value.remove(element)
        call.store(call.words[1], value)
        return 2
    value.deadlines[element] = deadline
    return 1


# --- HTTLFIELD, HEXPIRETIMEFIELD, HPERSISTFIELD and their variants


def _ttl(call: Call, value: Value, element: bytes) -> int:
    return max(0, value.deadlines[element] - call.now_ms)


def _ttl_s(call: Call, value: Value, element: bytes) -> int:
    return -(-_ttl(call, value, element) // 1000)


def _expiretime(call: Call, value: Value, element: bytes) -> int:
    return value.deadlines[element]


def _expiretime_s(call: Call, value: Value, element: bytes) -> int:
    return -(-value.deadlines[element] // 1000)


def _persist(call: Call, value: Value, element: bytes) -> int:
    del value.deadlines[element]
    return 1


def _query(noun: Noun, answer: Callable[[Call, Value, bytes], int], *, long: bool = False) -> Row:
    not_positive = f"ERR Number of {noun.singular}s must be a positive integer"

    def one(call: Call, value: Value, element: bytes) -> int:
        if element not in value:
            return -2
        return answer(call, value, element) if element in value.deadlines else -1

    def run(call: Call) -> Reply:
        value = call.typed(call.words[1], noun.type)
        if isinstance(value, Error):
            return value
        if len(call.words) == 3:
            return one(call, value, call.words[2])
        elements = _long(noun, call.words[2:], not_positive)
        if isinstance(elements, Error):
            return elements
        return [one(call, value, each) for each in elements]

    return Row(run, -5) if long else Row(run, -3, gap=4)


def _family(noun: Noun) -> dict[str, Row]:
    prefix, singular = noun.prefix, noun.singular
    return {
        f"{prefix}expire{singular}": _setter(noun, 1000, absolute=False),
        f"{prefix}pexpire{singular}": _setter(noun, 1, absolute=False),
        f"{prefix}expireat{singular}": _setter(noun, 1000, absolute=True),
        f"{prefix}pexpireat{singular}": _setter(noun, 1, absolute=True),
        f"{prefix}ttl{singular}": _query(noun, _ttl_s),
        f"{prefix}pttl{singular}": _query(noun, _ttl),
        f"{prefix}expiretime{singular}": _query(noun, _expiretime_s),
        f"{prefix}pexpiretime{singular}": _query(noun, _expiretime),
        f"{prefix}persist{singular}": _query(noun, _persist),
    }


# Redis 8's own hash commands, for servers that lack them.
_REDIS_8: dict[str, Row] = {
    "hexpire": _setter(FIELD, 1000, absolute=False, long=True),
    "hpexpire": _setter(FIELD, 1, absolute=False, long=True),
    "hexpireat": _setter(FIELD, 1000, absolute=True, long=True),
    "hpexpireat": _setter(FIELD, 1, absolute=True, long=True),
    "httl": _query(FIELD, _ttl_s, long=True),
    "hpttl": _query(FIELD, _ttl, long=True),
    "hexpiretime": _query(FIELD, _expiretime_s, long=True),
    "hpexpiretime": _query(FIELD, _expiretime, long=True),
    "hpersist": _query(FIELD, _persist, long=True),
}

VIRTUAL: dict[str, Row] = {
    **_REDIS_8,
    **_family(FIELD),
    **_family(MEMBER),
    **_family(ZMEMBER),
    **_family(ELEMENT),
    **TIMED_WRITES,
}
