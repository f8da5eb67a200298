"""TCP keepalive as Redis sets it (src/anet.c, anetKeepAlive), with shorter times for the proxy's
own connections. Knows sockets only."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Final

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


def options(seconds: int) -> Mapping[int, int]:
    """TCP options that detect a dead peer within about 2 * `seconds`; none if `seconds` is 0."""
    if not seconds:
        return {}
    interval = max(seconds // _PROBES, 1)
    return {
        getattr(socket, _IDLE): seconds,
        socket.TCP_KEEPINTVL: interval,
        socket.TCP_KEEPCNT: _PROBES,
    }


def own_options(seconds: int) -> Mapping[int, int]:
    """The same for a connection of the proxy's own; none if `seconds` is 0."""
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
    """Probes the peer of a TCP connection after so many seconds of silence; 0: never.

    Connections that a listening socket accepts inherit this.
    """
    _probe(sock, options(seconds))


def keep_own_alive(sock: socket.socket, seconds: int) -> None:
    """The same for a connection of the proxy's own."""
    _probe(sock, own_options(seconds))


def _probe(sock: socket.socket, chosen: Mapping[int, int]) -> None:
    if sock.family == socket.AF_UNIX or not chosen:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in chosen.items():
        sock.setsockopt(socket.IPPROTO_TCP, name, value)
