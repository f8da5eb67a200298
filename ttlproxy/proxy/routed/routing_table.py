"""Which node a request is for, by its command. Knows tables; knows no connection."""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Sequence
from enum import IntEnum
from operator import itemgetter
from typing import Final

from ttlproxy.commands import ANY_KEY, NO_KEY, Route, Router
from ttlproxy.core.keys import SLOTS, slot, slots


class Way(IntEnum):
    """The way of a request. ALONE and SPECIAL wait until the replies to all before have come.

    FIRST: to the master of its first argument, a key
    KEYS: to the master of its first key, which its route finds
    HOME: to the client's home, as any master will do
    SPLIT: as KEYS if all its keys are in one slot; else it is SPECIAL
    ALONE: as KEYS or HOME, and what comes later waits for its reply
    SPECIAL: `special_requests` has a function for it
    """

    FIRST = 0
    KEYS = 1
    HOME = 2
    SPLIT = 3
    ALONE = 4
    SPECIAL = 5


FIRST: Final = Way.FIRST
KEYS: Final = Way.KEYS
HOME: Final = Way.HOME
SPLIT: Final = Way.SPLIT
ALONE: Final = Way.ALONE
SPECIAL: Final = Way.SPECIAL

_NAME: Final = itemgetter(0)
_KEY: Final = itemgetter(1)

# The words between one key and the next of the commands that can be split.
STEPS: Final = {"MGET": 1, "DEL": 1, "UNLINK": 1, "EXISTS": 1, "TOUCH": 1, "MSET": 2}
SPECIALS: Final = frozenset(
    [
        *("AUTH", "HELLO", "RESET", "QUIT", "CLIENT", "ASKING", "READONLY", "READWRITE"),
        *("MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH"),
        *("SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE"),
        *("SSUBSCRIBE", "SUNSUBSCRIBE", "SPUBLISH", "MONITOR", "SYNC", "PSYNC"),
        *("SCAN", "KEYS", "DBSIZE", "RANDOMKEY", "FLUSHALL", "FLUSHDB"),
        *("WAIT", "WAITAOF", "PUBSUB"),
        *("SCRIPT", "FUNCTION", "CONFIG", "ACL", "CLUSTER", "ONEXPIRE", "ONWRITE"),
    ]
)


class RoutingTable(dict[bytes, Way]):
    """The way of each command by its name as it was sent, for the commands of one server."""

    def __init__(self, router: Router, *, splits: bool = True) -> None:
        """`splits`: requests with keys of several slots may become one for each slot."""
        super().__init__()
        self.router = router
        self._splits = splits

    def __missing__(self, name: bytes) -> Way:
        route = self.router.find(name)
        way = _way(route)
        if way is SPLIT and not self._splits:
            way = KEYS
        if name in (route.name.encode(), route.name.lower().encode()):  # else there is no end
            self[name] = way
        return way

    def plain_slots(self, commands: list[list[bytes]], data: bytes) -> list[int] | None:
        """The slot of each request of a chunk, if each goes to the master of its first argument, as
        nearly always; else None. `commands`: their words, `data`: their bytes."""
        try:
            if len(commands) == 1:
                args = commands[0]
                return [slot(args[1])] if self[args[0]] is FIRST else None
            if any(self[name] is not FIRST for name in set(map(_NAME, commands))):
                return None
            if b"{" in data:
                return slots(list(map(_KEY, commands)))
            # `slots` would look at the keys once more, for 40 ns a request.
            return [crc_hqx(args[1], 0) % SLOTS for args in commands]
        except IndexError:
            return None  # no key

    def slot_of(self, args: Sequence[bytes]) -> int | None:
        """The slot of a request's first key; None if it has none."""
        keys = self.certain_keys_of(args)
        return slot(keys[0]) if keys else None

    def keys_of(self, args: Sequence[bytes]) -> Sequence[bytes]:
        """The keys of a request, or the words that may be keys."""
        return self.router.find(args[0]).keys(args)

    def certain_keys_of(self, args: Sequence[bytes]) -> Sequence[bytes]:
        """The keys of a request; none if it is not known where they stand."""
        return self.router.find(args[0]).certain_keys(args)

    def modifies(self, args: Sequence[bytes]) -> bool:
        """Whether a request may write."""
        route = self.router.find(args[0])
        return bool(route.sweeps or route.virtual)


def _way(route: Route) -> Way:
    if route.name in SPECIALS:
        return SPECIAL
    if route.name in STEPS:
        return SPLIT
    if route.blocks or route.name == "LEASE":
        return ALONE
    if route.name == "CLUSTERSCAN":
        return FIRST  # its cursor has the tag of the slot where it goes on
    if route.key_kind == NO_KEY:
        return HOME
    return KEYS if route.key_kind == ANY_KEY else FIRST
