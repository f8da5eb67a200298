"""What the commands that write and set deadlines in one step have in common."""

from __future__ import annotations

from collections.abc import Sequence

from ttlproxy.commands import grammar
from ttlproxy.commands.elements import packed
from ttlproxy.commands.grammar import NO_TIME, Form, Options, Refused
from ttlproxy.commands.spec import Call

# The options that all of them take, as `redis-cli help` shows them.
OPTIONS = (
    "[MAXLEN maxlen [EVICT]] [EX seconds|PX milliseconds|EXAT unix-time-seconds"
    "|PXAT unix-time-milliseconds|KEEPTTL]"
)


def plan(form: Form, script: str, args: Sequence[bytes]) -> Call:
    """The call of a request in the short or in the long form."""
    try:
        options = grammar.short_form(form, args) or grammar.write_options(form, args)
    except Refused as refused:
        return untyped_refusal(form.command, refused)
    return call(form, script, args[1], options)


def call(form: Form, script: str, key: bytes, options: Options) -> Call:
    """The call of a script that writes what the options say."""
    keep = b"1" if options.keep else b"0"
    how = packed(keep, options.condition, options.time) + options.cap
    return Call(script, (key,), (form.command.lower().encode(), how, *options.rest))


def untyped_refusal(name: str, refused: Refused) -> Call:
    """The error of a malformed command whose arguments are checked before the type of its key."""
    amount, base = refused.time or NO_TIME
    return Call("refuse", (), (name.lower().encode(), amount, base, refused.text))
