"""Reads bytes that have come on a failed connection and that its transport has not delivered.

If the peer closes before it has read all our bytes, our next write fails. Event loops then end the
connection at once, though the kernel still holds bytes that the peer sent before.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Final

_CHUNK: Final = 256 * 1024


def undelivered(transport: asyncio.BaseTransport) -> bytes:
    """All bytes that are left; call it from `connection_lost`, before the socket is closed."""
    sock = transport.get_extra_info("socket")
    parts: list[bytes] = []
    with suppress(OSError):
        while part := os.read(sock.fileno(), _CHUNK):
            parts.append(part)
    return b"".join(parts)
