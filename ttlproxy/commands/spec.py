"""A command as data, and the positions of its keys, as key specifications like those of Redis 7.

Knows script names; knows no session and no Redis, and no command by name: those are in the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Final, NamedTuple, TypeAlias

from ttlproxy.commands.parsing import NO_TIME, Refused, Time

Args = Sequence[bytes]

READ: Final = "RO"
CHANGED: Final = "RW"
FILLED: Final = "RW insert"
REMOVED: Final = "RM"
REPLACED: Final = "OW"
WRITTEN: Final = frozenset({CHANGED, FILLED, REMOVED, REPLACED})


@dataclass(frozen=True, slots=True)
class KeySpec:
    """Some of a request's keys.

    access: READ, CHANGED, FILLED (changed by new elements), REMOVED or REPLACED
    index: the word to begin at; with `keyword` the first word that may be it: begin after it
    last: the last key, counted from the beginning; if negative, from the end of the request
    step: from one key to the next
    limit: if not 0, the words that are left have this number of equal parts, and the keys are the
    first
    count_at: if not negative, this word, counted from the beginning, has the number of keys, which
    begin `first` words after the beginning
    """

    access: str
    index: int = 1
    last: int = 0
    step: int = 1
    keyword: bytes = b""
    limit: int = 0
    count_at: int = -1
    first: int = 0

    def words(self, args: Args) -> list[bytes]:
        """Returns the keys; if the keyword occurs twice, those after both."""
        if not self.keyword:
            return self._from(self.index, args)
        start = max(self.index if self.index > 0 else 1, 1)
        return [
            key
            for at in range(start, len(args))
            if args[at].upper() == self.keyword
            for key in self._from(at + 1, args)
        ]

    def _from(self, begin: int, args: Args) -> list[bytes]:
        if self.count_at >= 0:
            stop = begin + self.first + self.step * _count(args, begin + self.count_at)
        elif self.last >= 0:
            stop = begin + self.last + 1
        elif self.limit > 1:
            stop = begin + (len(args) - begin) // self.limit + self.last + 1
        else:
            stop = len(args) + self.last + 1
        return list(args[begin + self.first : stop : self.step])


Positions: TypeAlias = tuple[KeySpec, ...] | None
"""All keys of a command; None if they are not known, so that any word may be one."""

FIRST: Final = KeySpec(CHANGED)
FIRST_READ: Final = KeySpec(READ)


def _count(args: Args, at: int) -> int:
    """Returns a number of keys; 0 if Redis will refuse it."""
    word = args[at] if at < len(args) else b""
    return int(word) if word.isdigit() and len(word) < 10 else 0


def _counted(access: str, index: int) -> KeySpec:
    """Returns the specification of `numkeys key ...`."""
    return KeySpec(access, index, count_at=0, first=1)


def _store(keyword: bytes, index: int) -> KeySpec:
    return KeySpec(REPLACED, index, keyword=keyword)


_SORT = (KeySpec(READ), _store(b"STORE", 2))
_SCRIPT = (_counted(CHANGED, 2),)
_COMBINE = (_counted(READ, 1),)
_COMBINE_STORE = (KeySpec(REPLACED), _counted(READ, 2))
_FROM_TO = (KeySpec(CHANGED), KeySpec(FILLED, 2))

# For BLMOVE and BRPOPLPUSH, this says which key gets elements. Redis 6.2, and 7.0 for some, says
# only "movablekeys" of the others. The keys that SORT's patterns name are not known.
KNOWN: Final[dict[str, tuple[KeySpec, ...]]] = {
    "BLMOVE": _FROM_TO,
    "BRPOPLPUSH": _FROM_TO,
    "SORT": _SORT,
    "SORT_RO": (KeySpec(READ),),
    "GEORADIUS": (KeySpec(READ), _store(b"STORE", 6), _store(b"STOREDIST", 6)),
    "GEORADIUSBYMEMBER": (KeySpec(READ), _store(b"STORE", 5), _store(b"STOREDIST", 5)),
    "MIGRATE": (KeySpec(CHANGED, 3), KeySpec(CHANGED, 6, last=-1, keyword=b"KEYS")),
    "XREAD": (KeySpec(READ, 1, last=-1, keyword=b"STREAMS", limit=2),),
    "XREADGROUP": (KeySpec(READ, 4, last=-1, keyword=b"STREAMS", limit=2),),
    "EVAL": _SCRIPT,
    "EVALSHA": _SCRIPT,
    "ZUNION": _COMBINE,
    "ZINTER": _COMBINE,
    "ZDIFF": _COMBINE,
    "ZUNIONSTORE": _COMBINE_STORE,
    "ZINTERSTORE": _COMBINE_STORE,
    "ZDIFFSTORE": _COMBINE_STORE,
    "STRALGO": (KeySpec(READ, 2, last=1, keyword=b"KEYS"),),
    "MEMORY": (KeySpec(READ, 1, keyword=b"USAGE"),),
}


class Call(NamedTuple):
    """A script call that a request becomes: the script, its data keys and its arguments.

    ScriptCalls adds one word if the script's header names it first in ARGV: `db` the database,
    `resp` the RESP version, `section` INFO's section about the proxy; `argv` begins after that
    word. For `origin` it puts the database and a blank before the first word of `argv`.

    elements_at: if not 0, `argv` is two words and the elements, which end the request from this
    position on, and the call depends only on their number; 2: there is one element, at position 2,
    and more words follow it
    """

    script: str
    keys: Sequence[bytes]
    argv: Sequence[bytes]
    elements_at: int = 0


Plan: TypeAlias = Callable[[Sequence[bytes]], Call]
"""Makes the call for a request whose arity is right."""


def refusal(name: str, text: bytes, time: Time = NO_TIME) -> Call:
    """Returns a call that gives this error, or before it that of a time beyond all limits."""
    return Call("refuse", (), (name.lower().encode(), *time, text))


def _never(args: Sequence[bytes]) -> int | None:
    return None


def _takes_all(args: Sequence[bytes]) -> bool:
    return True


def _takes_none(args: Sequence[bytes]) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class Virtual:
    """A command that Redis does not have.

    name: in upper case
    forms: the arguments of each form, as `redis-cli help` shows them
    plan: makes the call for a request whose arity is right. Raises Refused
    refuses: the script that then gives the error; all but `refuse` look at the key's type first
    example: lines typed in redis-cli one after the other on an empty database, each with its reply
    sets_deadlines: whether it may make the key at word `target` managed
    fits_no_form: whether a request has a number of words that fits none of the forms, though it is
    between those of the shortest and of the longest
    open_ended: whether the plan itself refuses too many words
    dialect: the server whose command it is, "" for our own
    only_ours: the requests that we handle even if the server has this command, because it rejects
    their syntax
    positions: those of its keys
    of_deferred: whether it reads or changes what is deferred for its key
    waits: how many ms a request waits for an item in the list at its first key, 0 without limit,
    None if it does not wait
    tells_all: whether it announces its change to all proxies
    integers: names of arguments that are integers here, but not in all commands
    hint: one form in place of all, for hints while a user types, if no form says enough
    """

    name: str
    summary: str
    group: str
    forms: tuple[str, ...]
    reply: str
    complexity: str
    since: str
    plan: Plan
    example: tuple[tuple[str, str], ...]
    refuses: str = "refuse"
    sets_deadlines: bool = False
    target: int = 1
    fits_no_form: Callable[[Sequence[bytes]], bool] = _takes_none
    open_ended: bool = False
    dialect: str = ""
    only_ours: Callable[[Sequence[bytes]], bool] | None = None
    positions: tuple[KeySpec, ...] = (FIRST,)
    of_deferred: bool = False
    waits: Callable[[Sequence[bytes]], int | None] = _never
    tells_all: bool = False
    integers: tuple[str, ...] = ()
    hint: str = ""

    @property
    def hinted(self) -> tuple[str, ...]:
        """The forms for COMMAND DOCS."""
        return (self.hint,) if self.hint else self.forms

    @property
    def may_wait(self) -> bool:
        """Whether there are requests that wait for an item."""
        return self.waits is not _never

    @property
    def reads(self) -> bool:
        """Whether it only reads its keys; False if it has none."""
        return bool(self.positions) and all(spec.access == READ for spec in self.positions)

    @property
    def denies_oom(self) -> bool:
        """Whether it is refused when Redis's memory is full: it adds elements or deadlines."""
        return self.sets_deadlines or FILLED in {spec.access for spec in self.positions[:1]}

    @property
    def sets_own_key(self) -> bool:
        """Whether it may make its first key managed, and does nothing to other keys."""
        others = self.of_deferred or self.tells_all or self.positions != (FIRST,)
        return self.sets_deadlines and self.target == 1 and not others

    @cached_property
    def min_words(self) -> int:
        """The number of words of the shortest form, including the name."""
        return 1 + min(_least_words(form) for form in self.forms)

    @cached_property
    def max_words(self) -> float:
        """The number of words of the longest form, including the name; inf without limit."""
        if self.open_ended:
            return inf
        return 1 + max(_most_words(form) for form in self.forms)

    def call(self, args: Sequence[bytes]) -> Call:
        """Returns the call for a request whose arity is right; a malformed one gets its error."""
        try:
            return self.plan(args)
        except Refused as refused:
            call = refusal(self.name, refused.text, refused.time)
            if self.refuses == call.script:
                return call
            return call._replace(script=self.refuses, keys=(args[1],))

    def fits(self, args: Sequence[bytes]) -> bool:
        """Whether a request has the right arity."""
        return self.min_words <= len(args) <= self.max_words and not self.fits_no_form(args)


