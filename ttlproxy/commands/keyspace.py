"""Whole keys: the commands of Redis that take an index along with its data."""

from __future__ import annotations

from collections.abc import Sequence

from ttlproxy.commands.overrides import named, on_all_keys, on_key, on_two_keys, replacing
from ttlproxy.commands.positions import MOVABLE, READ, REPLACED, KeySpec

Args = Sequence[bytes]

_FIRST = (KeySpec(REPLACED),)
_FROM_SECOND = (KeySpec(REPLACED), KeySpec(READ, 2))
_FROM_ALL = (KeySpec(REPLACED), KeySpec(READ, 2, last=-1))


def _name(args: Args) -> Args:
    return (args[0].upper(),)


# What these write is a string: on a key that becomes managed behind their back, in a transaction,
# they leave deadlines whose elements are gone, and a sweep finds them.
_STRINGS = {
    "SET": _FIRST,
    "SETEX": _FIRST,
    "PSETEX": _FIRST,
    "MSET": (KeySpec(REPLACED, last=-1, step=2),),
    "MSETEX": (KeySpec(REPLACED, count_at=0, first=1, step=2),),
    "BITOP": (KeySpec(REPLACED, 2), KeySpec(READ, 3, last=-1)),
}
# GETSET, MSETNX, SETNX and PFMERGE never replace a collection.
_COLLECTIONS = {
    "RESTORE": _FIRST,
    "RESTORE-ASKING": _FIRST,
    "SINTERSTORE": _FROM_ALL,
    "SUNIONSTORE": _FROM_ALL,
    "SDIFFSTORE": _FROM_ALL,
    "ZUNIONSTORE": MOVABLE["ZUNIONSTORE"],
    "ZINTERSTORE": MOVABLE["ZINTERSTORE"],
    "ZDIFFSTORE": MOVABLE["ZDIFFSTORE"],
    "ZRANGESTORE": _FROM_SECOND,
    "GEOSEARCHSTORE": _FROM_SECOND,
    "GEORADIUS": MOVABLE["GEORADIUS"],
    "GEORADIUSBYMEMBER": MOVABLE["GEORADIUSBYMEMBER"],
    "SORT": MOVABLE["SORT"],
}

OVERRIDES = (
    *(replacing(name, positions, late=False) for name, positions in _STRINGS.items()),
    *(replacing(name, positions) for name, positions in _COLLECTIONS.items()),
    on_all_keys("DEL", "key_delete"),
    on_all_keys("UNLINK", "key_delete"),
    on_key("EXPIRE", "key_expire", named),
    on_key("PEXPIRE", "key_expire", named),
    on_key("EXPIREAT", "key_expire", named),
    on_key("PEXPIREAT", "key_expire", named),
    on_key("PERSIST", "key_persist", lambda args: ()),
    on_two_keys("RENAME", "key_rename", _name),
    on_two_keys("RENAMENX", "key_rename", _name),
)
