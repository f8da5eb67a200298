"""What Redis tells clients that cache what they read (CLIENT TRACKING): which keys have changed.

A deadline changes an index, whose name is internal: the client is told the name of its data key.
"""

from __future__ import annotations

from typing import Final

from ttlproxy.core.keys import Keys
from ttlproxy.wire import cut, encode

# In RESP3, and for a RESP2 client to which those of another are redirected; the names follow.
_PUSH: Final = b">2\r\n$10\r\ninvalidate\r\n"
_MESSAGE: Final = b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"
HEADS: Final = (_PUSH, _MESSAGE)
# Each of them has this.
WORD: Final = b"invalidate\r\n"


def may_begin(piece: bytes) -> bool:
    """Whether this may be the beginning of one."""
    return any(piece.startswith(head) or head.startswith(piece) for head in HEADS)


def shown(invalidation: bytes, keys: Keys) -> bytes:
    """The same with data keys in place of their indexes, and without other internal keys; empty if
    nothing is left."""
    head = next(filter(invalidation.startswith, HEADS), b"")
    requests, _ = cut(invalidation[len(head) :])
    if not head or not requests:
        return invalidation  # a flush names none
    (names,) = requests
    if not any(map(keys.is_internal, names)):
        return invalidation
    found = [keys.data(name) if keys.is_internal(name) else name for name in names]
    left = [name for name in found if name is not None]
    return head + encode(tuple(left)) if left else b""
