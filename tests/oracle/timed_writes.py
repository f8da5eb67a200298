"""Writes that set a deadline in the same step, as the oracle runs them: HSETEX and the like."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.oracle.data import (
    MAX_DEADLINE_MS,
    NOT_A_FLOAT,
    NOT_AN_INTEGER,
    Call,
    Error,
    Reply,
    Row,
    Value,
    integer,
    score_text,
    wrong_number,
)
from tests.oracle.lists import push
from tests.oracle.sorted_sets import Flags, score_in, scores_of

_UNITS_MS = {b"EX": 1000, b"PX": 1, b"EXAT": 1000, b"PXAT": 1}
_NEGATIVE = Error("ERR invalid expire time, must be >= 0")


class Noun(NamedTuple):
    """What a type calls its elements."""

    prefix: str
    type: str
    singular: str

    @property
    def word(self) -> bytes:
        """The word before the count in the long forms."""
        return f"{self.singular}s".upper().encode()


def deadline_ms(word: bytes, unit_ms: int, base_ms: int, command: str) -> int | Error:
    time = integer(word)
    if time is None:
        return NOT_AN_INTEGER
    if time < 0:
        return _NEGATIVE
    if time * unit_ms + base_ms > MAX_DEADLINE_MS:
        return Error(f"ERR invalid expire time in '{command}' command")
    return time * unit_ms + base_ms


FIELD = Noun("h", "hash", "field")
MEMBER = Noun("s", "set", "member")
ZMEMBER = Noun("z", "zset", "member")
ELEMENT = Noun("l", "list", "element")


# --- the words between the key and FIELDS, MEMBERS or ELEMENTS


@dataclass
class Options:
    """The options of a write, and the words after them.

    `keep` leaves the deadlines of existing elements; `deadline` None means no deadline.
    """

    said: set[bytes] = field(default_factory=set)
    deadline: int | None = None
    keep: bool = False
    most: int | None = None
    rest: list[bytes] = field(default_factory=list)

    def take(self, call: Call, word: bytes, words: list[bytes]) -> Error | None:
        """Reads one option that all these commands share; `words` are the words after it."""
        if word == b"MAXLEN":
            self.most = integer(words.pop(0))
            return None
        if self.keep or self.deadline is not None:
            return Error("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified")
        if word == b"KEEPTTL":
            self.keep = True
            return None
        if not words:
            return Error("ERR missing expire time")
        base_ms = 0 if word.endswith(b"AT") else call.now_ms
        time = deadline_ms(words.pop(0), _UNITS_MS[word], base_ms, call.name)
        if isinstance(time, Error):
            return time
        self.deadline = time
        return None


_ANYWHERE = {*_UNITS_MS, b"KEEPTTL", b"MAXLEN"}


class Grammar(NamedTuple):
    """The options of one command: at most one of `conditions`, any number of `flags`."""

    noun: Noun
    width: int
    conditions: tuple[bytes, ...] = ()
    flags: tuple[bytes, ...] = ()

    @property
    def open(self) -> bool:
        """Whether options may follow the fields too, as in Redis 8."""
        return self.noun is FIELD


def _options(call: Call, grammar: Grammar) -> Options | Error:
    """Reads word by word as Redis 8 does, first fault first; HSETEX takes options after FIELDS."""
    options = Options()
    words = call.words[2:]
    while words:
        said = words.pop(0)
        word = said.upper()
        if word == grammar.noun.word:
            if options.rest:
                return Error("ERR FIELDS keyword specified multiple times")
            rest = _counted(call, grammar, words)
            if isinstance(rest, Error):
                return rest
            options.rest = rest
            words = words[1 + len(rest) :]
        elif word in grammar.conditions:
            if options.said & set(grammar.conditions):
                first, second = sorted(each.decode() for each in grammar.conditions)[::-1]
                return Error(f"ERR Only one of {first} or {second} arguments can be specified")
            options.said.add(word)
        elif word in grammar.flags:
            options.said.add(word)
        elif word in _ANYWHERE:
            fault = options.take(call, word, words)
            if fault is not None:
                return fault
        else:
            return Error(f"ERR unknown argument: {said.decode(errors='surrogateescape')}")
    if options.rest:
        return options
    return Error("ERR missing FIELDS argument") if grammar.open else wrong_number(call.name)


def _counted(call: Call, grammar: Grammar, words: list[bytes]) -> list[bytes] | Error:
    """`n` and n times `width` words; if the grammar is open, more may follow."""
    if len(words) < (1 if grammar.open else 1 + grammar.width):
        return wrong_number(call.name)
    count = integer(words[0])
    if count is None or not 1 <= count < 2**31:
        return Error(f"ERR invalid number of {grammar.noun.singular}s")
    if grammar.open and count * grammar.width > len(words) - 1:
        return Error("ERR wrong number of arguments")
    if not grammar.open and count * grammar.width != len(words) - 1:
        return wrong_number(call.name)
    return words[1 : 1 + count * grammar.width]


def _short(call: Call, width: int) -> Options | Error | None:
    """`key [KEEPTTL] seconds ...`; None if it is the long form."""
    words = call.words[2:]
    keep = words[0].upper() == b"KEEPTTL" and integer(words[1]) is not None
    if keep:
        words.pop(0)
    if integer(words[0]) is None:
        return None
    deadline = deadline_ms(words[0], 1000, call.now_ms, call.name)
    if isinstance(deadline, Error):
        return deadline
    rest = words[1:]
    if not rest or len(rest) % width:
        return wrong_number(call.name)
    return Options(deadline=deadline, keep=keep, rest=rest)


def _read(call: Call, grammar: Grammar) -> Options | Error:
    return _short(call, grammar.width) or _options(call, grammar)


# --- what they do


def _full(call: Call, value: Value, elements: list[bytes], options: Options) -> bool:
    """Whether MAXLEN refuses a write of these elements: all or nothing. It refuses neither elements
    that are there, nor those that go at once because their deadline is past.

    What is past its deadline is not counted, even if it is not reaped yet and stays for that.
    """
    if options.most is None:
        return False
    live, gone = value.as_of(call.now_ms) or Value(value.type), _gone(call, value, options)
    if value.type == "list":
        live, new = (value if gone & set(elements) else live), len(elements)
    else:
        new = len(set(elements) - live.elements.keys())
    at_once = options.deadline is not None and options.deadline <= call.now_ms
    return new > 0 and not at_once and len(live) + new > options.most


def _gone(call: Call, value: Value, options: Options) -> set[bytes]:
    """The elements that MAXLEN does not count: they are past their deadline, and not reaped yet."""
    if options.most is None:
        return set()
    live = value.as_of(call.now_ms) or Value(value.type)
    gone = value.elements.keys() | set(value.items)
    return gone - (live.elements.keys() | set(live.items))


def _date(call: Call, value: Value, element: bytes, options: Options, *, there: bool) -> None:
    """Gives a written element its deadline; one that is already past removes the element (R6)."""
    if options.keep and (there or options.deadline is None):
        return
    if options.deadline is None:
        value.deadlines.pop(element, None)
    elif options.deadline <= call.now_ms:
        value.remove(element)
    else:
        value.deadlines[element] = options.deadline


_HSETEX = Grammar(FIELD, 2, (b"FXX", b"FNX"))


def _hsetex(call: Call) -> Reply:
    options = _options(call, _HSETEX)
    if isinstance(options, Error):
        return options
    value = call.typed(call.words[1], "hash")
    if isinstance(value, Error):
        return value
    there = [field in value.elements for field in options.rest[::2]]
    if (b"FNX" in options.said and any(there)) or (b"FXX" in options.said and not all(there)):
        return 0
    if _full(call, value, options.rest[::2], options):
        return -1
    for name, content in zip(options.rest[::2], options.rest[1::2], strict=True):
        was_there = name in value.elements
        value.elements[name] = content
        _date(call, value, name, options, there=was_there)
    call.store(call.words[1], value)
    return 1


def _hgetex(call: Call) -> Reply:
    """HGETEX key [EX s|PX ms|EXAT s|PXAT ms|PERSIST] FIELDS n field ...; only drawn forms"""
    value = call.typed(call.words[1], "hash")
    if isinstance(value, Error):
        return value
    at = [word.upper() for word in call.words].index(b"FIELDS")
    option, fields = [word.upper() for word in call.words[2:at]], call.words[at + 2 :]
    contents: list[Reply] = [value.elements.get(name) for name in fields]
    if len(option) == 2:
        base_ms = 0 if option[0].endswith(b"AT") else call.now_ms
        deadline = int(option[1]) * _UNITS_MS[option[0]] + base_ms
        for name in value.elements.keys() & set(fields):
            _date(call, value, name, Options(deadline=deadline), there=True)
    elif option:
        for name in fields:
            value.deadlines.pop(name, None)
    call.store(call.words[1], value)
    return contents


def _hgetdel(call: Call) -> Reply:
    """HGETDEL key FIELDS n field ...; a field that is named twice is gone the second time"""
    value = call.typed(call.words[1], "hash")
    if isinstance(value, Error):
        return value
    contents: list[Reply] = []
    for name in call.words[4:]:
        contents.append(value.elements.get(name))
        value.remove(name)
    call.store(call.words[1], value)
    return contents


_SADDEX = Grammar(MEMBER, 1, (b"XX", b"NX"))


def _saddex(call: Call) -> Reply:
    options = _read(call, _SADDEX)
    if isinstance(options, Error):
        return options
    value = call.typed(call.words[1], "set")
    if isinstance(value, Error):
        return value
    unwanted = {b"NX": True, b"XX": False}
    refused = [unwanted[word] for word in options.said]
    gone = _gone(call, value, options)
    lives = value.elements.keys() - gone
    members = [each for each in options.rest if (each in lives) not in refused]
    if _full(call, value, members, options):
        return -1
    added = 0
    for member in members:
        there = member in value.elements
        added += not there or (member in gone and not options.keep)
        gone.discard(member)
        value.elements[member] = b""
        _date(call, value, member, options, there=there)
    call.store(call.words[1], value)
    return added


_ZADDEX = Grammar(ZMEMBER, 2, flags=(b"NX", b"XX", b"GT", b"LT", b"CH"))


def _zaddex(call: Call) -> Reply:
    options = _read(call, _ZADDEX)
    if isinstance(options, Error):
        return options
    scores = scores_of(options.rest[::2])
    if isinstance(scores, Error):
        return NOT_A_FLOAT
    value = call.typed(call.words[1], "zset")
    if isinstance(value, Error):
        return value
    flags = Flags(options.said)
    pairs = [
        (member, score)
        for member, score in zip(options.rest[1::2], scores, strict=True)
        if not flags.skips(score_in(value, member), score)
    ]
    if _full(call, value, [member for member, _ in pairs], options):
        return -1
    added, updated, gone = 0, 0, _gone(call, value, options)
    for member, score in pairs:
        current = score_in(value, member)
        added += current is None or (member in gone and not (options.keep or b"CH" in flags))
        gone.discard(member)
        updated += current is not None and current != score
        value.elements[member] = score_text(score)
        _date(call, value, member, options, there=current is not None)
    call.store(call.words[1], value)
    return added + updated if b"CH" in flags else added


def _pushex(side: int) -> Row:
    grammar = Grammar(ELEMENT, 1)

    def run(call: Call) -> Reply:
        options = _read(call, grammar)
        if isinstance(options, Error):
            return options
        value = call.typed(call.words[1], "list")
        if isinstance(value, Error):
            return value
        if _full(call, value, options.rest, options):
            return -1
        there = set(value.items)
        push(value, side, options.rest)
        length = len(value)
        for element in options.rest:
            _date(call, value, element, options, there=element in there)
        call.store(call.words[1], value)
        return length

    return Row(run, -4)


TIMED_WRITES: dict[str, Row] = {
    "hsetex": Row(_hsetex, -6),
    "hgetex": Row(_hgetex, -5),
    "hgetdel": Row(_hgetdel, -5),
    "saddex": Row(_saddex, -4),
    "zaddex": Row(_zaddex, -5),
    "lpushex": _pushex(0),
    "rpushex": _pushex(-1),
}
