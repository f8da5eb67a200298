"""List elements: the commands that Redis lacks, and those of Redis that must do more.

Equal values in one list are one element: they share one deadline and are removed together.
"""

from __future__ import annotations

from collections.abc import Sequence

from ttlproxy.commands.calls import on_key, on_two_keys, rest, with_name
from ttlproxy.commands.element_commands import (
    TIMED_OPTIONS,
    Names,
    family,
    planning_timed,
)
from ttlproxy.commands.options import Form
from ttlproxy.commands.spec import OnWrite, Virtual
from ttlproxy.core import element_types

NOUN = element_types.LIST
NAMES = Names(
    "LEXPIREELEMENT",
    "LPEXPIREELEMENT",
    "LEXPIREATELEMENT",
    "LPEXPIREATELEMENT",
    "LTTLELEMENT",
    "LPTTLELEMENT",
    "LEXPIRETIMEELEMENT",
    "LPEXPIRETIMEELEMENT",
    "LPERSISTELEMENT",
)


def _moved(args: Sequence[bytes], how: bytes = b"") -> Sequence[bytes]:
    """Returns the name in upper case, the rule of ONWRITE for the target, and for LMOVE the two
    ends."""
    return (args[0].upper(), how, *args[3:])


def _has_no_count(args: Sequence[bytes]) -> bool:
    return len(args) == 2


def _push(name: str, end: str) -> Virtual:
    return Virtual(
        name=name,
        summary=f"Pushes elements to the {end} of a list and sets their time to live in one step.",
        group="list",
        forms=(
            "key [KEEPTTL] seconds element [element ...]",
            f"key {TIMED_OPTIONS} ELEMENTS numelements element [element ...]",
        ),
        reply=(
            "the length after the push; if the time is already past, these elements and equal"
            " ones are then removed; -1 too many elements"
        ),
        complexity=(
            "O(N*log(M)), N elements named, M with a deadline;"
            " with KEEPTTL or MAXLEN O(L+N*log(M)), L the length of the list"
        ),
        since="0.1.0",
        plan=planning_timed(Form(name, NOUN, capped=True), "list_pushex"),
        example=(
            (f"{name} l 100 a b", "(integer) 2"),
            (f"{name} l EX 200 ELEMENTS 2 a c", "(integer) 4"),
            (
                "LTTLELEMENT l ELEMENTS 3 a b c",
                "1) (integer) 200\n2) (integer) 100\n3) (integer) 200",
            ),
            (f"{name} l KEEPTTL 300 a", "(integer) 5"),
            ("LTTLELEMENT l a", "(integer) 200"),
            (f"{name} l MAXLEN 5 EX 100 ELEMENTS 1 d", "(integer) -1"),
            (f"{name} l MAXLEN 5 EVICT EX 100 ELEMENTS 1 d", "(integer) 5"),
        ),
        sets_deadlines=True,
    )


VIRTUALS = (
    *family(NOUN, NAMES, fill="RPUSH l a b"),
    _push("LPUSHEX", "head"),
    _push("RPUSHEX", "tail"),
)

_PUSH = OnWrite(b"list", True, "list_write")
_PUT = OnWrite(b"list", True, "list_put")

OVERRIDES = (
    on_key("LPUSH", "list_push", with_name, on_write=_PUSH),
    on_key("RPUSH", "list_push", with_name, on_write=_PUSH),
    on_key("LPUSHX", "list_push", with_name, on_write=_PUSH),
    on_key("RPUSHX", "list_push", with_name, on_write=_PUSH),
    on_key("LINSERT", "list_insert", rest, on_write=_PUT),
    on_key("LSET", "list_set", rest, on_write=_PUT),
    on_key("LREM", "list_rem", rest),
    on_key("LTRIM", "list_trim", rest),
    on_key("LPOP", "list_pop", with_name, _has_no_count),
    on_key("RPOP", "list_pop", with_name, _has_no_count),
    on_two_keys("LMOVE", "list_move", _moved, (b"list", _moved)),
    on_two_keys("RPOPLPUSH", "list_move", _moved, (b"list", _moved)),
)
