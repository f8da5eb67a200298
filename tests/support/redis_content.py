"""What stands in Redis itself, read without the proxy: data, deadlines, and inconsistencies.

Only this module of the tests knows the internal content: see "What stands in Redis" in
docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.oracle.data import Value, score_text
from tests.oracle.model import Model
from tests.support.processes import wait_until
from tests.support.redis_client import Client, milliseconds
from ttlproxy.core.keys import KEPT_MS, KEY_EXPIRY, Keys

PREFIX = b"__ttl:"
LATER = PREFIX + b"later:"
SCHEDULE = PREFIX + b"schedule"
LEASE = PREFIX + b"lease"
STATE = b"ttlproxy-state:" + PREFIX
# What proxies leave in a database without deadlines.
SHARED = frozenset({LEASE, STATE, PREFIX + b"others"})
TICKS_MS = 2
NOTHING = PREFIX + b"no index"  # a key that never exists


def data_key(index: bytes) -> bytes:
    """The data key of `index`: behind the proxy's hash tag, or `t:` if it has its own tag."""
    rest = index.removeprefix(PREFIX)
    if rest.startswith(b"{"):
        return rest.partition(b"}:")[2]
    return rest.removeprefix(b"t:")


@dataclass
class Content:
    """One server's data as a model holds it, and the `faults` that a sweep should have fixed."""

    model: Model
    faults: list[str] = field(default_factory=list)

    def as_of(self, now_ms: int) -> Hashable:
        return self.model.as_of(now_ms).frozen()


def read(servers: list[Client], version: tuple[int, int]) -> Content:
    """`servers[n]` is a connection to database n. Each key is read in one transaction."""
    content = Content(Model(version, len(servers)))
    for db, server in enumerate(servers):
        reader = _Reader(server, content.model.databases[db])
        reader.read()
        content.faults += [f"db {db}: {fault}" for fault in reader.faults]
    return content


def noted_ms(server: Client, key: bytes) -> int | None:
    """When `key` expires as its index knows it, None if it does not."""
    score = server.ask("ZSCORE", Keys().index(key), KEY_EXPIRY)
    return None if score is None else -int(score)


def until_swept(*servers: Client) -> None:
    """Returns when internal content is consistent; `servers[n]` is a connection to database n."""
    wait_until(lambda: not read([*servers], (7, 0)).faults, "internal content in order")


# A key's type, content and index, when it expires, and how many ms the index itself has left.
_Found: TypeAlias = tuple[str, Any, list[bytes], int | None, int]


