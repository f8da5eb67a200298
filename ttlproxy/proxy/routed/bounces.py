"""Errors with which a node sends a request back, instead of carrying it out.

src/cluster.c, clusterRedirectClient has their texts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ttlproxy.errors import ON_ITS_WAY

_REDIRECTIONS: Final = (b"-MOVED ", b"-ASK ")
_BOUNCES: Final = (*_REDIRECTIONS, b"-TRYAGAIN ", b"-CLUSTERDOWN ")


class Bounce(NamedTuple):
    """
    kind: MOVED, ASK, TRYAGAIN or CLUSTERDOWN; slot, host, port: for the first two
    """

    kind: bytes
    slot: int = -1
    host: str = ""
    port: int = 0


def is_bounce(error: bytes) -> bool:
    return error.startswith(_BOUNCES)


def shown(reply: bytes) -> bytes:
    """What a client gets of a reply that may be such an error: not the address of a node, where
    clients that know Clusters would go, past the proxy."""
    return ON_ITS_WAY if reply.startswith(_REDIRECTIONS) else reply


def read(error: bytes) -> Bounce | None:
    """What an error says; None if it is no such error."""
    if not is_bounce(error):
        return None
    words = error[1:].split()
    kind = words[0]
    if kind not in (b"MOVED", b"ASK"):
        return Bounce(kind)
    host, _, port = words[-1].decode(errors="replace").rpartition(":")
    if len(words) != 3 or not (words[1].isdigit() and port.isdigit()):
        return None
    return Bounce(kind, int(words[1]), host, int(port))
