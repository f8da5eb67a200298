"""Reads which commands a server has, so that many proxies can do so at once.

The whole reply to COMMAND takes Redis 7.0 1.3 ms, in which it serves nobody, and a hundred proxies
that ask within a turn of its loop add that up. So the table is read in pieces, and it is not read
again while the server's build, modules and list of commands are the same: after a restart, or at
another server of the same kind. Where it can be stored (stored_commands.py), one proxy reads it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from redis.asyncio import Redis

from ttlproxy.commands import Native, natives
from ttlproxy.link.connecting.pipeline import error, run, valid
from ttlproxy.link.server.packing import pack
from ttlproxy.link.server.stored_commands import build

# So many take Redis 0.1 ms.
_PIECE: Final = 20


class CommandTable:
    """Keeps the table of the last server.

    packed: its rows as Redis tells them; listed: a digest of its commands' names, empty if the
    server does not list them
    """

    def __init__(self) -> None:
        self.packed = self.listed = b""
        self._build: Sequence[bytes] = ()
        self._rows: list[Native] = []

    async def read(self, redis: Redis, info: bytes) -> list[Native]:
        """The server's commands; `info`: its reply to INFO. Raises redis-py's RedisError."""
        (names,) = await run(redis, [(0, (b"COMMAND", b"LIST"))])
        if error(names):  # before 7.0, or of the two only COMMAND is allowed
            rows = await _whole(redis)
            self.keep(info, b"", pack(rows), list(natives(rows)))
            return self._rows
        names = sorted(valid(names))  # each start has another order
        listed = hashlib.sha1(b" ".join(names)).digest()
        if (build(info), listed) != (self._build, self.listed):
            rows = await _in_pieces(redis, names)
            self.keep(info, listed, pack(rows), list(natives(rows)))
        return self._rows

    def keep(self, info: bytes, listed: bytes, packed: bytes, rows: list[Native]) -> None:
        """The table of a server was read, here or by another proxy."""
        self._build, self.listed, self.packed, self._rows = build(info), listed, packed, rows


async def _in_pieces(redis: Redis, names: Sequence[bytes]) -> list[Any]:
    names = [name for name in names if b"|" not in name]  # a command's row has its subcommands
    rows: list[Any] = []
    for begin in range(0, len(names), _PIECE):
        words = (b"COMMAND", b"INFO", *names[begin : begin + _PIECE])
        rows += valid((await run(redis, [(0, words)]))[0])
    if not all(rows):  # listed by the name that it had before it was renamed
        return await _whole(redis)
    return rows


async def _whole(redis: Redis) -> list[Any]:
    (rows,) = await run(redis, [(0, (b"COMMAND",))])
    return list(valid(rows))
