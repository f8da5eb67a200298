"""What the commands that write and set deadlines in one step have in common."""

from __future__ import annotations

from collections.abc import Sequence

from ttlproxy.commands import calls
from ttlproxy.commands.grammar import Refused
from ttlproxy.commands.options import SHOWN_EXPIRIES, Form, Options, long_form, short_form
from ttlproxy.commands.spec import Call

# The options that all of them take, as `redis-cli help` shows them.
OPTIONS = f"[MAXLEN maxlen [EVICT]] [{SHOWN_EXPIRIES}|KEEPTTL]"


def plan(form: Form, script: str, args: Sequence[bytes]) -> Call:
    """The call of a request in the short or in the long form."""
    try:
        options = short_form(form, args) or long_form(form, args)
    except Refused as refused:
        return calls.refusal(form.command, refused.text, refused.time)
    return call(form, script, args[1], options)


def call(form: Form, script: str, key: bytes, options: Options) -> Call:
    """The call of a script that writes what the options say."""
    return calls.set_deadlines(
        script,
        form.command,
        key,
        options.time,
        options.elements,
        condition=options.condition,
        flag=options.keep,
        cap=options.cap,
    )
