"""TCP keepalive as Redis sets it (src/anet.c, anetKeepAlive). Knows sockets only."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Final

_PROBES: Final = 3
_IDLE: Final = "TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE"  # macOS


def options(seconds: int) -> Mapping[int, int]:
    """TCP's options by which a dead peer is found out in twice as many seconds at most."""
    if not seconds:
        return {}
    interval = max(seconds // _PROBES, 1)
    return {
        getattr(socket, _IDLE): seconds,
        socket.TCP_KEEPINTVL: interval,
        socket.TCP_KEEPCNT: _PROBES,
    }


def keep_alive(sock: socket.socket, seconds: int) -> None:
    """Probes the peer of a TCP connection when that has been silent for so long; 0: never.

    Connections that a listening socket accepts inherit it.
    """
    if sock.family == socket.AF_UNIX or not seconds:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in options(seconds).items():
        sock.setsockopt(socket.IPPROTO_TCP, name, value)
