"""Reads chunks for a connection to Redis that several clients share: what may go there.

Redis must find exactly these requests in the bytes, and answer each once: a frame that it refuses
would end the connection for all. So only what was sent as clients send it is read, without inline
commands and empty lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from ttlproxy.commands.model.shareable import SHAREABLE_SUBCOMMANDS
from ttlproxy.session.handshake import INTRODUCES
from ttlproxy.wire import cut, pieces, whole
from ttlproxy.wire.scanner import Scanner

# A larger request holds up the others for long, and Redis closes the connection if a bulk string is
# larger than proto-max-bulk-len, which is 1 MiB at least.
LARGEST: Final = 64 * 1024

_CLIENT: Final = (b"CLIENT", b"client")


class Part(NamedTuple):
    """What a chunk has for the shared connection.

    requests: whole ones, maybe none; rest: the bytes of an incomplete request behind them
    """

    requests: list[list[bytes]]
    rest: bytes


class Introducing(NamedTuple):
    """The requests of a chunk, and which of them only say what the client is called."""

    requests: list[list[bytes]]
    introductions: list[list[bytes]]


def may_go(args: Sequence[bytes], names: AbstractSet[bytes]) -> bool:
    """Whether a request may go, whatever its form; `names`: as for `read`."""
    if args[0] in names:
        return True
    return len(args) > 1 and args[1].upper() in SHAREABLE_SUBCOMMANDS.get(args[0].upper(), ())


def read(data: bytes, names: AbstractSet[bytes]) -> list[list[bytes]] | None:
    """The requests of a chunk of whole requests that all may go; None for any other.

    `names`: those of the commands that may go with any subcommand, in upper and in lower case.
    """
    requests = whole(data)
    if requests is None or not all(may_go(args, names) for args in requests):
        return None
    if len(data) > LARGEST and max(map(len, pieces(data))) > LARGEST:
        return None
    return requests


def read_introducing(data: bytes, names: AbstractSet[bytes]) -> Introducing | None:
    """The same for a chunk in which the client may also say what it is called."""
    if not any(word in data for word in _CLIENT):
        return None  # as nearly always; so no names are put together for nothing
    requests = read(data, {*names, *_CLIENT})
    if requests is None:
        return None
    own = [args for args in requests if args[0] in _CLIENT]
    if any(len(args) < 2 or INTRODUCES.get(args[1].upper()) != len(args) for args in own):
        return None
    return Introducing(requests, own)


def read_cut(data: bytes, names: AbstractSet[bytes]) -> Part | None:
    """The same for a chunk that may end within a request; None if something in it may not go."""
    requests, end = cut(data)
    scanner = Scanner(data[end:])
    if scanner.next() is not None or scanner.start or scanner.broken:
        return None  # not as clients send it
    if data[end : end + 1] != b"*" or scanner.size > LARGEST:
        return None
    if requests and read(data[:end], names) is None:
        return None
    return Part(requests, data[end:])
