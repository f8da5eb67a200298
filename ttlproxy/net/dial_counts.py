"""Counts attempts to connect to Redis, those that fail by reason. Knows no way to connect."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ttlproxy.core.counters import Dials

# The first that fits; each is an OSError.
_REASONS: Final[tuple[tuple[type[OSError], str], ...]] = (
    (ssl.SSLError, "tls"),
    (socket.gaierror, "dns"),
    (TimeoutError, "timeout"),
    (ConnectionRefusedError, "refused"),
)
# If a name has several addresses, asyncio raises a bare OSError with the texts of all errors.
_REFUSED: Final = f"[Errno {errno.ECONNREFUSED}]"


@contextmanager
def counted_dial(dials: Dials) -> Iterator[None]:
    """Counts one attempt to connect: its body. A cancelled one counts as neither."""
    try:
        yield
    except OSError as trouble:
        dials.failed[reason(trouble)] += 1
        raise
    dials.opened += 1


def reason(trouble: OSError) -> str:
    """One of DIALS_FAILED."""
    for kind, name in _REASONS:
        if isinstance(trouble, kind):
            return name
    return "refused" if _REFUSED in str(trouble) else "other"
