"""Which chunks are plain: each request goes to the master of its first argument. Nearly all are."""

from __future__ import annotations

from binascii import crc_hqx
from operator import itemgetter
from typing import Final

from ttlproxy.core.keys import SLOTS, slot, slots
from ttlproxy.proxy.routed.ways import FIRST, Ways

_NAME: Final = itemgetter(0)
_KEY: Final = itemgetter(1)


def plain_slots(
    commands: list[list[bytes]], data: bytes, ways: Ways, *, are_exact: bool
) -> list[int] | None:
    """The slot of each request of a chunk; None if the chunk is not plain.

    `commands`: the words of the requests, `data`: their bytes; `are_exact`: these are as `encode`
    makes them. If not, there may be words that are no bulk strings, which hiredis also allows.
    """
    if not (are_exact or data.count(b"\r\n$") == sum(map(len, commands))):
        return None
    try:
        if len(commands) == 1:
            args = commands[0]
            return [slot(args[1])] if ways[args[0]] is FIRST else None
        if any(ways[name] is not FIRST for name in set(map(_NAME, commands))):
            return None
        if b"{" in data:
            return slots(list(map(_KEY, commands)))
        # As `slots`, which would look at the keys once more, for 40 ns a request.
        return [crc_hqx(args[1], 0) % SLOTS for args in commands]
    except (IndexError, TypeError, AttributeError):
        return None  # no key, or a word that is no bulk string
