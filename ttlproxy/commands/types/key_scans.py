"""The commands that see all keys: they see everything except the proxy's own keys."""

from __future__ import annotations

from collections.abc import Sequence

from ttlproxy.commands.model.spec import Call, Survey

Args = Sequence[bytes]


def _listed(args: Args) -> Call:
    return Call("keys_list", (), args)


SURVEYS = (
    Survey(name="SCAN", plan=_listed, of_keys=True),
    Survey(name="KEYS", plan=_listed, of_keys=True),
    Survey(name="RANDOMKEY", plan=lambda args: Call("keys_random", (), ()), of_keys=True),
    Survey(name="DBSIZE", plan=lambda args: Call("keys_count", (), ()), of_keys=True, counts=True),
)
