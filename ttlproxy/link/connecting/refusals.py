"""What Redis refuses the link: counts all, and logs each cause once a minute."""

from __future__ import annotations

import logging
import re

from redis.exceptions import (
    AskError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ResponseError,
    TryAgainError,
)

from ttlproxy.core.counters import Counters, NodeCounts
from ttlproxy.link.connecting.server_clock import ServerClock

log = logging.getLogger(__name__)

# In an error inside a script, of 6.2 and 7.0.
_NO_RIGHT = re.compile("NOPERM|permission|can't (run|access)")
# What passes by itself, and what to say of the server meanwhile. redis-py takes some codes away.
_PASSING = (
    (re.compile("^BUSY "), "is busy with a script of a client"),
    (re.compile("READONLY|read only replica"), "is a replica"),
    (re.compile("MASTERDOWN|Link with MASTER is down"), "is a replica that has lost its master"),
    (re.compile("NOREPLICAS"), "has too few replicas that are up to date"),
)
_SILENCE_MS = 60_000
_SHOWN = {"deferred": "a deferred command", "rule": "a rule of ONEXPIRE"}


class UnreachableError(ResponseError):
    """Instead of an error of Redis: another master cannot be reached."""


def reason(refusal: ResponseError) -> str:
    """The reason, of counters.PARKED, for which a key is parked."""
    if isinstance(refusal, NoPermissionError) or _NO_RIGHT.search(str(refusal)):
        return "noperm"
    if isinstance(refusal, OutOfMemoryError):
        return "oom"
    if isinstance(refusal, UnreachableError):
        return "unreachable"
    return "wrongtype" if "WRONGTYPE" in str(refusal) else "other"


def passes(refusal: ResponseError) -> bool:
    """Whether it ends by itself: a client's script keeps Redis busy, a slot is on its way, or a
    master is away."""
    if isinstance(refusal, UnreachableError):
        return True
    return str(refusal).startswith("BUSY ") or is_elsewhere(refusal)


def is_elsewhere(refusal: ResponseError) -> bool:
    """Whether the slot is another node's, or on its way to one. MovedError is an AskError."""
    return isinstance(refusal, AskError | TryAgainError | ClusterDownError)


def is_wrong_type(refusal: ResponseError) -> bool:
    return str(refusal).startswith("WRONGTYPE")


def _meanwhile(refusal: ResponseError) -> str:
    """What the server does while it refuses something; empty if an operator must fix that."""
    if isinstance(refusal, UnreachableError):
        return "has no connection to another master"
    return next((said for pattern, said in _PASSING if pattern.search(str(refusal))), "")


class Refusals:
    """Remembers what was logged of late, so that a thousand clients cause one line.

    who: the server, for the log; one of several says which it is
    """

    def __init__(self, counters: Counters, node_counts: NodeCounts) -> None:
        self.who = "Redis"
        self._counters = counters
        self._node_counts = node_counts
        self._said: dict[str, float] = {}  # when, by the local clock

    def note(self, what: str, refusal: ResponseError) -> None:
        """Redis has refused `what` ("to reap in database 0"), for the reason it gives."""
        if is_elsewhere(refusal) and not isinstance(refusal, MasterDownError):
            return  # whoever follows the slots knows
        self._counters.refusals += 1
        self._node_counts.refusals += 1
        if meanwhile := _meanwhile(refusal):
            line = f"{self.who} {meanwhile}, and is asked again {what}: {refusal}"
            self._say(logging.WARNING, line)
        else:
            self._say(logging.ERROR, f"{self.who} refuses {what}: {refusal}")

    def unsigned(self, kind: str, db: int, count: int) -> None:
        """`count` items of a kind in counters.SIGNED have no signature of a proxy."""
        self._counters.unsigned[kind] += count
        self._say(
            logging.ERROR,
            f"{_SHOWN[kind]} in database {db} was not signed by a proxy with the same key, and is"
            " not carried out: see ttlproxy doctor",
        )

    def _say(self, level: int, cause: str) -> None:
        now_ms = ServerClock.reading()
        self._said = {said: at for said, at in self._said.items() if now_ms - at < _SILENCE_MS}
        if cause not in self._said:
            self._said[cause] = now_ms
            log.log(level, "%s", cause)
