"""The script calls that many commands share: to set deadlines, and to refuse malformed requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ttlproxy.commands.grammar.parsing import NO_TIME, Noun, Refused, Time
from ttlproxy.commands.model.spec import Call, Plan

# These include lib/left_to_server.lua.
_LEFT_TO_SERVER: Final = frozenset({"hash_expire", "hash_getex", "hash_setex"})


def set_deadlines(
    script: str,
    name: str,
    key: bytes,
    time: Time,
    elements: Sequence[bytes],
    *,
    condition: bytes = b"",
    flag: bool = False,
    cap: bytes = b"",
) -> Call:
    """The call of a script that takes `origin how element...`: see scripts/lib/words.lua.

    flag: depends on the script: one element in a short form, KEEPTTL, PERSIST, or an id is given
    """
    sign = b"+" if time.base == b"1" else b""
    how = b"".join((b"1" if flag else b"0", condition, sign, time.amount_ms, cap))
    return Call(script, (key,), (name.lower().encode(), how, *elements))


def left_to_server(call: Call, *, unsure: bool) -> Call:
    """The same for a command that the server has itself: see scripts/lib/left_to_server.lua.

    unsure: whether the key may have a rule of ONEXPIRE that is not read yet
    """
    if call.script not in _LEFT_TO_SERVER:
        return call
    origin, how, *elements = call.argv
    digit = int(how[:1]) + (4 if unsure else 2)
    return call._replace(argv=(origin, b"%d%b" % (digit, how[1:]), *elements))


def refusing(plan: Plan, refuse: Callable[[Sequence[bytes], Refused], Call]) -> Plan:
    """The plan; for a malformed request the call that `refuse` makes."""

    def planned(args: Sequence[bytes]) -> Call:
        try:
            return plan(args)
        except Refused as refused:
            return refuse(args, refused)

    return planned


def refusal(name: str, text: bytes, time: Time = NO_TIME) -> Call:
    """A call that returns this error, or before it that of a time beyond all limits."""
    return Call("refuse", (), _refusal_argv(name, text, time))


def typed_refusal(noun: Noun, name: str, key: bytes, text: bytes, time: Time) -> Call:
    """The same, but WRONGTYPE comes first."""
    return Call(f"{noun.type}_refuse", (key,), _refusal_argv(name, text, time))


def _refusal_argv(name: str, text: bytes, time: Time) -> Sequence[bytes]:
    return (name.lower().encode(), *time, text)
