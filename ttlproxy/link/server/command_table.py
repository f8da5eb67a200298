"""Reads the commands of a server, and what it counts of them.

The whole reply to COMMAND takes Redis 7.0 1.3 ms, in which it serves nobody, and for a hundred
proxies that ask within a turn of its loop that adds up. So the table is read in pieces, and it is
not read again while the server's build, modules and list of commands are the same: after a restart,
or at another server of the same kind.

One proxy reads it and stores it in Redis, and the others take it from there in 0.01 ms. A server's
table changes only with its process and its modules, so it is stored with what tells these apart,
and is signed. It is in the same hash as the secret of the proxies, whose name no ACL pattern of
keys under the prefix reaches. In front of a Cluster nothing is stored.

Counts come from INFO's sections commandstats and errorstats, of all clients of the server, and are
summed up by family. A command that a script calls counts too, beside the script's own call.
"""

from __future__ import annotations

import hashlib
import logging
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import hiredis
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy import __version__
from ttlproxy.commands import Native, natives
from ttlproxy.core.counters import ERRORS, OTHER, CommandCounts
from ttlproxy.core.signing import COMMANDS, SIGNATURE_LENGTH
from ttlproxy.link.connecting.known_server import Identity, fields
from ttlproxy.link.connecting.pipeline import Words, error, run, valid
from ttlproxy.link.server.acl import Acl
from ttlproxy.link.server.compatibility import check_commands
from ttlproxy.link.shared.context import Context
from ttlproxy.wire import bulks

log = logging.getLogger(__name__)

Packable: TypeAlias = "bytes | int | Sequence[Packable] | None"

# A table of commands takes 0.1 MB.
_MOST_BYTES: Final = 1 << 23


def pack(value: Packable) -> bytes:
    return zlib.compress(_resp(value))


def unpack(packed: bytes) -> Any:
    """Returns what was packed. Raises ValueError if these bytes were not packed by `pack`, or are
    too many."""
    inflater, reader = zlib.decompressobj(), hiredis.Reader()
    try:
        reader.feed(inflater.decompress(packed, _MOST_BYTES))
        value = reader.gets()
    except (zlib.error, hiredis.HiredisError) as broken:
        raise ValueError(str(broken)) from broken
    if not inflater.eof or inflater.unused_data or value is False:
        raise ValueError("it is not whole")
    return value


def _resp(value: Packable) -> bytes:
    if value is None:
        return b"$-1\r\n"
    if isinstance(value, bytes):
        return bulks(value)
    if isinstance(value, int):
        return b":%d\r\n" % value
    return b"*%d\r\n%b" % (len(value), b"".join(map(_resp, value)))


FIELD: Final = b"commands"
_COUNT: Words = (b"COMMAND", b"COUNT")
# The lines of INFO that say which program answers, and with which modules.
_BUILD: Final = (b"redis_version", b"valkey_version", b"redis_git", b"redis_build_id", b"module:")


def build(info: bytes) -> list[bytes]:
    """Returns the lines of a reply to INFO about the program and its modules."""
    return [line for line in info.splitlines() if line.startswith(_BUILD)]


# This number of commands takes Redis 0.1 ms.
_PIECE: Final = 20


class CommandTable:
    """The commands of the last server, and what is stored of them for other proxies.

    natives: its commands; is_wanted: whether there is something to store
    """

    def __init__(self, context: Context, acl: Acl) -> None:
        self.natives: list[Native] = []
        self.is_wanted = False
        self._context = context
        self._acl = acl
        self._build: Sequence[bytes] = ()
        self._packed = b""  # its rows as Redis tells them
        self._listed = b""  # a digest of its commands' names, empty if it does not list them
        self._server: list[bytes] | None = None  # None if nothing can be stored for it

    def questions(self) -> list[Words]:
        keys = self._context.keys
        return [] if keys.clustered else [_COUNT, (b"HGET", keys.state, FIELD)]

    async def learn(self, redis: Redis, info: bytes, replies: Sequence[object]) -> list[Native]:
        """Returns the commands of a new server, as another proxy has stored them or as the server
        tells them; none if it does not. `info`: its reply to INFO, `replies`: to `questions`.
        Raises UnfitUpstream if it lacks a command that is needed."""
        if self.take_stored(info, replies):
            return self.natives
        await check_commands(redis)
        try:
            found = await self.read(redis, info)
            self.is_wanted = self._server is not None
        except ResponseError as refused:
            log.warning(
                "Redis refuses COMMAND, so every word of a request counts as a key: %s", refused
            )
            found = []
        self._acl.start_anew(bool(found))
        return found

    def take_stored(self, info: bytes, replies: Sequence[object]) -> bool:
        """Takes the table that another proxy has stored for this very server; returns whether there
        is one. `info`, `replies`: as for `learn`."""
        self._server, self.is_wanted = None, False
        run_id = Identity.of(fields(info)).run_id.encode()
        if not (run_id and replies) or any(map(error, replies)):
            return False
        how_many, stored = map(valid, replies)
        self._server = [__version__.encode(), run_id, b"%d" % how_many, *build(info)]
        signature, packed = (stored or b"")[:SIGNATURE_LENGTH], (stored or b"")[SIGNATURE_LENGTH:]
        if not self._context.script_calls.signer.signed(signature, COMMANDS, [packed]):
            return False
        server, listed, rows, heard = unpack(packed)
        if server != self._server:
            return False
        self._keep(info, listed, rows, list(natives(unpack(rows))))
        self._acl.start_anew(True)
        self._acl.take_categories(how_many, dict(zip(heard[::2], heard[1::2], strict=True)))
        return True

    async def read(self, redis: Redis, info: bytes) -> list[Native]:
        """Returns the server's commands, as it tells them. Raises redis-py's RedisError."""
        (names,) = await run(redis, [(0, (b"COMMAND", b"LIST"))])
        if error(names):  # before 7.0, or if only COMMAND is allowed
            rows = await _whole(redis)
            self._keep(info, b"", pack(rows), list(natives(rows)))
            return self.natives
        names = sorted(valid(names))  # each start has another order
        listed = hashlib.sha1(b" ".join(names)).digest()
        if (build(info), listed) != (self._build, self._listed):
            rows = await _in_pieces(redis, names)
            self._keep(info, listed, pack(rows), list(natives(rows)))
        return self.natives

    async def store(self, redis: Redis) -> None:
        """Stores what was read, for the other proxies. If Redis refuses, as a replica does, they
        read it themselves."""
        heard: list[Packable] = [part for each in self._acl.categories.items() for part in each]
        packed = pack([self._server, self._listed, self._packed, heard])
        self.is_wanted = False
        context = self._context
        signature = context.script_calls.signer.sign(COMMANDS, [packed])
        await run(redis, [(0, (b"HSET", context.keys.state, FIELD, signature + packed))])

    def _keep(self, info: bytes, listed: bytes, packed: bytes, rows: list[Native]) -> None:
        self._build, self._listed, self._packed, self.natives = build(info), listed, packed, rows


