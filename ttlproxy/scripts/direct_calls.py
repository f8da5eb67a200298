"""The fast path from requests to their script calls, for calls on one data key.

If the call ends with the words of a write, their bytes are those of the request, instead of
encoding all words anew. Requests that need the same script become one call (lib/several.lua). One
alone gives the same bytes as `ScriptCalls.words`. Knows no session and no connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from ttlproxy.commands import Direct, OnWrite, Route, Router, Virtual
from ttlproxy.commands.spec import MOST_WORDS
from ttlproxy.core.keys import Keys
from ttlproxy.core.write_rules import RuleBook
from ttlproxy.scripts import ON_ONE_KEY, Script, Scripts

# EVALSHA, the SHA, the number of keys, and these.
_BEFORE_ARGV: Final = 3 + len(ON_ONE_KEY)
# Requests that one call may be for: meanwhile Redis serves nobody else, for 2 us each.
MOST_TOGETHER: Final = 128
_ORIGIN: Final = ("origin",)


Target: TypeAlias = tuple[str, bytes]
"""A script: its name, and its SHA as a bulk string."""
Part: TypeAlias = tuple[bytes, int, bytes]
"""What a call has of one request: data and index as bulk strings, how many words of ARGV, these."""


@dataclass(frozen=True, slots=True)
class DirectCall:
    """How requests of one command become calls.

    fits: whether Redis takes so many words; takes: the requests that become such calls;
    ruled_target: that of calls by a rule of ONWRITE
    """

    target: Target
    ruled_target: Target

    fits: Callable[[int], bool]
    takes: Callable[[Sequence[bytes]], bool]
    _index: Callable[[bytes], bytes]
    _named: bytes  # the command's name among the words of the call, if that has it
    _name: int  # bytes of the request's name
    _more: int  # so many words more has ARGV than the request
    # The head of a call by a rule of ONWRITE, whose words are behind the database and the rule.
    _on_write: OnWrite | None
    _ruled_name: bytes
    _ruled_what: bytes

    def part(self, args: Sequence[bytes], sent: bytes) -> Part:
        """That of the request `args`, which `encode` makes `sent` of."""
        key, words = args[1], len(args)
        index = self._index(key)
        data = b"$%d\r\n%b\r\n" % (len(key), key)
        head = 4 if words < 10 else len(b"*%d\r\n" % words)
        keys = b"%b$%d\r\n%b\r\n" % (data, len(index), index)
        return keys, words + self._more, self._named + sent[head + self._name + len(data) :]

    def how(self, rules: RuleBook, databases: tuple[int, ...], key: bytes) -> bytes | None:
        """The rule of ONWRITE for such a request; None if none matches its key."""
        writes = self._on_write
        return writes and rules.how(databases, key, writes.type, writes.keeps)

    def ruled(self, args: Sequence[bytes], sent: bytes, database: bytes, how: bytes) -> Part:
        """The part of a call where this rule matches the key."""
        assert self._on_write is not None
        keys, words, rest = self.part(args, sent)
        origin = _bulks(b"%b %b" % (database, self._ruled_name), how)
        argv = origin + self._ruled_what + rest[len(self._named) :]
        return keys, words - self._more + len(self._on_write.what), argv


@dataclass(frozen=True, slots=True)
class Setter:
    """How requests of one of our commands, which sets deadlines, become calls."""

    _virtual: Virtual
    _targets: Mapping[str, Target]  # the scripts that are called here, by name
    _keys: Keys

    def part(self, args: Sequence[bytes], db: bytes) -> tuple[Target, Part] | None:
        """That of the request `args`; None if that is refused, waits, or is no such call."""
        virtual = self._virtual
        if not virtual.fits(args) or len(args) > MOST_WORDS or virtual.waits(args) is not None:
            return None
        call = virtual.plan(args)
        target = self._targets.get(call.script)
        if target is None:
            return None
        key, (first, *rest) = args[1], call.argv
        keys = _bulks(key, self._keys.index(key))
        return target, (keys, len(call.argv), _bulks(b"%b %b" % (db, first), *rest))


class DirectCalls:
    """The commands that have a fast path, for the scripts as they are now: see `update`.

    writes: native ones; setters: our own. By name, in upper and in lower case
    """

    __slots__ = ("_keys", "_made_for", "_schedule", "_scripts", "setters", "writes")

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = keys
        self._made_for: tuple[object, ...] = ()
        self.writes: Mapping[bytes, DirectCall] = {}
        self.setters: Mapping[bytes, Setter] = {}
        self._schedule = _bulks(keys.schedule)

    def encoded(self, target: Target, parts: Sequence[Part], stops: bool) -> bytes:
        """The call of a script for these; `stops`: it ends before a key with something due."""
        if len(parts) == 1 and not stops:
            ((keys, words, argv),) = parts
            return b"*%d\r\n%b%b%b%b%b%b" % (
                _BEFORE_ARGV + words,
                _EVALSHA,
                target[1],
                _THREE,
                keys,
                self._schedule,
                argv,
            )
        number = 1 + 2 * len(parts) + stops
        words = 3 + number + len(parts) + sum([words for _, words, _ in parts])
        return b"".join(
            [
                b"*%d\r\n%b%b%b%b" % (words, _EVALSHA, target[1], _number(number), self._schedule),
                *[keys for keys, _, _ in parts],
                self._schedule if stops else b"",
                *[each for _, words, argv in parts for each in (_number(words), argv)],
            ]
        )

    def update(self, router: Router) -> bool:
        """Whether there are any, which may have changed. None if Redis may not know the scripts, or
        if each slot of a Cluster has a schedule of its own."""
        scripts = self._scripts
        if not scripts.loaded or self._keys.clustered:
            return False
        if self._made_for != (scripts.traits, router):
            self._made_for = scripts.traits, router
            self.writes = dict(self._made(router))
            targets = {
                script.name: (script.name, _bulks(script.sha))
                for script in scripts.values()
                if script.keys == ON_ONE_KEY and script.argv[:1] == _ORIGIN
            }
            self.setters = {
                name: Setter(route.virtual, targets, self._keys)
                for name, route in router.setters.items()
                if route.virtual
            }
        return True

    def _made(self, router: Router) -> Iterator[tuple[bytes, DirectCall]]:
        for name, route in router.direct.items():
            direct = route.override and route.override.direct
            if direct and (script := self._scripts[direct.script]).keys == ON_ONE_KEY:
                yield name, self._call(name, route, direct, script)

    def _call(self, name: bytes, route: Route, direct: Direct, script: Script) -> DirectCall:
        writes = route.override and route.override.on_write
        ruled = self._scripts[writes.script] if writes else script
        return DirectCall(
            (script.name, _bulks(script.sha)),
            (ruled.name, _bulks(ruled.sha)),
            route.fits,
            direct.takes,
            self._keys.index,
            _bulks(name.upper()) if direct.named else b"",
            len(_bulks(name)),
            direct.named - 2,
            writes or None,
            name.lower(),
            _bulks(*writes.what) if writes else b"",
        )


def _bulks(*words: bytes) -> bytes:
    return b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


@cache
def _number(number: int) -> bytes:
    """As a bulk string."""
    return _bulks(b"%d" % number)


_EVALSHA: Final = _bulks(b"EVALSHA")
_THREE: Final = _bulks(b"%d" % len(ON_ONE_KEY))
