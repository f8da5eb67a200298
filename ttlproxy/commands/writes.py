"""What the commands that write and set deadlines in one step have in common."""

from __future__ import annotations

from ttlproxy.commands.grammar import NO_TIME, Refused
from ttlproxy.commands.spec import Call


def untyped_refusal(name: str, refused: Refused) -> Call:
    """The error of a malformed command whose arguments are checked before the type of its key."""
    amount, base = refused.time or NO_TIME
    return Call("refuse", (), (name.lower().encode(), amount, base, refused.text))
