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
    """The reply, but without a node's address if it is such an error: clients that know Clusters
    would go there, past the proxy."""
    return ON_ITS_WAY if reply.startswith(_REDIRECTIONS) else reply


def read(error: bytes) -> Bounce | None:
    """Reads such an error; returns None if it is another one."""
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
