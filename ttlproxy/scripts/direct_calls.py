"""The fast path from requests to their script calls, for calls on one data key.

Nearly all requests of a command begin alike: another key and other elements follow. So what becomes
of one is remembered, and wire/core.py makes the calls of the others from their bytes. Requests that
need the same script become one call (lib/several.lua). One alone gives the same bytes as
`ScriptCalls.words`. Knows no session and no connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ttlproxy.commands import Direct, OnWrite, Route, Router, Virtual
from ttlproxy.core.keys import Keys
from ttlproxy.core.limits import REQUEST_WORDS_MAX
from ttlproxy.core.write_rules import RuleBook
from ttlproxy.scripts import ON_ONE_KEY, Script, Scripts
from ttlproxy.wire import Heads, Names, Part, Template, bulks, head_of, head_of_any

# Requests that one call may be for: meanwhile Redis serves nobody else, for 2 us each.
MOST_TOGETHER: Final = 128
_ORIGIN: Final = ("origin",)
# What is remembered, of so many databases: a new instant in each request is a new way to begin.
_MOST_HEADS: Final = 1024
_MOST_DATABASES: Final = 16
_LONGEST_HEAD: Final = 256


class ScriptPart(NamedTuple):
    """The form in which a request goes into a script call.

    template: the one for all requests of this form; part: the request's own words; elements_at: the
    position of its elements, as in `Call`
    """

    template: Template
    part: Part
    elements_at: int = 0


@dataclass(frozen=True, slots=True)
class DirectCall:
    """The way in which requests of one native command become calls.

    fits: whether Redis takes this number of words; takes: the requests that become such calls
    """

    fits: Callable[[int], bool]
    takes: Callable[[Sequence[bytes]], bool]
    _index: Callable[[bytes], bytes]
    _name: bytes
    _name_size: int  # as a bulk string
    _template: Template
    # Of a call by a rule of ONWRITE, whose words are behind the database and the rule.
    _on_write: OnWrite | None
    _ruled: Template

    def plain(self, args: Sequence[bytes], sent: bytes) -> ScriptPart:
        """Returns the part of a call that the request `args` becomes; `sent`: the request as
        `encode` returns it."""
        _, _, argv, words, *_ = self._template
        keys, tail = self._keys_and_tail(args, sent)
        return ScriptPart(self._template, (keys, words + len(args) - 2, argv + tail))

    def how(self, rules: RuleBook, databases: tuple[int, ...], key: bytes) -> bytes | None:
        """The rule of ONWRITE for such a request; None if none matches its key."""
        writes = self._on_write
        return writes and rules.how(databases, key, writes.type, writes.keeps)

    def ruled(self, args: Sequence[bytes], sent: bytes, database: bytes, how: bytes) -> ScriptPart:
        """Returns the same part for a key that this rule matches."""
        _, _, argv, words, *_ = self._ruled
        keys, tail = self._keys_and_tail(args, sent)
        origin = bulks(b"%b %b" % (database, self._name), how)
        return ScriptPart(self._ruled, (keys, words + len(args), origin + argv + tail))

    def _keys_and_tail(self, args: Sequence[bytes], sent: bytes) -> tuple[bytes, bytes]:
        """The names of key and index, and the bytes of all words behind the key."""
        key, words = args[1], len(args)
        data, index = b"$%d\r\n%b\r\n" % (len(key), key), self._index(key)
        head = 4 if words < 10 else len(b"*%d\r\n" % words)
        keys = b"%b$%d\r\n%b\r\n" % (data, len(index), index)
        return keys, sent[head + self._name_size + len(data) :]


@dataclass(frozen=True, slots=True)
class Setter:
    """The way in which requests of one of our commands, which sets deadlines, become calls."""

    _virtual: Virtual
    _index: Callable[[bytes], bytes]
    _shas: Mapping[str, bytes]  # of the scripts that are called here, by name

    def part(self, args: Sequence[bytes], db: bytes) -> ScriptPart | None:
        """Returns the part of a call that the request `args` becomes; None if it is refused, waits,
        or needs another call."""
        virtual = self._virtual
        if not virtual.fits(args) or virtual.waits(args) is not None:
            return None
        if len(args) > REQUEST_WORDS_MAX:
            return None
        call = virtual.call(args)
        sha = self._shas.get(call.script)
        if sha is None:
            return None
        first, *rest = call.argv
        argv = bulks(b"%b %b" % (db, first), *rest[:1])
        keys = bulks(args[1], self._index(args[1]))
        part = keys, len(call.argv), argv + bulks(*rest[1:])
        return ScriptPart((call.script, sha, argv, 2, b"", True, 0), part, call.elements_at)


class DirectCalls:
    """The commands that have a fast path, for the scripts as they are now: see `update`.

    writes: native ones; setters: our own. By name, in upper and in lower case
    names: as wire/core.py makes calls of them
    """

    __slots__ = ("_heads", "_keys", "_made_for", "_scripts", "names", "setters", "writes")

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = keys
        self._made_for: tuple[object, ...] = ()
        self._heads: dict[bytes, dict[bytes, int | Template]] = {}
        self.writes: Mapping[bytes, DirectCall] = {}
        self.setters: Mapping[bytes, Setter] = {}
        self.names = Names(keys.prefix, keys.all_words, bulks(keys.schedule))

    def update(self, router: Router) -> bool:
        """Whether there are any, which may have changed. None if Redis may not know the scripts, or
        if each slot of a Cluster has a schedule of its own."""
        scripts = self._scripts
        if not scripts.loaded or self._keys.clustered:
            return False
        if self._made_for != (scripts.traits, router):
            self._made_for = scripts.traits, router
            self._heads = {}
            self.writes = dict(self._made(router))
            shas = {
                script.name: bulks(script.sha)
                for script in scripts.values()
                if script.keys == ON_ONE_KEY and script.argv[:1] == _ORIGIN
            }
            self.setters = {
                name: Setter(route.virtual, self._keys.index, shas)
                for name, route in router.setters.items()
                if route.virtual
            }
        return True

    def heads(self, database: bytes) -> Heads:
        """Returns the known forms of requests of clients in this database, and what these
        became."""
        return self._heads.get(database, {})

    def remember(
        self,
        database: bytes,
        args: Sequence[bytes],
        became: ScriptPart,
        setter: Setter | None = None,
    ) -> None:
        """A request became this, and so do others that begin alike."""
        at, template = became.elements_at, became.template
        rest = args[3:] if at == 2 else args[2:at]
        heads = self._heads.get(database)
        if heads is None:
            if len(self._heads) >= _MOST_DATABASES:
                self._heads.clear()
            heads = self._heads[database] = {}
        head = head_of(len(args), args[0], rest)
        if (setter is not None and not at) or len(head) > _LONGEST_HEAD or head in heads:
            return  # it tells nothing of others, or nothing new
        if len(heads) >= _MOST_HEADS:
            heads.clear()
        if setter is None:
            heads[head] = template
            return
        heads[head_of(len(args), args[0], ())] = at
        any_head, number = head_of_any(len(args), args[0], rest)
        where = number + (3 if at == 2 else 2)
        if number < 0 or not (hole := _hole(setter, database, args, where, became)):
            heads[head] = template
        else:
            heads[any_head] = (*template[:6], hole)

    def _made(self, router: Router) -> Iterator[tuple[bytes, DirectCall]]:
        for name, route in router.direct.items():
            direct = route.override and route.override.direct
            if direct and (script := self._scripts[direct.script]).keys == ON_ONE_KEY:
                yield name, self._call(name, route, direct, script)

    def _call(self, name: bytes, route: Route, direct: Direct, script: Script) -> DirectCall:
        writes = route.override and route.override.on_write
        ruled = self._scripts[writes.script] if writes else script
        what = writes.what if writes else ()
        named = [name.upper()] if direct.named else []
        return DirectCall(
            route.fits,
            direct.takes,
            self._keys.index,
            name.lower(),
            len(bulks(name)),
            (script.name, bulks(script.sha), bulks(*named), len(named), direct.begin, False, 0),
            writes or None,
            (ruled.name, bulks(ruled.sha), bulks(*what), len(what), b"", False, 0),
        )


def _hole(
    setter: Setter, database: bytes, args: Sequence[bytes], where: int, became: ScriptPart
) -> int:
    """Where in ARGV the number at this position of a request goes, if any other with as many
    digits would go there, and change nothing else: the least and the largest do. Else 0."""
    number, (script, _, argv, *_) = args[where], became.template
    size, tried = len(number), list[tuple[bytes, bytes]]()
    for other in (b"1".ljust(size, b"0"), b"9" * size):
        found = setter.part([*args[:where], other, *args[where + 1 :]], database)
        if found is None or (found.template[0], found.elements_at) != (script, became.elements_at):
            return 0
        tried.append((other, found.template[2]))
    hole = argv.find(number)
    while hole > 0:
        if all(argv[:hole] + other + argv[hole + size :] == its for other, its in tried):
            return hole
        hole = argv.find(number, hole + 1)
    return 0
