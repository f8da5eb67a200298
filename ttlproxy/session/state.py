"""A client's state: what its requests so far mean for the next one.

Between a request and its reply the state says what may be true. Some replies are never known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import ClassVar, Final

from ttlproxy.commands import Call, Route
from ttlproxy.core.cluster_view import Reached
from ttlproxy.core.permissions import DEFAULT_USER, Rights
from ttlproxy.core.registry import DbKey, RegistryView
from ttlproxy.scripts.script_calls import ScriptCalls
from ttlproxy.scripts.unconfirmed import Flush, UnconfirmedChange, Users
from ttlproxy.session.effects import Effects
from ttlproxy.session.replies import (
    ERRORS,
    Candidates,
    Declared,
    Tell,
    Told,
    V,
)
from ttlproxy.session.sharing import introduction
from ttlproxy.wire import encode

_AT_FIRST: Final = frozenset({DEFAULT_USER})
NOT_ASKED: Final[Mapping[bytes, bool]] = {}
_NOTHING: Final[Mapping[bytes, bytes]] = {}


class SessionState(Effects):
    """The state of a client.

    databases: the databases that the client may be in, the likeliest first: a SELECT may be refused
    database: the same in the form that scripts get, such as "?3,0"; without a mark if it is certain
    resp: b"3" after a HELLO 3, which may be refused
    users: all users that the client may be logged in as; a login may be refused
    tracks: Redis may track which keys the client reads, because it caches them (CLIENT TRACKING)
    standing: the last request, if it only concerns the next one, which would go wrong without it
    skips_replies: requests of ours may stand among the client's
    quit: a QUIT was sent, the client's or ours
    silent: CLIENT REPLY OFF or SKIP has passed, so a request may have no reply
    flushed: the client's own SCRIPT FLUSH has passed, and may be carried out at any time
    may_be_held: whether requests of the last chunk may wait for a reap before they are sent
    behind_blocking: a blocking command has passed, and its reply may still be outstanding
    blocks_at: how many requests of the last chunk come before the first blocking command; None
    without
    unauthenticated: the client has not logged in, so Redis refuses nearly all its requests;
    `resets`: the reason is a RESET without a reply yet, which may be refused
    ours: a command of ours that goes before the last request, and the function that takes its reply
    tells, confirmations: of the current request, the functions that take its reply, and how many
    confirmations it has
    introduced: the client's name and library, as `sharing.introduction` gives them
    uncounted: a request may have no reply, or several
    owes(): whether Redis owes replies to earlier chunks
    hides: replies to commands of ours may be outstanding, or may be part of EXEC's
    listens: SUBSCRIBE, its variants or MONITOR has passed: Redis sends what other clients do
    replicates: PSYNC or SYNC has passed, so what Redis sends may be no replies
    by_rule: the last request that was rewritten writes by a rule of ONWRITE
    indexed: the answers about `Step.asks`, key -> whether it has an index
    unindexed: the slot of the next request is moving, and none of its keys has an index
    """

    __slots__ = (
        "_databases",
        "_tracking",
        "_users",
        "behind_blocking",
        "blocks_at",
        "by_rule",
        "confirmations",
        "database",
        "databases",
        "flushed",
        "hides",
        "indexed",
        "introduced",
        "listens",
        "may_be_held",
        "ours",
        "owes",
        "quit",
        "reached",
        "replicates",
        "resets",
        "resp",
        "rights",
        "script_calls",
        "silent",
        "standing",
        "tells",
        "tracks",
        "unauthenticated",
        "uncounted",
        "unindexed",
        "users",
    )

    skips_replies: ClassVar[bool] = True

    def __init__(
        self,
        script_calls: ScriptCalls,
        registry: RegistryView,
        rights: Rights,
        owes: Callable[[], bool],
        reached: Reached | None = None,
    ) -> None:
        super().__init__(registry)
        self.owes = owes
        self.reached = reached
        self.script_calls = script_calls
        self.rights = rights
        self._databases = Candidates(0)
        self._users = Candidates(DEFAULT_USER)
        self.databases: tuple[int, ...] = (0,)
        self.database = b"0"
        self.resp = b"2"
        self.users: Set[bytes] = _AT_FIRST
        self._tracking: Candidates[bool] | None = None  # few clients need it
        self.tracks = False
        self.standing = b""
        self.quit = False
        self.silent = False
        self.behind_blocking = False
        self.blocks_at: int | None = None
        self.by_rule = False
        self.listens = False
        self.replicates = False
        self.flushed = False
        self.may_be_held = False
        self.unauthenticated = rights.asks_login
        self.resets = False
        self.uncounted = False
        self.hides = False
        self.ours: tuple[bytes, Tell] | None = None
        self.tells: list[Tell] = []
        self.confirmations = 0
        self.introduced: Mapping[bytes, bytes] = _NOTHING
        self.indexed: Mapping[bytes, bool] = NOT_ASKED
        self.unindexed = False

    def must_ask(self, keys: Iterable[bytes]) -> bool:
        """Whether it must first be looked up whether these keys have an index. Only for clients
        whose requests scripts may not replace."""
        places = [place for key in keys for place in self.registry.places(key)]
        # All keys of a request at once, because the next answer replaces the last one.
        self.step.asks = places if any(key not in self.indexed for _, key in places) else ()
        self.step.is_unsent = bool(self.step.asks)
        return self.step.is_unsent

    @property
    def db(self) -> int:
        """The logical database that the client is believed to be in."""
        return self.databases[0]

    @property
    def user(self) -> bytes:
        """The user that Redis has last let the client log in as; empty before a login."""
        return b"" if self.unauthenticated else self._users.values[-1]

    def introduces(self, words: Sequence[bytes]) -> None:
        """Notes what the client says of itself, if this request is of that kind."""
        if said := introduction(words):
            self.introduced = {**self.introduced, **said}

    def tell(self, tell: Callable[[bytes], None]) -> None:
        """Has `tell` called with the first line of the reply to this request, if that is ever
        known."""

        def told(line: bytes | None) -> bool:
            if line is not None:
                tell(line)
            return True

        self.tells.append(told)

    def logs_in(self, line: bytes) -> None:
        """Takes the first line of the reply to the AUTH or HELLO of an unauthenticated client."""
        self.unauthenticated = line[0] in ERRORS

    def selects(self, db: int) -> None:
        """Notes that a request may bring the client into this database, or leave it where it is."""
        self._tries(self._databases, db, self._know_databases)

    def _know_databases(self) -> None:
        known = self._databases.values
        if self.databases != known:
            self.databases = known
            several = b"?" + b",".join(b"%d" % db for db in known)
            self.database = several if len(known) > 1 else b"%d" % known[0]
            self.registry.select(known)

    @property
    def caches(self) -> bool:
        """Whether the client has ever sent CLIENT TRACKING, so that it may cache what it reads."""
        return self._tracking is not None

    def may_track(self, tracks: bool) -> None:
        """Notes that a request may make Redis track what the client reads, or end that."""
        if self._tracking is None:
            self._tracking = Candidates(False)
        self._tries(self._tracking, tracks, self._know_tracking)

    def _know_tracking(self) -> None:
        assert self._tracking is not None
        self.tracks = any(self._tracking.values)

    def _tries(self, candidates: Candidates[V], value: V, know: Callable[[], None]) -> None:
        """Notes that a request may set this value; its reply tells, if MULTI does not queue it."""
        if self.transaction is not None:
            candidates.may_be(value)
        else:
            candidates.tries(value)

            def told(line: bytes | None) -> bool:
                candidates.answered(line)
                know()
                return True

            self.tells.append(told)
        know()

    @property
    def takes_effect_later(self) -> bool:
        """Whether a request may meet deadlines that are set after the session has read it.

        A silent client gets no replies, so it is unknown when its requests are carried out.
        """
        is_read_later = self.transaction is not None or self.behind_blocking
        return is_read_later or (self.silent and bool(self.registry.families))

    @property
    def waits_in_redis(self) -> bool:
        """Whether a request may stand behind a blocking one that has no reply yet."""
        return self.behind_blocking and (self.blocks_at is not None or self.owes())

    def may_script(self) -> bool:
        """Whether a script that the client did not call itself can run for it."""
        return self.rights.may_script(self.users)

    def may_watch(self) -> bool:
        """Whether the client may touch indexes."""
        return self.rights.may_watch(self.users)

    def tries(self, user: bytes) -> None:
        """Notes a login; the link looks up the rights of a user that is not known."""
        if not self.rights.knows(user):
            self.may_change(Users())
        self._tries(self._users, user, self._know_users)

    def _know_users(self) -> None:
        self.users = frozenset(self._users.values)

    def encoded(self, call: Call, *, denies_oom: bool = False) -> bytes:
        """Returns a script call as a request, for the client's database and RESP version.
        `denies_oom`: it stands for a command with the flag `denyoom`."""
        in_transaction = self.transaction is not None
        by_text = self.flushed or in_transaction
        careful = not self.rights.have_all(self.users)
        words = self.script_calls.words
        if in_transaction and self.skips_replies and not careful:
            self.declare(call, denies_oom)
        needs = denies_oom if in_transaction else None
        return encode(words(call, self.database, self.resp, by_text, careful, needs))

    def declare(self, call: Call, denies_oom: bool) -> None:
        """Tells Redis what a queued script needs that cannot declare it itself, if Redis was not
        told before."""
        transaction = self.transaction
        assert transaction is not None
        declared = transaction.declared
        if declared is not None and (declared.denies_oom or not denies_oom):
            return
        command = self.script_calls.declaration(call, denies_oom)
        if command is None or self.uncounted:
            return
        declared = transaction.declared = declared or Declared()
        declared.denies_oom = denies_oom
        self.ours, self.hides = (encode(command), declared.ours), True

    def may_change(self, change: UnconfirmedChange) -> None:
        """Notes that a request may change what all sessions share, at once or at EXEC."""
        if isinstance(change, Flush):
            self.flushed = True
        if self.transaction is not None:
            self.transaction.unconfirmed.append(change)
        else:
            self.script_calls.unconfirmed.note(change, self.registry)
            self.step.look = True

    def changes(self) -> None:
        """Notes that a request may write, at once or at EXEC."""
        if self.transaction is not None:
            self.transaction.modifies = True
        else:
            self.step.modifies = True

    def defers(self, keys: Iterable[bytes], now_ms: int, *, changes: bool) -> None:
        """Notes that a request reads or changes the commands that are deferred for these keys."""
        places = list(map(self.script_calls.keys.deferred, keys))
        self.note_named(places, now_ms)
        if changes:
            self.manages((self.db, place) for place in places)

    def hide(self, tell: Tell) -> None:
        """Counts a request of ours that goes to Redis; `tell` takes its reply, which the client
        does not get."""
        self.step.told.append(Told(self.step.requests, tell))
        self.step.requests += 1

    def reads_of(self, keys: Iterable[bytes]) -> bytes:
        """Returns a request of ours that reads the indexes of these keys."""
        return encode((b"EXISTS", *map(self.script_calls.keys.index, keys)))

    def note_standing(self, route: Route, args: Sequence[bytes]) -> None:
        """Notes a request that only concerns the next one. If a request of ours came between the
        two, it would use it up, so it is then repeated."""
        if route.name == "ASKING":
            self.standing = encode(tuple(args))
        elif route.name != "CLIENT" and self.transaction is None:
            self.standing = b""

    def manages(self, places: Iterable[DbKey]) -> None:
        """Notes that a request may give these keys deadlines."""
        places = list(places)
        if places:
            self.registry.manages({db for db, _ in places})
        if self.transaction is not None:
            self.transaction.managed.update(places)
        self.must_be_sure(place for place in places if not self.may_set_deadline(place[1]))

    def may_set_deadline(self, key: bytes) -> bool:
        """Whether a request may give this key deadlines now: all proxies know its family, and the
        state that they share is stored."""
        calls = self.script_calls
        return bool(calls.has_state) and calls.families.are_sure(key)