class _Reader:
    def __init__(self, server: Client, database: dict[bytes, Value]) -> None:
        self.server = server
        self.database = database
        self.faults: list[str] = []

    def read(self) -> None:
        names = self._scan()
        indexes = {data_key(name): name for name in names if _is_index(name)}
        keys = [name for name in names if name.startswith(LATER) or not _is_internal(name)]
        for key, found in zip(keys, self._values(keys, indexes), strict=True):
            self._key(key, *found)
        orphans = indexes.keys() - set(keys)
        self.faults += [f"{indexes[key]!r} without its key" for key in orphans]
        self._schedule()

    def _scan(self) -> list[bytes]:
        cursor, names = b"0", set[bytes]()
        while True:
            cursor, page = self.server.ask("SCAN", cursor, "COUNT", 1000)
            names.update(page)
            if cursor == b"0":
                return sorted(names)

    def _values(self, keys: list[bytes], indexes: dict[bytes, bytes]) -> Iterator[_Found]:
        """Reads all keys in one transaction, and repeats it until its first and last clock are the
        same ms: only then PTTL gives the exact deadline."""
        types = [type_.decode() for type_ in self.server.ask_many([["TYPE", key] for key in keys])]
        requests: list[list[bytes | str | int]] = []
        for key, type_ in zip(keys, types, strict=True):
            index = indexes.get(key, NOTHING)
            requests += [
                _reader(type_, key),
                ["PTTL", key],
                ["ZRANGE", index, 0, -1, "WITHSCORES"],
                ["PTTL", index],
            ]
        while True:
            before, *replies, after = self.server.ask_many(
                [["TIME"], *requests, ["TIME"]], transaction=True
            )
            clock_ms = milliseconds(*before)
            if clock_ms == milliseconds(*after):
                break
        for n, type_ in enumerate(types):
            content, ttl_ms, scores, index_ttl_ms = replies[4 * n : 4 * n + 4]
            yield type_, content, scores, _absolute(ttl_ms, clock_ms), index_ttl_ms

    def _key(
        self,
        key: bytes,
        type_: str,
        content: Any,
        scores: list[bytes],
        expires_ms: int | None,
        index_ttl_ms: int,
    ) -> None:
        if content is None or content == []:
            return  # removed since the names were read
        value = Value(type_, expires_ms=expires_ms)
        if type_ == "list":
            value.items = content
        else:
            value.elements = _ELEMENTS.get(type_, _string)(content)
        said_ms = None
        for element, score in zip(scores[::2], scores[1::2], strict=True):
            if element == KEY_EXPIRY:
                said_ms = -int(float(score))
            elif element in value and type_ != "string":
                value.deadlines[element] = int(float(score))
            else:
                self.faults.append(f"{key!r}: a deadline for {element!r}, which is gone")
        if said_ms and expires_ms and expires_ms > said_ms + KEPT_MS - TICKS_MS:
            expires_ms = value.expires_ms = expires_ms - KEPT_MS
        if scores and not _are_same(expires_ms, said_ms):
            self.faults.append(f"{key!r} expires at {expires_ms}, its index says {said_ms}")
        if index_ttl_ms >= 0:
            self.faults.append(f"the index of {key!r} expires")
        if len(scores) == 2 and said_ms is not None:
            self.faults.append(f"the index of {key!r} has no deadlines")
        self.database[key] = value

    def _schedule(self) -> None:
        members = self.server.ask("ZRANGE", SCHEDULE, 0, -1, "WITHSCORES")
        bounds = dict(zip(members[::2], map(float, members[1::2]), strict=True))
        for key in bounds.keys() - self.database.keys():
            self.faults.append(f"{key!r} is in the schedule and nowhere else")
        for key, value in self.database.items():
            if not value.deadlines:
                continue
            due = min([*value.deadlines.values(), value.expires_ms or 2**63])
            if key not in bounds:
                self.faults.append(f"{key!r} has deadlines and no place in the schedule")
            elif bounds[key] > due:
                self.faults.append(f"{key!r} is due at {due}, the schedule says {bounds[key]:.0f}")


def _is_internal(name: bytes) -> bool:
    return name == STATE or name.startswith(PREFIX)


def _is_index(name: bytes) -> bool:
    return name.startswith((PREFIX + b"{", PREFIX + b"t:"))


def _are_same(one_ms: int | None, other_ms: int | None) -> bool:
    """Before 7.2 the clock may tick while a script reads it."""
    if one_ms is None or other_ms is None:
        return one_ms is other_ms
    return abs(one_ms - other_ms) <= TICKS_MS


def _absolute(ttl_ms: int, clock_ms: int) -> int | None:
    return clock_ms + ttl_ms if ttl_ms >= 0 else None


def _pairs(words: list[bytes]) -> dict[bytes, bytes]:
    return dict(zip(words[::2], words[1::2], strict=True))


def _members(words: list[bytes]) -> dict[bytes, bytes]:
    return dict.fromkeys(words, b"")


def _scored(words: list[bytes]) -> dict[bytes, bytes]:
    return {member: score_text(float(score)) for member, score in _pairs(words).items()}


def _string(word: bytes) -> dict[bytes, bytes]:
    return {b"": word}


# Any other type is read with DUMP, because its elements cannot have deadlines.
_READERS: dict[str, tuple[str, ...]] = {
    "hash": ("HGETALL",),
    "set": ("SMEMBERS",),
    "zset": ("ZRANGE", "0", "-1", "WITHSCORES"),
    "list": ("LRANGE", "0", "-1"),
    "string": ("GET",),
}
_ELEMENTS: dict[str, Callable[[Any], dict[bytes, bytes]]] = {
    "hash": _pairs,
    "set": _members,
    "zset": _scored,
}


def _reader(type_: str, key: bytes) -> list[bytes | str | int]:
    """The request that reads all of `key`."""
    name, *rest = _READERS.get(type_, ("DUMP",))
    return [name, key, *rest]
