"""What has come on a connection that an error has ended, and which its transport has not delivered.

Where the other end has closed with bytes of ours unread, the next write fails, and event loops end
the connection there and then, though the kernel holds what the other end had sent before.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Final

_CHUNK: Final = 256 * 1024


def undelivered(transport: asyncio.BaseTransport) -> bytes:
    """All that is there; to be called from `connection_lost`, before the socket is closed."""
    sock = transport.get_extra_info("socket")
    parts: list[bytes] = []
    with suppress(OSError):
        while part := os.read(sock.fileno(), _CHUNK):
            parts.append(part)
    return b"".join(parts)
