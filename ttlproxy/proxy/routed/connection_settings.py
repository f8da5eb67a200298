"""What a client sets for its connection: each of its connections to masters needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# Subcommands of CLIENT, and how many words name what they set.
KEPT: Final = {
    b"SETNAME": 2,
    b"SETINFO": 3,
    b"NO-EVICT": 2,
    b"NO-TOUCH": 2,
    b"TRACKING": 2,
    b"CAPA": 2,
}


def is_setting(name: str, args: Sequence[bytes]) -> bool:
    """Whether a request, of the command `name`, sets something for the client's connection."""
    if name == "CLIENT":
        return len(args) > 1 and (args[1].upper() in KEPT or args[1].upper() == b"REPLY")
    return name in ("AUTH", "HELLO")
