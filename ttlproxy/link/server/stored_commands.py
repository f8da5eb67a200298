"""What one proxy has read of a server's commands, kept in Redis for the others.

Redis needs 1 ms to tell its table of commands and their categories, and 0.01 ms to hand out what is
stored. A server's table changes only with its process and its modules, so it is stored with what
tells these apart, and is signed. It stands beside the secret of the proxies, whose name no ACL
pattern of keys under the prefix reaches. In front of a Cluster nothing is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from redis.asyncio import Redis

from ttlproxy import __version__
from ttlproxy.commands import Native, natives
from ttlproxy.core.signing import COMMANDS, SIGNATURE_LENGTH
from ttlproxy.link.connecting.pipeline import Words, error, run, valid
from ttlproxy.link.connecting.server_identity import Identity, fields
from ttlproxy.link.server.acl import Acl
from ttlproxy.link.server.packing import Packable, pack, unpack
from ttlproxy.link.shared.context import Context

FIELD: Final = b"commands"
_COUNT: Words = (b"COMMAND", b"COUNT")
# The lines of INFO that tell which program answers, and with which modules.
_BUILD: Final = (b"redis_version", b"valkey_version", b"redis_git", b"redis_build_id", b"module:")


def build(info: bytes) -> list[bytes]:
    """What a reply to INFO tells of the program and its modules."""
    return [line for line in info.splitlines() if line.startswith(_BUILD)]


class Stored(NamedTuple):
    """natives: the server's commands; packed, listed: as CommandTable has them; how_many: the
    server's reply to COMMAND COUNT; categories: what its ACL CAT says, as far as that was read"""

    natives: list[Native]
    packed: bytes
    listed: bytes
    how_many: int
    categories: dict[bytes, list[bytes]]


class StoredCommands:
    """is_wanted: whether there is something to store"""

    def __init__(self, context: Context, acl: Acl) -> None:
        self._context = context
        self._acl = acl
        self._server: list[bytes] | None = None  # None if nothing can be stored for it
        self._listed = self._rows = b""  # the rows are not stored yet, unless empty

    def questions(self) -> list[Words]:
        keys = self._context.keys
        return [] if keys.clustered else [_COUNT, (b"HGET", keys.state, FIELD)]

    def met(self, info: bytes, replies: Sequence[object]) -> Stored | None:
        """What another proxy has stored for this very server; `info`: its reply to INFO, `replies`:
        to `questions`."""
        self._server, self._rows = None, b""
        run_id = Identity.of(fields(info)).run_id.encode()
        if not (run_id and replies) or any(map(error, replies)):
            return None
        how_many, stored = map(valid, replies)
        self._server = [__version__.encode(), run_id, b"%d" % how_many, *build(info)]
        signature, packed = (stored or b"")[:SIGNATURE_LENGTH], (stored or b"")[SIGNATURE_LENGTH:]
        if not self._context.script_calls.signer.signed(signature, COMMANDS, [packed]):
            return None
        server, listed, rows, heard = unpack(packed)
        if server != self._server:
            return None
        categories = dict(zip(heard[::2], heard[1::2], strict=True))
        return Stored(list(natives(unpack(rows))), rows, listed, how_many, categories)

    def read(self, listed: bytes, rows: bytes) -> None:
        """This proxy has read the table itself; `listed`, `rows`: as in CommandTable."""
        self._listed = listed
        self._rows = rows if self._server is not None else b""

    @property
    def is_wanted(self) -> bool:
        return bool(self._rows)

    async def store(self, redis: Redis) -> None:
        """Stores what was read, for the others. If Redis refuses, as a replica does, they read it
        themselves. Raises redis-py's ConnectionError or TimeoutError."""
        heard: list[Packable] = [part for each in self._acl.categories.items() for part in each]
        packed = pack([self._server, self._listed, self._rows, heard])
        self._rows = b""
        context = self._context
        signature = context.script_calls.signer.sign(COMMANDS, [packed])
        await run(redis, [(0, (b"HSET", context.keys.state, FIELD, signature + packed))])
