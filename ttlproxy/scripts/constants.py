"""The numbers and names that several scripts share, or that Python knows too.

A script writes `const.PAGE`; the loader puts the value there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ttlproxy import errors
from ttlproxy.core import expiry_actions, keys, limits, registry, signing, write_rules
from ttlproxy.core.element_types import TYPES

VALUES: Final[Mapping[str, int | bytes | Mapping[str, str]]] = {
    # Internal keys, behind the prefix: whole names, or how they begin.
    "SCHEDULE": keys.SCHEDULE,
    "LEASE": keys.LEASE,
    "OTHERS": keys.OTHERS,
    "KEPT": keys.KEPT,
    "COUNTS": keys.COUNTS,
    "RULE": keys.RULE,
    "RULES": keys.RULES,
    "LATER": keys.LATER,
    "NONE": keys.NONE,
    # The entry of an index that tells when its key expires.
    "KEY_EXPIRY": keys.KEY_EXPIRY,
    "TAGGED": keys.TAGGED,
    "ANNOUNCEMENT": keys.ANNOUNCEMENT,
    "ANNOUNCED_MS": registry.ANNOUNCED_MS,
    "SWAP": keys.SWAP,
    "RULES_VERSION": keys.RULES_VERSION,
    "RULES_CHANGED": keys.RULES_CHANGED,
    "LAYOUT_TOLD": keys.LAYOUT_TOLD,
    "FAMILY": keys.FAMILY,
    # The name of the state begins with this; the prefix follows.
    "STATE": keys.STATE,
    # The limit for outboxes.
    "OUTBOX": keys.OUTBOX,
    "MEETING": keys.MEETING,
    "TOLD": keys.TOLD,
    # The most entries of an outbox.
    "OUTBOX_MOST": 100_000,
    # The port of the bus of a Cluster's node is higher than its own by this.
    "BUS": 10_000,
    # The field of the hash of rules that is no pattern.
    "VERSION": expiry_actions.VERSION,
    # The names of rules of ONWRITE begin with this; those of ONEXPIRE are patterns.
    "WRITE_RULE": write_rules.MARK,
    # One more than the highest count of deliveries.
    "COUNT_STEP": expiry_actions.MOST_DELIVERIES + 1,
    # The length of a signature, and the kind of words that is signed.
    "SIGNATURE_LENGTH": signing.SIGNATURE_LENGTH,
    "DEFERRED": signing.DEFERRED,
    "UNKNOWN_DATABASE": errors.UNKNOWN_DATABASE,
    "NOT_IN_FORCE": errors.NOT_IN_FORCE,
    # Scripts return these for an element, or a first deadline: see docs/commands.md.
    "NO_ELEMENT": -2,
    "NO_DEADLINE": -1,
    "NOT_MET": 0,
    "DEADLINE_SET": 1,
    "DEADLINE_REMOVED": 1,
    "EXPIRED": 2,
    # The reply if there would be more elements than MAXLEN allows.
    "TOO_MANY": -1,
    # The latest deadline, in ms: HFE_MAX_ABS_TIME_MSEC of Redis 8.
    "DEADLINE_MAX_MS": 2**46 - 1,
    "KEPT_MS": keys.KEPT_MS,
    "KEPT_SLACK_MS": keys.KEPT_SLACK_MS,
    # A script that begins so long before a key's end is over by then, in ms.
    "SOON_MS": 100,
    "UNPACK_MAX": limits.UNPACK_MAX,
    # The number of elements that are read together, where the first may be enough, and where all
    # are wanted.
    "PAGE": 100,
    # A reap of keys with so few elements at most plans nothing.
    "FEW_DUE": 16,
    "LONG_PAGE": 1000,
    # Type -> its letter in keyspace events, or the command for its elements.
    "LETTERS": {type_.name: type_.letter for type_ in TYPES.values()},
    "FINDERS": {type_.name: type_.find for type_ in TYPES.values()},
    "REMOVERS": {type_.name: type_.remove for type_ in TYPES.values()},
    "LENGTHS": {type_.name: type_.count for type_ in TYPES.values()},
    "SCANS": {type_.name: type_.scan for type_ in TYPES.values() if type_.scan},
}


def literal(name: str) -> str:
    """The Lua literal of a constant. ValueError if there is none of that name."""
    value = VALUES.get(name)
    if value is None:
        raise ValueError(f"scripts have no constant {name}")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = '{word}'" for key, word in value.items()) + " }"
    return f"{value}" if isinstance(value, int) else f"'{value.decode()}'"
