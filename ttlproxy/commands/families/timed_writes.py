"""The common part of commands that write elements and set their deadlines in one step."""

from __future__ import annotations

from collections.abc import Sequence

from ttlproxy.commands.grammar.options import SHOWN_EXPIRIES, Form, Options, long_form, short_form
from ttlproxy.commands.model import calls
from ttlproxy.commands.model.repeats import repeating
from ttlproxy.commands.model.spec import Call, Plan

Args = Sequence[bytes]

# The options of all these commands, as `redis-cli help` shows them.
OPTIONS = f"[MAXLEN maxlen [EVICT]] [{SHOWN_EXPIRIES}|KEEPTTL]"


def planning(form: Form, script: str) -> Plan:
    """The plan of a command that has a short and a long form."""

    def read(args: Args) -> Call:
        return call(form, script, args[1], short_form(form, args) or long_form(form, args))

    def begin(args: Args) -> int:
        return 3 if args[2].isdigit() else form.noun.elements_at(args)

    return refusing(form, repeating(read, begin))


def refusing(form: Form, read: Plan) -> Plan:
    """The plan; a malformed request gets its error."""
    return calls.refusing(
        read, lambda args, refused: calls.refusal(form.command, refused.text, refused.time)
    )


def call(form: Form, script: str, key: bytes, options: Options) -> Call:
    """The call of the script that writes what the options say."""
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
