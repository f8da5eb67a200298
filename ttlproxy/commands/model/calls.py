"""The script calls that many commands become: to set deadlines, and to refuse what is malformed."""

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

    flag: the element is named in a short form, or, of a script that writes, deadlines are kept
    """
    sign = b"+" if time.base == b"1" else b""
    how = b"".join((b"1" if flag else b"0", condition, sign, time.amount_ms, cap))
    return Call(script, (key,), (name.lower().encode(), how, *elements))


def marked(call: Call, mark: bytes) -> Call:
    """The same call, whose reply is to be `[mark, reply]`."""
    origin, how, *rest = call.argv
    return call._replace(argv=(origin, b"%b#%b" % (how, mark), *rest))


def refusing(plan: Plan, refuse: Callable[[Sequence[bytes], Refused], Call]) -> Plan:
    """The plan, or what `refuse` makes of a malformed request."""

    def planned(args: Sequence[bytes]) -> Call:
        try:
            return plan(args)
        except Refused as refused:
            return refuse(args, refused)

    return planned


def refusal(name: str, text: bytes, time: Time = NO_TIME) -> Call:
    """The error of a malformed command, after that of a time beyond all limits."""
    return Call("refuse", (), _refusal_argv(name, text, time))


def typed_refusal(noun: Noun, name: str, key: bytes, text: bytes, time: Time) -> Call:
    """The same, after WRONGTYPE."""
    return Call(f"{noun.type}_refuse", (key,), _refusal_argv(name, text, time))


def _refusal_argv(name: str, text: bytes, time: Time) -> Sequence[bytes]:
    return (name.lower().encode(), *time, text)
