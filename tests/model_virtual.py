"""The virtual commands as the oracle does them: SEMANTICS.md's second table, hashes and sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.model_data import (
    MAX_DEADLINE_MS,
    NOT_AN_INTEGER,
    Call,
    Error,
    Reply,
    Row,
    Value,
    integer,
    wrong_number,
)

_CONDITIONS = {b"NX", b"XX", b"GT", b"LT"}
_UNITS_MS = {b"EX": 1000, b"PX": 1, b"EXAT": 1000, b"PXAT": 1}
_NEGATIVE = Error("ERR invalid expire time, must be >= 0")


class Noun(NamedTuple):
    """How a type calls its elements."""

    prefix: str
    type: str
    singular: str

    @property
    def word(self) -> bytes:
        """What announces the count in the long forms."""
        return f"{self.singular}s".upper().encode()


_FIELD = Noun("h", "hash", "field")
_MEMBER = Noun("s", "set", "member")


def _deadline_ms(word: bytes, unit_ms: int, base_ms: int, command: str) -> int | Error:
    time = integer(word)
    if time is None:
        return NOT_AN_INTEGER
    if time < 0:
        return _NEGATIVE
    if time * unit_ms + base_ms > MAX_DEADLINE_MS:
        return Error(f"ERR invalid expire time in '{command}' command")
    return time * unit_ms + base_ms


def _long(noun: Noun, words: list[bytes], not_positive: str) -> list[bytes] | Error:
    """`FIELDS n field ...` as the rest of a command; the elements."""
    if words[0].upper() != noun.word:
        name = noun.word.decode()
        return Error(f"ERR Mandatory argument {name} is missing or not at the right position")
    count = integer(words[1])
    if count is None or count < 1:
        return Error(not_positive)
    if count != len(words) - 2:
        return Error(f"ERR The `num{noun.singular}s` parameter must match the number of arguments")
    return words[2:]


# --- HEXPIREFIELD and its kin


def _setter(noun: Noun, unit_ms: int, *, absolute: bool) -> Row:
    not_positive = f"ERR Parameter `num{noun.singular.title()}s` should be greater than 0"

    def run(call: Call) -> Reply:
        words = call.words
        short = len(words) < 6
        value = call.typed(words[1], noun.type)
        if isinstance(value, Error):
            return value
        base_ms = 0 if absolute else call.now_ms
        deadline = _deadline_ms(words[3 if short else 2], unit_ms, base_ms, call.name)
        if isinstance(deadline, Error):
            return deadline
        rest = words[4:] if short else words[3:]
        condition = rest.pop(0).upper() if rest and rest[0].upper() in _CONDITIONS else None
        if short:
            if rest:
                return Error(f"ERR Unsupported option {rest[0].decode(errors='surrogateescape')}")
            return _expire_element(call, value, words[2], deadline, condition)
        elements = _long(noun, rest, not_positive)
        if isinstance(elements, Error):
            return elements
        return [_expire_element(call, value, each, deadline, condition) for each in elements]

    return Row(run, -4)


def _expire_element(
    call: Call, value: Value, element: bytes, deadline: int, condition: bytes | None
) -> int:
    if element not in value.elements:
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


# --- HTTLFIELD, HEXPIRETIMEFIELD, HPERSISTFIELD and their kin


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


def _query(noun: Noun, answer: Callable[[Call, Value, bytes], int]) -> Row:
    not_positive = f"ERR Number of {noun.singular}s must be a positive integer"

    def one(call: Call, value: Value, element: bytes) -> int:
        if element not in value.elements:
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

    return Row(run, -3, gap=4)


# --- HSETEX and SADDEX


class Options(NamedTuple):
    """What stands between the key and FIELDS or MEMBERS, and what follows it."""

    condition: bytes | None
    deadline: int | None
    keep: bool
    rest: list[bytes]


def _options(
    call: Call, noun: Noun, conditions: tuple[bytes, bytes], width: int
) -> Options | Error:
    """Reads as Redis 8 does, word by word, first fault first; HSETEX takes options after FIELDS."""
    condition: bytes | None = None
    deadline: int | None = None
    keep = False
    fields: list[bytes] = []
    words = call.words[2:]
    while words:
        word = words.pop(0).upper()
        if word == noun.word:
            if fields:
                return Error("ERR FIELDS keyword specified multiple times")
            rest = _counted(call, noun, words, width)
            if isinstance(rest, Error):
                return rest
            if noun is not _FIELD:
                return Options(condition, deadline, keep, rest)
            fields, words = rest, words[1 + len(rest) :]
            continue
        if word in conditions:
            if condition is not None:
                first, second = sorted((each.decode() for each in conditions), reverse=True)
                return Error(f"ERR Only one of {first} or {second} arguments can be specified")
            condition = word
        elif word in _UNITS_MS or word == b"KEEPTTL":
            if keep or deadline is not None:
                return Error(
                    "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified"
                )
            if word == b"KEEPTTL":
                keep = True
                continue
            if not words:
                return Error("ERR missing expire time")
            base_ms = 0 if word.endswith(b"AT") else call.now_ms
            time = _deadline_ms(words.pop(0), _UNITS_MS[word], base_ms, call.name)
            if isinstance(time, Error):
                return time
            deadline = time
        else:
            said = call.words[len(call.words) - len(words) - 1]
            return Error(f"ERR unknown argument: {said.decode(errors='surrogateescape')}")
    if fields:
        return Options(condition, deadline, keep, fields)
    return Error("ERR missing FIELDS argument") if noun is _FIELD else wrong_number(call.name)


def _counted(call: Call, noun: Noun, words: list[bytes], width: int) -> list[bytes] | Error:
    """`n` and n times `width` words; of a hash, more may follow."""
    if len(words) < (1 if noun is _FIELD else 1 + width):
        return wrong_number(call.name)
    count = integer(words[0])
    if count is None or not 1 <= count < 2**31:
        return Error(f"ERR invalid number of {noun.singular}s")
    if noun is _FIELD and count * width > len(words) - 1:
        return Error("ERR wrong number of arguments")
    if noun is not _FIELD and count * width != len(words) - 1:
        return wrong_number(call.name)
    return words[1 : 1 + count * width]


def _hsetex(call: Call) -> Reply:
    options = _options(call, _FIELD, (b"FXX", b"FNX"), width=2)
    if isinstance(options, Error):
        return options
    key = call.words[1]
    value = call.typed(key, "hash")
    if isinstance(value, Error):
        return value
    there = [field in value.elements for field in options.rest[::2]]
    if (options.condition == b"FNX" and any(there)) or (
        options.condition == b"FXX" and not all(there)
    ):
        return 0
    for field, content in zip(options.rest[::2], options.rest[1::2], strict=True):
        value.elements[field] = content
        _date(call, value, field, options)
    call.store(key, value)
    return 1


def _saddex(call: Call) -> Reply:
    short = _short_saddex(call)
    if isinstance(short, Error):
        return short
    options = short or _options(call, _MEMBER, (b"XX", b"NX"), width=1)
    if isinstance(options, Error):
        return options
    key = call.words[1]
    value = call.typed(key, "set")
    if isinstance(value, Error):
        return value
    added = 0
    for member in options.rest:
        there = member in value.elements
        if options.condition == (b"NX" if there else b"XX"):
            continue
        added += not there
        value.elements[member] = b""
        if not (there and options.keep and short is not None):
            _date(call, value, member, options)
    call.store(key, value)
    return added


def _short_saddex(call: Call) -> Options | Error | None:
    """`SADDEX key [KEEPTTL] seconds member ...`; None when it is the long form."""
    words = call.words[2:]
    keep = words[0].upper() == b"KEEPTTL" and integer(words[1]) is not None
    if keep:
        words.pop(0)
    if integer(words[0]) is None:
        return None
    deadline = _deadline_ms(words[0], 1000, call.now_ms, call.name)
    if isinstance(deadline, Error):
        return deadline
    return Options(None, deadline, keep, words[1:]) if words[1:] else wrong_number(call.name)


def _date(call: Call, value: Value, element: bytes, options: Options) -> None:
    """Gives a written element its deadline; one already past takes it away (R6)."""
    if options.deadline is None:
        if not options.keep:
            value.deadlines.pop(element, None)
    elif options.deadline <= call.now_ms:
        value.remove(element)
    else:
        value.deadlines[element] = options.deadline


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


VIRTUAL: dict[str, Row] = {
    **_family(_FIELD),
    **_family(_MEMBER),
    "hsetex": Row(_hsetex, -6),
    "saddex": Row(_saddex, -4),
}
