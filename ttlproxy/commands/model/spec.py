"""What a command is, as data. Knows grammar and script names; knows no session and no Redis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Final, NamedTuple, TypeAlias

from ttlproxy.commands.model.key_positions import FIRST, KeySpec


class Call(NamedTuple):
    """A script call that a request becomes: which script, on which data keys, with which words.

    A script whose header names `db` first gets it from the caller, and `argv` begins after it; one
    that names `origin` gets the database put before the first of `argv`, and one that names
    `section` first gets what the proxy says of itself, one that names `resp` the RESP version.
    """

    script: str
    keys: Sequence[bytes]
    argv: Sequence[bytes]


# Of one virtual command, the name counted: a script holds Redis up for a second with so many, and
# for longer with more.
MOST_WORDS: Final = 200_000

Plan: TypeAlias = Callable[[Sequence[bytes]], Call]
"""Makes the call of a request whose arity is right."""


@dataclass(frozen=True, kw_only=True)
class Virtual:
    """A command that Redis does not have.

    name: in upper case; forms: the arguments of each form, as `redis-cli help` shows them; plan:
    makes the call of a request whose arity is right; no_form_has: a number of words between the
    forms, which is wrong; open_ended: words too many are the plan's to refuse; example: lines typed
    in redis-cli one after the other on an empty database, each with its reply; sets_deadlines: it
    may make a key managed, its word `target`; dialect: the server whose command it is, if it is not
    our own; only_ours: the requests that no server takes which has a command of that name;
    positions: of its keys; integers: arguments that are, though others of
    their name are not; waits: the ms after which a request gives up that waits for an item in
    the list at its first key, 0 for never, None where it does not wait; of_deferred: it is about
    what is deferred for its key; tells_all: all proxies are told of what it changes.
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
    sets_deadlines: bool = False
    target: int = 1
    no_form_has: int = 0
    open_ended: bool = False
    dialect: str = ""
    only_ours: Callable[[Sequence[bytes]], bool] | None = None
    positions: tuple[KeySpec, ...] = (FIRST,)
    of_deferred: bool = False
    waits: Callable[[Sequence[bytes]], int | None] = lambda args: None
    tells_all: bool = False
    integers: tuple[str, ...] = ()

    @cached_property
    def min_words(self) -> int:
        """Words of the shortest form, the name counted."""
        return 1 + min(_least_words(form) for form in self.forms)

    @cached_property
    def max_words(self) -> float:
        """Words of the longest form, the name counted."""
        if self.open_ended:
            return inf
        return 1 + max(_most_words(form) for form in self.forms)

    def fits(self, words: int) -> bool:
        """Whether a request of so many words, the name counted, has the right arity."""
        return self.min_words <= words <= self.max_words and words != self.no_form_has


@dataclass(frozen=True, kw_only=True)
class Override:
    """A command of Redis that has to do more where a key of it is managed.

    plan: makes the call, of a request whose arity is right; keys: the data keys that call for it if
    one of them is managed, none where it is to go on as it came; targets: keys that may become
    managed by it, in `target_db`, or the client's own where that is None; takes: whether a script
    can carry the request: another is reaped, goes on as it came, and is swept; needed_later: it is
    also needed where a key may become managed before the request is carried out; always: whether
    the request is ours though no key of it is managed; governed: it is also where ONEXPIRE has a
    rule for such a key; swept: keys that are swept afterwards, for they may have no index any
    more, or take one over as it is, with what nobody has swept from it yet.
    """

    name: str
    plan: Plan
    keys: Callable[[Sequence[bytes]], Sequence[bytes]]
    targets: Callable[[Sequence[bytes]], Sequence[bytes]] = lambda args: ()
    target_db: Callable[[Sequence[bytes]], int | None] = lambda args: None
    takes: Callable[[Sequence[bytes]], bool] = lambda args: True
    needed_later: bool = True
    always: Callable[[Sequence[bytes]], bool] | None = None
    governed: bool = False
    swept: Callable[[Sequence[bytes]], Sequence[bytes]] = lambda args: ()


@dataclass(frozen=True, kw_only=True)
class Survey:
    """A command of Redis that looks over all keys, or over the commands or the server as a whole.

    plan: makes the call of a request whose arity is right, or other words to be sent in its place;
    None where it goes on as it came; of_keys: it sees keys, so all that is due has to be gone;
    heard: its script repeats what the link has heard from ACL CAT, which not every client may ask;
    counts: its script subtracts the proxy's own keys, which not every client may read.
    """

    name: str
    plan: Callable[[Sequence[bytes]], Call | tuple[bytes, ...] | None]
    of_keys: bool = False
    heard: bool = False
    counts: bool = False


def _most_words(form: str) -> float:
    """Words of a form whose brackets hold one word each; no limit where one may be repeated."""
    return inf if "..." in form else len(form.split())


def _least_words(form: str) -> int:
    """Words of a form without what stands in brackets."""
    words = depth = 0
    for word in form.split():
        words += not (depth or word.startswith("["))
        depth += word.count("[") - word.count("]")
    return words
