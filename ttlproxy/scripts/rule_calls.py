"""Calls that name keys of several slots, in front of a Cluster.

All rules of ONEXPIRE and ONWRITE are in the home slot.

A script there may not name keys of other slots. So it gets the names that show the client's rights
as one word, and a destination must be in the slot of the key, unless the rule has an outbox.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ttlproxy import errors
from ttlproxy.commands import Call
from ttlproxy.commands.spec import refusal
from ttlproxy.core import glob
from ttlproxy.core.expiry_actions import action_of, filled
from ttlproxy.core.keys import Keys, hash_tag, slot

RULE_CALLS: Final = frozenset({"rule_list", "rule_set", "rule_drop", "write_rule_list"})
# The actions whose destination is in a slot.
_IN_A_SLOT: Final = frozenset({b"LPUSH", b"RPUSH", b"XADD", b"SPUBLISH"})
# The texts that the stars of a pattern may match. If both agree, any text does that has no braces.
_CAPTURED: Final = [[b"%b%d" % (text, star) for star in range(1, 10)] for text in (b"a", b"\x01")]


def at_home(call: Call, keys: Keys, slots: bytes) -> Call:
    """The call for the home slot; or the one that refuses a destination in another slot.

    slots: those that the script tells of the new version of the rules
    """
    if call.script in ("rule_list", "write_rule_list"):
        return call._replace(keys=(keys.prefix,))
    pattern, *samples = call.keys
    row = b"".join(b"%d:%b" % (len(name), name) for name in samples)
    if call.script == "rule_drop":
        return Call(call.script, (keys.prefix, pattern), (pattern, row, slots))
    _, text, counts, _, _, verb, *dests = call.argv
    is_bound = verb in _IN_A_SLOT and not action_of(text).has_outbox
    if is_bound and (elsewhere := _elsewhere(pattern, dests)):
        way = errors.OR_OUTBOX if verb != b"SPUBLISH" else b""
        return refusal("ONEXPIRE", errors.needs_tag(elsewhere, _tag_for(pattern)) + way)
    return Call(
        call.script, (keys.prefix, pattern), (pattern, text, counts, row, slots, verb, *dests)
    )


def lease_in_one_slot(call: Call) -> Call:
    """The call; or the one that refuses two lists in different slots."""
    source, target, *_ = call.keys
    tag = hash_tag(source) or source
    if slot(source) == slot(target) or slot(b"{%b}" % tag) != slot(source):
        return call  # in the second case no name can be told, and Redis refuses it
    return refusal("LEASE", errors.other_slot(target, source, tag))


def _elsewhere(pattern: bytes, dests: Iterable[bytes]) -> bytes | None:
    """The first destination that is not in the slot of each key that matches."""
    for dest in dests:
        for captured in _CAPTURED:
            key = glob.sample(pattern, *captured)
            if slot(key) != slot(filled(dest, key, captured)):
                return dest
    return None


def _tag_for(pattern: bytes) -> bytes:
    """The hash tag for a destination, such as `{cart}` or `{%1}`; for a pattern without one, that
    of the pattern as well."""
    before, brace, _ = pattern.partition(b"{")
    tag = hash_tag(pattern)
    if not (brace and tag):
        return b"{x}, and the pattern too"
    if glob.stars(pattern[: len(before) + 1 + len(tag)]) == glob.stars(before):
        return b"{%b}" % tag
    return b"{%%%d}" % (glob.stars(before) + 1)