async def _in_pieces(redis: Redis, names: Sequence[bytes]) -> list[Any]:
    names = [name for name in names if b"|" not in name]  # the row of a command has its subcommands
    rows: list[Any] = []
    for begin in range(0, len(names), _PIECE):
        words = (b"COMMAND", b"INFO", *names[begin : begin + _PIECE])
        rows += valid((await run(redis, [(0, words)]))[0])
    if not all(rows):  # a renamed command is listed by its first name
        return await _whole(redis)
    return rows


async def _whole(redis: Redis) -> list[Any]:
    (rows,) = await run(redis, [(0, (b"COMMAND",))])
    return list(valid(rows))


COMMAND_STATS: Final = (b"INFO", b"commandstats")
# A command belongs to the first family whose category it has.
_CATEGORIES: Final = (
    (b"@scripting", "scripting"),
    (b"@transaction", "transaction"),
    (b"@pubsub", "pubsub"),
    (b"@geo", "geo"),
    (b"@stream", "stream"),
    (b"@bitmap", "bitmap"),
    (b"@hyperloglog", "hyperloglog"),
    (b"@keyspace", "keyspace"),
    (b"@hash", "hash"),
    (b"@sortedset", "zset"),
    (b"@set", "set"),
    (b"@list", "list"),
    (b"@string", "string"),
    (b"@connection", "connection"),
)


def families_of(natives: Iterable[Native]) -> dict[str, str]:
    """Returns the family of each command, by its name in lower case; others are of the family
    OTHER."""
    found = {native.name.lower(): _family(native) for native in natives}
    return {name: family for name, family in found.items() if family}


def _family(native: Native) -> str:
    return next((family for name, family in _CATEGORIES if name in native.categories), "")


def counted_commands(info: Mapping[str, str], of: Mapping[str, str]) -> dict[str, CommandCounts]:
    """Returns the counts by family; `of`: from `families_of`."""
    found: dict[str, CommandCounts] = {}
    for name, words in info.items():
        if name.startswith("cmdstat_"):
            command = name.removeprefix("cmdstat_").partition("|")[0].lower()
            family = of.get(command, OTHER)
            numbers = _numbers(words)
            before = found.get(family, CommandCounts())
            found[family] = CommandCounts(
                before.calls + int(numbers.get("calls", 0)),
                before.seconds + numbers.get("usec", 0) / 1_000_000,
                before.failed + int(numbers.get("failed_calls", 0)),
                before.rejected + int(numbers.get("rejected_calls", 0)),
            )
    return found


def counted_errors(info: Mapping[str, str]) -> dict[str, int]:
    """Returns the number of errors by their first word; those that Redis itself never gives count
    as OTHER."""
    found: dict[str, int] = {}
    for name, words in info.items():
        if name.startswith("errorstat_"):
            code = name.removeprefix("errorstat_")
            code = code if code in ERRORS else OTHER
            found[code] = found.get(code, 0) + int(_numbers(words).get("count", 0))
    return found


def _numbers(words: str) -> dict[str, float]:
    """Parses "calls=1,usec=2"."""
    pairs = (word.partition("=") for word in words.split(","))
    return {name: float(number) for name, _, number in pairs if _is_number(number)}


def _is_number(word: str) -> bool:
    return word.replace(".", "", 1).isdigit()
