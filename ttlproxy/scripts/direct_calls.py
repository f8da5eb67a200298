"""The fast path from a request to its script call, for calls on one data key.

If the call ends with the words of a write, a new head is put before the bytes of the request,
instead of encoding all words anew. Gives the same bytes as `ScriptCalls.words`. Knows no session
and no connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ttlproxy.commands import Direct, OnWrite, Route, Router, Virtual
from ttlproxy.commands.model.spec import MOST_WORDS
from ttlproxy.core.keys import Keys
from ttlproxy.core.write_rules import RuleBook
from ttlproxy.scripts import Script, Scripts
from ttlproxy.wire import encode

# data, index and schedule: a script with other keys is not called here.
_KEYS: Final = ("data", "index", "schedule")
# EVALSHA, the SHA, the number of keys and the index, less the name of the request.
_OWN_WORDS: Final = 3
_COUNT: Final = b"%d" % len(_KEYS)
_ORIGIN: Final = ("origin",)


@dataclass(frozen=True, slots=True)
class DirectCall:
    """How requests of one command become calls.

    fits: whether Redis takes so many words; takes: the requests that become such calls
    script: its name; ruled_script: that of calls by a rule of ONWRITE
    """

    script: str
    ruled_script: str

    fits: Callable[[int], bool]
    takes: Callable[[Sequence[bytes]], bool]
    _index: Callable[[bytes], bytes]
    _head: bytes  # of the call, up to the data key
    _schedule: bytes  # the words between the index and those of the request
    _more: int  # words of the call that the request does not have
    _name: int  # bytes of the request's name
    # The same of a call by a rule of ONWRITE, whose words are behind the database and the rule.
    _on_write: OnWrite | None
    _ruled_head: bytes
    _ruled_name: bytes
    _ruled_schedule: bytes
    _ruled_what: bytes
    _ruled_more: int

    def encoded(self, args: Sequence[bytes], sent: bytes) -> bytes:
        """The call for the request `args`, which `encode` makes `sent` of."""
        return self._put_before(args, sent, self._head, self._schedule, self._more)

    def how(self, book: RuleBook, databases: tuple[int, ...], key: bytes) -> bytes | None:
        """The rule of ONWRITE for such a request; None if none matches its key."""
        writes = self._on_write
        return writes and book.how(databases, key, writes.type, writes.keeps)

    def ruled(self, args: Sequence[bytes], sent: bytes, database: bytes, how: bytes) -> bytes:
        """The same where this rule matches the key."""
        origin = b"%b %b" % (database, self._ruled_name)
        between = b"%b$%d\r\n%b\r\n$%d\r\n%b\r\n%b" % (
            self._ruled_schedule,
            len(origin),
            origin,
            len(how),
            how,
            self._ruled_what,
        )
        return self._put_before(args, sent, self._ruled_head, between, self._ruled_more)

    def _put_before(
        self, args: Sequence[bytes], sent: bytes, head: bytes, between: bytes, more: int
    ) -> bytes:
        words, key = len(args), args[1]
        index = self._index(key)
        data = b"$%d\r\n%b\r\n" % (len(key), key)
        size = b"*%d\r\n" % words
        return b"*%d\r\n%b%b$%d\r\n%b\r\n%b%b" % (
            words + more,
            head,
            data,
            len(index),
            index,
            between,
            sent[len(size) + self._name + len(data) :],
        )


@dataclass(frozen=True, slots=True)
class Setter:
    """How requests of one of our commands, which sets deadlines, become calls."""

    _virtual: Virtual
    _shas: Mapping[str, bytes]  # of the scripts that are called here
    _keys: Keys

    def encoded(self, args: Sequence[bytes], db: bytes) -> tuple[str, bytes] | None:
        """The script, and its call for the request `args`; None if that is refused, waits, or is no
        such call."""
        virtual = self._virtual
        if not virtual.fits(args) or len(args) > MOST_WORDS or virtual.waits(args) is not None:
            return None
        call = virtual.plan(args)
        script = call.script
        sha = self._shas.get(script)
        if sha is None:
            return None
        key, (first, *rest) = args[1], call.argv
        names = (key, self._keys.index(key), self._keys.schedule)
        words = (b"EVALSHA", sha, _COUNT, *names, b"%b %b" % (db, first), *rest)
        return script, encode(words)


class DirectCalls:
    """The commands that have a fast path, for the scripts as they are now: see `update`.

    writes: native ones; setters: our own. By name, in upper and in lower case
    """

    __slots__ = ("_keys", "_made_for", "_scripts", "setters", "writes")

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = keys
        self._made_for: tuple[object, ...] = ()
        self.writes: Mapping[bytes, DirectCall] = {}
        self.setters: Mapping[bytes, Setter] = {}

    def update(self, router: Router) -> bool:
        """Whether there are any, which may have changed. None if Redis may not know the scripts, or
        if each slot of a Cluster has a schedule of its own."""
        scripts = self._scripts
        if not scripts.loaded or self._keys.clustered:
            return False
        if self._made_for != (scripts.traits, router):
            self._made_for = scripts.traits, router
            self.writes = dict(self._made(router))
            shas = {
                script.name: script.sha
                for script in scripts.values()
                if script.keys == _KEYS and script.argv[:1] == _ORIGIN
            }
            self.setters = {
                name: Setter(route.virtual, shas, self._keys)
                for name, route in router.setters.items()
                if route.virtual
            }
        return True

    def _made(self, router: Router) -> Iterator[tuple[bytes, DirectCall]]:
        for name, route in router.direct.items():
            direct = route.override and route.override.direct
            if direct and (script := self._scripts[direct.script]).keys == _KEYS:
                yield name, self._call(name, route, direct, script)

    def _call(self, name: bytes, route: Route, direct: Direct, script: Script) -> DirectCall:
        before = (self._keys.schedule, name.upper()) if direct.named else (self._keys.schedule,)
        writes = route.override and route.override.on_write
        what = writes.what if writes else ()
        ruled_sha = self._scripts[writes.script].sha if writes else b""
        return DirectCall(
            direct.script,
            writes.script if writes else "",
            route.fits,
            direct.takes,
            self._keys.index,
            _bulks(b"EVALSHA", script.sha, _COUNT),
            _bulks(*before),
            _OWN_WORDS + len(before),
            len(_bulks(name)),
            writes or None,
            _bulks(b"EVALSHA", ruled_sha, _COUNT),
            name.lower(),
            _bulks(self._keys.schedule),
            _bulks(*what),
            _OWN_WORDS + 3 + len(what),
        )


def _bulks(*words: bytes) -> bytes:
    return b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
