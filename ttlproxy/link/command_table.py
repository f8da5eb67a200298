"""Reads which commands a server has, so that many proxies can do so at once.

The whole reply to COMMAND takes Redis 7.0 1.3 ms, in which it serves nobody, and a hundred proxies
that ask within a turn of its loop add that up. So the table is read in pieces, and it is not read
again while the server's build, modules and list of commands are the same: after a restart, or at
another server of the same kind. Where it can be stored (stored_commands.py), one proxy reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from redis.asyncio import Redis

from ttlproxy.commands import Native, natives
from ttlproxy.link.packing import pack
from ttlproxy.link.pipeline import error, run, valid
from ttlproxy.link.stored_commands import BUILD

# So many take Redis 0.1 ms.
_PIECE: Final = 20


class CommandTable:
    """Keeps the table of the last server; packed: its rows as Redis tells them."""

    def __init__(self) -> None:
        self.packed = b""
        self._of: object = None  # the server that it is of
        self._rows: list[Native] = []

    async def read(self, redis: Redis, info: bytes) -> list[Native]:
        """The server's commands; `info`: its reply to INFO. Raises redis-py's RedisError."""
        (listed,) = await run(redis, [(0, (b"COMMAND", b"LIST"))])
        if error(listed):  # before 7.0, or of the two only COMMAND is allowed
            return self._take(None, await _whole(redis))
        names = sorted(valid(listed))  # each start has another order
        server = ([line for line in info.splitlines() if line.startswith(BUILD)], names)
        if server != self._of:
            self._take(server, await _in_pieces(redis, names))
        return self._rows

    def _take(self, server: object, rows: list[Any]) -> list[Native]:
        self._of, self.packed, self._rows = server, pack(rows), list(natives(rows))
        return self._rows


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
