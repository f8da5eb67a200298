"""Which chunks are plain: each request goes to the master of its first argument. Nearly all are."""

from __future__ import annotations

from binascii import crc_hqx
from operator import itemgetter
from typing import Final

from ttlproxy.core.keys import SLOTS, slot, slots
from ttlproxy.proxy.routed.ways import FIRST, Ways

_NAME: Final = itemgetter(0)
_KEY: Final = itemgetter(1)


def plain_slots(commands: list[list[bytes]], data: bytes, ways: Ways) -> list[int] | None:
    """The slot of each request of a chunk; None if the chunk is not plain.

    `commands`: the words of the requests, `data`: their bytes.
    """
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
    except IndexError:
        return None  # no key
