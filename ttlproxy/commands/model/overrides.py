"""How a native command becomes a script call: which words it gets, and which are keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from ttlproxy.commands.model.key_positions import REPLACED, KeySpec
from ttlproxy.commands.model.spec import Call, Direct, OnWrite, Override

Args = Sequence[bytes]

# The most words that Lua can pass to a command in one call (it fails at 8,000).
MOST_WORDS = 7900


def rest(args: Args) -> Args:
    """The words after the key."""
    return args[2:]


def with_name(args: Args) -> Args:
    """The name in upper case, and the words after the key."""
    return (args[0].upper(), *args[2:])


def on_key(
    name: str,
    script: str,
    argv: Callable[[Args], Args],
    takes: Callable[[Args], bool] = lambda args: True,
    on_write: OnWrite | None = None,
) -> Override:
    """A command with one key, its first argument."""
    return Override(
        name=name,
        plan=lambda args: Call(script, (args[1],), argv(args)),
        keys=lambda args: args[1:2],
        takes=takes,
        direct=Direct(script, argv is with_name, takes) if argv in (rest, with_name) else None,
        on_write=on_write,
    )


def on_two_keys(
    name: str,
    script: str,
    argv: Callable[[Args], Args],
    with_rule: tuple[bytes, Callable[[Args, bytes], Args]] | None = None,
) -> Override:
    """A command that moves deadlines from its first key to its second.

    with_rule: the type of these keys, and the words where a rule of ONWRITE matches the second
    """
    type_, ruled = with_rule or (b"", None)
    return Override(
        name=name,
        plan=lambda args: Call(script, (args[1], args[2]), argv(args)),
        with_rule=ruled
        and (type_, lambda args, how: Call(script, (args[1], args[2]), ruled(args, how))),
        keys=lambda args: args[1:3],
        targets=lambda args: args[2:3],
    )


def on_all_keys(name: str, script: str) -> Override:
    """A command that deletes keys; all its arguments are keys."""
    return Override(
        name=name,
        plan=lambda args: Call(script, args[1:], (args[0].upper(),)),
        keys=lambda args: args[1:],
        swept=lambda args: args[1:],
    )


def replacing(name: str, positions: Sequence[KeySpec], *, needed_later: bool = True) -> Override:
    """A command that replaces the keys that `positions` call REPLACED, and reads the others.

    A request that is too long for Lua goes on as it came, and its keys are swept. What is not
    `needed_later` writes strings.
    """

    def replaced(args: Args) -> Args:
        found = (spec.words(args) for spec in positions if spec.access == REPLACED)
        return list(dict.fromkeys(chain.from_iterable(found)))

    def plan(args: Args) -> Call:
        keys = replaced(args)
        read = {key: None for spec in positions for key in spec.words(args)}
        return Call(
            "key_replace",
            (*keys, *(key for key in read if key not in keys)),
            (b"%d" % len(keys), *args),
        )

    return Override(
        name=name,
        plan=plan,
        keys=replaced,
        takes=lambda args: len(args) <= MOST_WORDS,
        swept=replaced,
        filled=replaced if needed_later else lambda args: (),
        needed_later=needed_later,
    )
