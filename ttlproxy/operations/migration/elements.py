"""The elements of keys that are moved, with deadlines in Unix time in ms; and the decision what
happens to each, without a clock. Knows no connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ttlproxy.core.element_types import TYPES
from ttlproxy.link.connecting.pipeline import Words

if TYPE_CHECKING:
    from ttlproxy.operations.migration.connection import Server

# Elements in a page, which is one transaction at the target.
PAGE: Final = 200
# TYPE's reply if there is no key.
NO_KEY: Final = b"none"
END: Final = b"0"


class Element(NamedTuple):
    """deadline_ms: None if it has none; value: of a hash field, or a member's score, else None"""

    name: bytes
    deadline_ms: int | None
    value: bytes | None = None


class Page(NamedTuple):
    """Some elements of a key.

    key: its name at the target; kind: its type there, as in the reply to TYPE
    cursor: of the next page, END after the last one
    key_deadline_ms: of the whole key, None if it has none, or this is of no interest
    is_deadline_untold: whether the key may have a deadline that the source does not report
    """

    key: bytes
    kind: bytes
    elements: Sequence[Element]
    cursor: bytes = END
    key_deadline_ms: int | None = None
    is_deadline_untold: bool = False


class SourcePart(NamedTuple):
    """Keys to go through: a pattern for their names, and their type."""

    match: bytes
    kind: bytes


class Found(NamedTuple):
    """An element at the target; deadline_ms and value as in Element."""

    is_there: bool
    deadline_ms: int | None = None
    value: bytes | None = None


class Outcome(StrEnum):
    """The outcome for an element; the value names it in the file of the state."""

    DATED = "dated"
    ADDED = "added"
    DELETED = "deleted"
    SAME = "same"
    OTHER = "other"
    THERE = "there"
    GONE = "gone"
    CHANGED = "changed"
    PASSED = "passed"


class TargetState(NamedTuple):
    """The state of the target: each element of a page, Unix time, and whether there is such a key
    at all."""

    found: Sequence[Found]
    now_ms: int
    has_key: bool = True


class Source(Protocol):
    """A source of deadlines.

    server: has the keys to go through
    slack_ms: two deadlines that differ by no more are the same
    compares: whether the value of an element must be the one at the target; otherwise both are the
    same data
    """

    server: Server
    parts: Sequence[SourcePart]
    slack_ms: int
    compares: bool

    def page(self, name: bytes, part: SourcePart, cursor: bytes) -> Awaitable[Page]:
        """Returns the elements of key `name` from `cursor` on. If it reads what is at the target,
        on the target's connection, it watches that. Raises OperationError or redis-py's
        RedisError."""


class Target(Protocol):
    """A target of deadlines; server: gets them; slack_ms: as for a source."""

    server: Server
    slack_ms: int

    def read_state(self, page: Page, *, with_values: bool) -> Awaitable[TargetState]:
        """Returns what is there now, and watches it. Raises OperationError or redis-py's
        RedisError."""

    def ttl_requests(self, page: Page, elements: Sequence[Element]) -> list[Words]:
        """Returns requests that give these elements their deadlines, if they have none there. Each
        element has a deadline."""

    def outcomes(self, request: Words, reply: Any) -> Counter[Outcome]:
        """Counts what has become of the elements of such a request."""

    def add_requests(self, page: Page, elements: Sequence[Element]) -> list[Words]:
        """Returns requests that add these elements, which are not there, without deadlines."""


class TimedWords(NamedTuple):
    """date, read: the commands that set a deadline, and that read one; elements: the word before
    the elements"""

    date: bytes
    read: bytes
    elements: bytes


PROXY_WORDS: Final[Mapping[bytes, TimedWords]] = {
    name: TimedWords(type_.command("PEXPIREAT"), type_.command("PEXPIRETIME"), type_.keyword)
    for name, type_ in TYPES.items()
}
# Redis 7.4, Valkey 9.
NATIVE_WORDS: Final[Mapping[bytes, TimedWords]] = {
    b"hash": TimedWords(b"HPEXPIREAT", b"HPEXPIRETIME", b"FIELDS"),
}


def shown(name: bytes) -> str:
    """Returns a name for people."""
    return repr(name.decode(errors="backslashreplace"))


class Changes(NamedTuple):
    """copies: whether what is not at the target is added; deletes: whether what has expired is
    deleted there"""

    copies: bool = False
    deletes: bool = False


class Plan(NamedTuple):
    """The elements that get a deadline, those that are added, and what becomes of all."""

    to_expire: Sequence[Element]
    to_add: Sequence[Element]
    outcomes: Counter[Outcome]


class Rules(NamedTuple):
    """The rules of the decision; compares, slack_ms: see Source."""

    how: Changes
    compares: bool
    slack_ms: int

    def plan(self, page: Page, state: TargetState) -> Plan:
        to_expire, to_add, outcomes = list[Element](), list[Element](), Counter[Outcome]()
        for element, found in zip(page.elements, state.found, strict=True):
            outcome = self._outcome(page.kind, element, found, state.now_ms)
            outcomes[outcome] += 1
            if outcome is Outcome.ADDED:
                to_add.append(element)
            elif outcome in (Outcome.DATED, Outcome.DELETED):
                to_expire.append(element)
        return Plan(to_expire, to_add, outcomes)

    def _outcome(self, kind: bytes, element: Element, found: Found, now_ms: int) -> Outcome:
        at = element.deadline_ms
        has_passed = at is not None and at <= now_ms
        if not found.is_there:
            if not self.how.copies:
                return Outcome.GONE
            return Outcome.PASSED if has_passed else Outcome.ADDED
        if at is None:
            return Outcome.THERE
        if found.deadline_ms is not None:
            is_same = abs(found.deadline_ms - at) <= self.slack_ms
            return Outcome.SAME if is_same else Outcome.OTHER
        if self.compares and not _is_same_value(kind, element.value, found.value):
            return Outcome.CHANGED
        if not has_passed:
            return Outcome.DATED
        return Outcome.DELETED if self.how.deletes else Outcome.PASSED


def _is_same_value(kind: bytes, one: bytes | None, other: bytes | None) -> bool:
    """Compares values; servers print the same score with more or fewer digits."""
    if kind == b"zset" and one is not None and other is not None:
        return float(one) == float(other)
    return one == other