class Direct(NamedTuple):
    """The fast path of an override: it calls `script` on its first argument, a key, and passes all
    further words on as they came.

    named: whether the command's name in upper case comes before these words
    takes: the requests for which that is right, by the number of their words, and if `begin` is not
    empty, if their word after the key begins with one of these bytes
    """

    script: str
    named: bool
    takes: Callable[[Sequence[bytes]], bool] = _takes_all
    begin: bytes = b""


class OnWrite(NamedTuple):
    """The script call in place of a command that writes elements, if a rule of ONWRITE matches the
    key.

    type: of the key, in Redis's words
    keeps: whether existing elements keep their deadlines, unless the rule says REFRESH
    script: it gets the name of the command, the rule (`WriteRule.how`), `what`, and the words of
    the request after the key
    parted: returns the script and these last words for commands whose requests differ
    """

    type: bytes
    keeps: bool
    script: str
    what: tuple[bytes, ...] = ()
    parted: Callable[[Sequence[bytes]], tuple[str, Sequence[bytes]]] | None = None

    def plan(self, args: Sequence[bytes], how: bytes) -> Call:
        """Returns the call for a request, by a rule."""
        script, words = self.parted(args) if self.parted else (self.script, (*self.what, *args[2:]))
        return Call(script, args[1:2], (args[0].lower(), how, *words))


