"""Whole keys: the commands of Redis that take an index along with its data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ttlproxy.commands.overrides import on_all_keys, on_key, on_two_keys

Args = Sequence[bytes]


def _expire(unit_ms: int, relative: bool) -> Callable[[Args], Args]:
    unit, base = b"%d" % unit_ms, b"1" if relative else b"0"
    return lambda args: (args[0].upper(), unit, base, *args[2:])


def _name(args: Args) -> Args:
    return (args[0].upper(),)


OVERRIDES = (
    on_all_keys("DEL", "key_delete"),
    on_all_keys("UNLINK", "key_delete"),
    on_key("EXPIRE", "key_expire", _expire(1000, relative=True)),
    on_key("PEXPIRE", "key_expire", _expire(1, relative=True)),
    on_key("EXPIREAT", "key_expire", _expire(1000, relative=False)),
    on_key("PEXPIREAT", "key_expire", _expire(1, relative=False)),
    on_key("PERSIST", "key_persist", lambda args: ()),
    on_two_keys("RENAME", "key_rename", _name),
    on_two_keys("RENAMENX", "key_rename", _name),
)
