"""How proxies that cannot work together find each other, whatever prefix each of them has.

Each subscribes to a channel whose name says its layout, the key with which it signs, and its
prefix; only new families are published there (link/knowledge/activation.py). Then it asks which
such channels there are. So of two that begin together one knows of the other. Keys of another
prefix are data like any other to a proxy: it would leave deadlines under that prefix with elements
that it replaces, which would then be deleted.
"""

from __future__ import annotations

import logging
from typing import Final

from ttlproxy.core.keys import MEETING
from ttlproxy.errors import UnfitUpstream
from ttlproxy.link.connecting.push_socket import Ask
from ttlproxy.link.server.compatibility import LAYOUT, said_by
from ttlproxy.link.shared.context import Context

log = logging.getLogger(__name__)

# The version of what proxies tell each other: since 2, families and rules are acknowledged; since
# 3, only deadlines that come soon are announced; since 4, families are noted in the state.
_TOLD: Final = 4

QUESTION: Final = (b"PUBSUB", b"CHANNELS", MEETING + b"*")
_DIFFERENCES: Final = (
    "the layout {other}, and this one has {ours}: stop one of them first",
    "another signing key: give all proxies the same --signing-key-file",
    "the prefix {other}, and this one has {ours}: each would leave the deadlines of the other with"
    " elements that it replaces. Stop one of them first",
)


def channel(context: Context) -> bytes:
    """That of this proxy, and of all with which it can work."""
    signer = context.script_calls.signer
    key = signer.sign(MEETING, ())[:8] if context.has_own_secret else b"stored"
    return MEETING + b":".join((b"%d.%d" % (LAYOUT, _TOLD), key, context.keys.prefix))


def meet(ask: Ask, own: bytes) -> None:
    """Subscribes to the channel `own`, and looks for others. Raises UnfitUpstream as `check`."""
    check(own, ask((b"SUBSCRIBE", own), QUESTION)[-1])


def check(own: bytes, channels: object) -> None:
    """`channels`: the reply to QUESTION. If Redis refuses it, others go unnoticed.

    Raises UnfitUpstream if there is another proxy that this one cannot work with.
    """
    if not isinstance(channels, list):
        log.debug("this proxy cannot look for those with other prefixes: %s", channels)
        return
    ours = _parts(own)
    for theirs in map(_parts, channels):
        for mine, its, what in zip(ours, theirs, _DIFFERENCES, strict=False):
            if mine != its:
                said = what.format(other=said_by(its), ours=said_by(mine))
                raise UnfitUpstream(f"another ttlproxy in front of it has {said}")


def _parts(own: bytes) -> list[bytes]:
    return own[len(MEETING) :].split(b":", 2)