@dataclass(frozen=True, kw_only=True)
class Override:
    """A command of Redis that must do more if one of its keys is managed.

    plan: makes the call for a request whose arity is right
    keys: the script is needed if one of these data keys is managed
    targets: keys that it may make managed, in `other_db`
    takes: whether a script can do the request; if not, its keys are reaped, the request is passed
    on unchanged, and the keys are swept
    needed_later: whether the script is also needed if a key may become managed before the request
    is executed
    always: whether the script is needed even if no key is managed
    is_native: whether the server has the command itself, and it sets deadlines: the script is
    needed if ONEXPIRE has a rule for one of the keys, and otherwise leaves it to the server
    swept: keys to sweep afterwards: one may have lost its index, or inherited one, stale entries
    included
    direct: its fast path, if it has one
    on_write: what it becomes if a rule of ONWRITE matches its key, for all commands that write
    elements
    only_ruled: whether that is the only script that it needs
    with_rule: for a command that moves an element, its plan if a rule of ONWRITE matches the target
    filled: keys that get elements which the script does not give deadlines by such a rule: the link
    does so soon after
    """

    name: str
    plan: Plan
    keys: Callable[[Sequence[bytes]], Sequence[bytes]]
    targets: Callable[[Sequence[bytes]], Sequence[bytes]] = lambda args: ()
    target_db: Callable[[Sequence[bytes]], int | None] | None = None
    takes: Callable[[Sequence[bytes]], bool] = _takes_all
    needed_later: bool = True
    always: Callable[[Sequence[bytes]], bool] | None = None
    is_native: bool = False
    swept: Callable[[Sequence[bytes]], Sequence[bytes]] = lambda args: ()
    direct: Direct | None = None
    on_write: OnWrite | None = None
    only_ruled: bool = False
    with_rule: tuple[bytes, Callable[[Sequence[bytes], bytes], Call]] | None = None
    filled: Callable[[Sequence[bytes]], Sequence[bytes]] = lambda args: ()

    def other_db(self, args: Sequence[bytes]) -> int | None:
        """Returns the database of the targets, if a request names one and the script can do it;
        None if they are in the client's."""
        return self.target_db(args) if self.target_db and self.takes(args) else None

    @property
    def may_run_unmanaged(self) -> bool:
        """Whether the script may be needed for keys that are not managed."""
        return self.always is not None or self.is_native


@dataclass(frozen=True, kw_only=True)
class Survey:
    """A command of Redis about all keys, all commands or the server as a whole.

    plan: makes the call for a request whose arity is right, or other words to send in its place;
    None: the request is passed on unchanged
    of_keys: whether it sees keys, so that all that is due must be gone
    heard: whether its script repeats what the link has read by ACL CAT, which not every client may
    call
    counts: whether its script subtracts the proxy's own keys, which not every client may read
    of_proxy: whether its script is also called with the nodes that clients of a Cluster find: the
    proxy
    """

    name: str
    plan: Callable[[Sequence[bytes]], Call | tuple[bytes, ...] | None]
    of_keys: bool = False
    heard: bool = False
    counts: bool = False
    of_proxy: bool = False


def _most_words(form: str) -> float:
    """Returns the number of words of a form if each bracket holds one; inf if one may be
    repeated."""
    return inf if "..." in form else len(form.split())


def _least_words(form: str) -> int:
    """Returns the number of words of a form without those in brackets."""
    words = depth = 0
    for word in form.split():
        words += not (depth or word.startswith("["))
        depth += word.count("[") - word.count("]")
    return words
