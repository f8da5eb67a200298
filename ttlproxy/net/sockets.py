"""Work on sockets: TCP keepalive, numeric addresses, bytes that were not delivered, and counts of
attempts to connect. Knows no Redis.

Keepalive is as Redis sets it (src/anet.c, anetKeepAlive), with shorter times for the proxy's own
connections.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from ttlproxy.core.counters import Dials

_PROBES: Final = 3
_IDLE: Final = "TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE"  # macOS
# The proxy's own connections are few, and all clients depend on them. If the network drops packets
# silently or has forgotten a connection, we notice within _OWN_S + _OWN_INTERVAL_S seconds.
_OWN_S: Final = 15
_OWN_INTERVAL_S: Final = 5
# A peer that is stopped or busy acknowledges until its buffers are full. Then Linux (since 5.11)
# treats it as silent. The proxy opens its own connections again and repeats its requests. Clients'
# requests cannot be repeated, so their connections have no such limit.
_USER_TIMEOUT: Final[int | None] = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux


def keepalive_options(seconds: int) -> Mapping[int, int]:
    """Returns TCP options that detect a dead peer within about 2 * `seconds`; none if `seconds` is
    0."""
    if not seconds:
        return {}
    interval = max(seconds // _PROBES, 1)
    return {
        getattr(socket, _IDLE): seconds,
        socket.TCP_KEEPINTVL: interval,
        socket.TCP_KEEPCNT: _PROBES,
    }


def own_keepalive_options(seconds: int) -> Mapping[int, int]:
    """Returns the options for a connection of the proxy's own; none if `seconds` is 0."""
    if not seconds:
        return {}
    found = {
        getattr(socket, _IDLE): min(seconds, _OWN_S),
        socket.TCP_KEEPINTVL: _OWN_INTERVAL_S,
        socket.TCP_KEEPCNT: _PROBES,
    }
    if _USER_TIMEOUT is not None:
        found[_USER_TIMEOUT] = _OWN_S * 1000
    return found


def keep_alive(sock: socket.socket, seconds: int) -> None:
    """Probes the peer of a TCP connection after this many seconds of silence; 0: never.

    Connections that a listening socket accepts inherit this.
    """
    _probe(sock, keepalive_options(seconds))


def keep_own_alive(sock: socket.socket, seconds: int) -> None:
    """Keeps a connection of the proxy's own alive."""
    _probe(sock, own_keepalive_options(seconds))


def _probe(sock: socket.socket, chosen: Mapping[int, int]) -> None:
    if sock.family == socket.AF_UNIX or not chosen:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in chosen.items():
        sock.setsockopt(socket.IPPROTO_TCP, name, value)


def is_number(host: str) -> bool:
    """Whether the host is a numeric address, and no name."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


async def numbers(host: str, port: int) -> list[str]:
    """Returns the numeric addresses of a host now, in the order to try them. Raises OSError."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as trouble:
        raise OSError(f"the name {host} is not found: {trouble.strerror}") from trouble
    return list(dict.fromkeys(str(where[0]) for *_, where in found))


_CHUNK: Final = 256 * 1024


def undelivered(transport: asyncio.BaseTransport) -> bytes:
    """Returns the bytes that are left; call it from `connection_lost`, before the socket is
    closed."""
    sock = transport.get_extra_info("socket")
    parts: list[bytes] = []
    with suppress(OSError):
        while part := os.read(sock.fileno(), _CHUNK):
            parts.append(part)
    return b"".join(parts)


# The first match counts; each class is an OSError.
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
    """Counts its body as one attempt to connect. A cancelled attempt counts as neither opened nor
    failed."""
    try:
        yield
    except OSError as trouble:
        dials.failed[dial_failure(trouble)] += 1
        raise
    dials.opened += 1


def dial_failure(trouble: OSError) -> str:
    """Returns one of DIALS_FAILED."""
    for kind, name in _REASONS:
        if isinstance(trouble, kind):
            return name
    return "refused" if _REFUSED in str(trouble) else "other"
