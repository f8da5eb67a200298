"""List elements: the commands that Redis lacks, and those of Redis that have to do more.

Equal values in one list are one element: they share one deadline and go together.
"""

from __future__ import annotations

from collections.abc import Sequence

from ttlproxy.commands.elements import family
from ttlproxy.commands.grammar import Noun
from ttlproxy.commands.overrides import named, on_key, on_two_keys, rest

NOUN = Noun(type="list", prefix="L", one="element", many="elements")


def _moved(args: Sequence[bytes]) -> Sequence[bytes]:
    """The name, and from which end to which."""
    return (args[0].upper(), *args[3:])


def _has_no_count(args: Sequence[bytes]) -> bool:
    return len(args) == 2


VIRTUALS = family(NOUN, fill="RPUSH l a b", key="l", elements=("a", "b"))

OVERRIDES = (
    on_key("LPUSH", "list_push", named),
    on_key("RPUSH", "list_push", named),
    on_key("LPUSHX", "list_push", named),
    on_key("RPUSHX", "list_push", named),
    on_key("LINSERT", "list_insert", rest),
    on_key("LSET", "list_set", rest),
    on_key("LREM", "list_rem", rest),
    on_key("LTRIM", "list_trim", rest),
    on_key("LPOP", "list_pop", named, _has_no_count),
    on_key("RPOP", "list_pop", named, _has_no_count),
    on_two_keys("LMOVE", "list_move", _moved),
    on_two_keys("RPOPLPUSH", "list_move", _moved),
)
