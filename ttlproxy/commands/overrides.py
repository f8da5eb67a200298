"""How a native command becomes a script call: which words go along, which are keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ttlproxy.commands.spec import Call, Override

Args = Sequence[bytes]


def rest(args: Args) -> Args:
    """The words after the key."""
    return args[2:]


def named(args: Args) -> Args:
    """The name in upper case, and the words after the key."""
    return (args[0].upper(), *args[2:])


def on_key(
    name: str,
    script: str,
    argv: Callable[[Args], Args],
    takes: Callable[[Args], bool] = lambda args: True,
) -> Override:
    """A command with one key, its first argument."""
    return Override(
        name=name,
        plan=lambda args: Call(script, (args[1],), argv(args)),
        keys=lambda args: args[1:2],
        takes=takes,
    )


def on_two_keys(name: str, script: str, argv: Callable[[Args], Args]) -> Override:
    """A command that carries deadlines from its first key to its second."""
    return Override(
        name=name,
        plan=lambda args: Call(script, (args[1], args[2]), argv(args)),
        keys=lambda args: args[1:3],
        targets=lambda args: args[2:3],
    )


def on_all_keys(name: str, script: str) -> Override:
    """A command whose arguments all are keys."""
    return Override(
        name=name,
        plan=lambda args: Call(script, args[1:], (args[0].upper(),)),
        keys=lambda args: args[1:],
    )
