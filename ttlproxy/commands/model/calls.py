"""The script calls that many commands share: to set deadlines, and to refuse malformed requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ttlproxy.commands.grammar.parsing import NO_TIME, Noun, Refused, Time
from ttlproxy.commands.model.spec import Call, Plan


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
