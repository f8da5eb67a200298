"""Script calls that many commands share: to set deadlines, to refuse malformed requests, and to
carry out native commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import chain
from typing import Final

from ttlproxy.commands.parsing import Time
from ttlproxy.commands.spec import (
    REPLACED,
    Call,
    Direct,
    KeySpec,
    OnWrite,
    Override,
    Plan,
)
from ttlproxy.core.limits import CALLED_WORDS_MAX

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
    """Returns the call of a script that takes `origin how element...`: see scripts/lib/words.lua.

    flag: its meaning depends on the script: one element in a short form, KEEPTTL, PERSIST, or an id
    is given
    """
    sign = b"+" if time.base == b"1" else b""
    how = b"".join((b"1" if flag else b"0", condition, sign, time.amount_ms, cap))
    return Call(script, (key,), (name.lower().encode(), how, *elements))


def left_to_server(call: Call, *, unsure: bool) -> Call:
    """Returns the call for a server that has the command itself: see
    scripts/lib/left_to_server.lua.

    unsure: whether the key may have a rule of ONEXPIRE that is not read yet
    """
    if call.script not in _LEFT_TO_SERVER:
        return call
    origin, how, *elements = call.argv
    digit = int(how[:1]) + (4 if unsure else 2)
    return call._replace(argv=(origin, b"%d%b" % (digit, how[1:]), *elements))


Args = Sequence[bytes]


def rest(args: Args) -> Args:
    """Returns the words after the key."""
    return args[2:]


def with_name(args: Args) -> Args:
    """Returns the name in upper case, and the words after the key."""
    return (args[0].upper(), *args[2:])


def on_key(
    name: str,
    script: str,
    argv: Callable[[Args], Args],
    takes: Callable[[Args], bool] = lambda args: True,
    on_write: OnWrite | None = None,
) -> Override:
    """Returns the override of a command with one key, its first argument."""
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
    """Returns the override of a command that moves deadlines from its first key to its second.

    with_rule: the type of these keys, and the words if a rule of ONWRITE matches the second
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
    """Returns the override of a command that deletes keys; all its arguments are keys."""
    return Override(
        name=name,
        plan=lambda args: Call(script, args[1:], (args[0].upper(),)),
        keys=lambda args: args[1:],
        swept=lambda args: args[1:],
    )


def replacing(name: str, positions: Sequence[KeySpec], *, needed_later: bool = True) -> Override:
    """Returns the override of a command that replaces the keys with access REPLACED, and reads the
    others.

    A request that is too long for Lua is passed on unchanged, and its keys are swept. A command
    that is not `needed_later` writes strings.
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
        takes=lambda args: len(args) <= CALLED_WORDS_MAX,
        swept=replaced,
        filled=replaced if needed_later else lambda args: (),
        needed_later=needed_later,
    )


# The most entries; then all are dropped. A new instant in each request makes a new entry.
_MOST_ENTRIES = 1024
# The entries of all plans. The proxy does not need this list. tests/core/test_repeats.py does, to
# compare each plan with and without entries: it cannot reach plans that are wrapped in others.
CACHES: Final[list[dict[tuple[object, ...], tuple[str, bytes, bytes]]]] = []


def repeating(plan: Plan, begin: Callable[[Sequence[bytes]], int]) -> Plan:
    """Returns a plan that is called once for each beginning of a request; its errors are raised
    each time. Nearly all requests of a command have the same options, for another key and other
    elements, and to read the options takes four times as long as to find them here.

    The plan must make calls as of `set_deadlines`, on the request's first key; other calls
    are not cached. It must read from left to right, and depend on the number of the elements only,
    not on the elements: tests/core/test_repeats.py checks that for every command.

    begin: guesses where the elements begin, which end the request. Raises ValueError if it cannot
    guess. The result is cached only if a full parse agrees with the guess.
    """
    known: dict[tuple[object, ...], tuple[str, bytes, bytes]] = {}
    CACHES.append(known)

    @wraps(plan)
    def planned(args: Sequence[bytes]) -> Call:
        try:
            at = begin(args)
        except ValueError:
            return plan(args)
        head, elements = (len(args), *args[2:at]), args[at:]
        found = known.get(head)
        if found is None:
            call = plan(args)
            name, how, *rest = call.argv
            if rest == elements and call.keys == (args[1],):
                if len(known) >= _MOST_ENTRIES:
                    known.clear()
                known[head] = call.script, name, how
                return call._replace(elements_at=at)
            return call
        script, name, how = found
        return Call(script, args[1:2], (name, how, *elements), at)

    return planned
