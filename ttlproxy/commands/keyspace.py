"""Whole keys: the commands of Redis that take an index along with its data."""

from __future__ import annotations

from collections.abc import Sequence

from ttlproxy.commands.overrides import named, on_all_keys, on_key, on_two_keys

Args = Sequence[bytes]


def _name(args: Args) -> Args:
    return (args[0].upper(),)


OVERRIDES = (
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
