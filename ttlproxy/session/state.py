"""Where a client stands: what its requests so far mean for the next.

A request may fail, and its reply is never seen: what is known here is what may be so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ttlproxy.commands import Call
from ttlproxy.core.permissions import Rights
from ttlproxy.core.registry import Owner, Place, Registry
from ttlproxy.scripts.script_calls import Caller
from ttlproxy.scripts.unconfirmed import Claim, Flush, Users
from ttlproxy.session.effects import Effects
from ttlproxy.session.transaction import Transaction
from ttlproxy.wire import encode

# Users that one client tries to log in as, before those it tried first are forgotten.
_USERS_MAX = 8


class Wait(NamedTuple):
    """A request that waits until there is something for it.

    source: the list whose items it waits for; target: where they go; call: what takes one;
    limit_ms: it gives up after that, 0 for never
    """

    source: Place
    target: Place
    call: Call
    limit_ms: int


class State(Effects):
    """What is known of a client; and its effects, which inside MULTI are noted for EXEC.

    transaction: since MULTI; None outside
    database: as a script gets it; "?n" once a SELECT has passed, which may have failed
    resp: b"3" once the client has asked for that, which may have failed
    users: all that the client may be logged in as: what it tried may have failed
    quit: a QUIT is on its way, the client's or ours
    silent: CLIENT REPLY OFF or SKIP has passed, so a request may have no reply
    flushed: a SCRIPT FLUSH of its own has passed, and may be carried out at any time
    may_be_held: whether requests of the last chunk may wait for a reap before they go on
    modifies: whether a request of the last chunk may write when it is carried out
    look: the link has to look at what the last request did, and nothing behind it has been read
    behind_blocking: a blocking command has passed, whose reply may still be out
    stranger: the client has not logged in, and Redis refuses nearly all it asks; once an AUTH after
    a RESET has passed, which may have failed, it counts as logged in
    login: how many replies come before that to the last request, an AUTH or HELLO of a stranger;
    nothing behind it has been looked at
    replies: those owed to a stranger so far, all of one line; None after a RESET
    answered: those of them that are known to have come
    owed: what is withheld is an AUTH or HELLO, which waits until so many replies have come
    listens: SUBSCRIBE, its like, or MONITOR has passed: what others do is told to the client
    replicates: PSYNC or SYNC has passed, so that what Redis sends may be no replies
    wait: the last request waits, and nothing behind it has been looked at
    withheld: the bytes behind it, or behind an AUTH, or what is to be looked at
    """

    __slots__ = (
        "answered",
        "behind_blocking",
        "caller",
        "database",
        "flushed",
        "listens",
        "login",
        "look",
        "may_be_held",
        "modifies",
        "owed",
        "quit",
        "replicates",
        "replies",
        "resp",
        "rights",
        "silent",
        "stranger",
        "transaction",
        "users",
        "wait",
        "withheld",
    )

    def __init__(self, caller: Caller, registry: Registry, rights: Rights, owner: Owner) -> None:
        super().__init__(registry, owner)
        self.caller = caller
        self.rights = rights
        self.transaction: Transaction | None = None
        self.database = b"0"
        self.resp = b"2"
        self.users = {b"default"}
        self.quit = False
        self.silent = False
        self.behind_blocking = False
        self.listens = False
        self.replicates = False
        self.flushed = False
        self.may_be_held = False
        self.stranger = rights.asks_login
        self.replies: int | None = 0
        self.answered = 0

    def begin_step(self) -> None:
        super().begin_step()
        self.modifies = False
        self.owed: int | None = None
        self.login: int | None = None
        self.wait: Wait | None = None
        self.look = False
        self.withheld = b""

    @property
    def db(self) -> int:
        """The logical database that the client is believed to be in."""
        return int(self.database.lstrip(b"?"))

    @property
    def takes_effect_later(self) -> bool:
        """Whether a request may meet deadlines that nothing is known of when it is looked at.

        Of a silent client nobody can tell when its requests have been carried out.
        """
        return (
            self.transaction is not None
            or self.behind_blocking
            or self.owner.is_swamped
            or (self.silent and self.has_pinned)
        )

    def may_script(self) -> bool:
        """Whether a script that the client has not asked for can run for it."""
        return self.rights.may_script(self.users)

    def is_barred(self) -> bool:
        """Whether Redis may refuse the client any script."""
        return self.rights.are_barred(self.users)

    def may_watch(self) -> bool:
        """Whether the client may touch indexes."""
        return self.rights.may_watch(self.users)

    def tries(self, user: bytes) -> None:
        """The client logs in, and may be let in; as somebody new, whose rights are looked at."""
        if not self.rights.knows(user):
            self.claims(Users())
        if len(self.users) >= _USERS_MAX:
            self.users.clear()
        self.users.add(user)

    def encoded(self, call: Call) -> bytes:
        """A script call as a request of the client's."""
        by_text = self.flushed or self.transaction is not None
        return encode(self.caller.words(call, self.database, self.resp, by_text))

    def claims(self, claim: Claim) -> None:
        """A request is on its way that may change what all sessions share, at once or at EXEC."""
        if isinstance(claim, Flush):
            self.flushed = True
        if self.transaction is not None:
            self.transaction.claims.append(claim)
        else:
            self.caller.claims.note(claim, self.registry)
            self.look = True

    def changes(self) -> None:
        """A request may write, at once or at EXEC."""
        if self.transaction is not None:
            self.transaction.modifies = True
        else:
            self.modifies = True

    def defers(self, keys: Iterable[bytes], now_ms: int) -> None:
        """A request is about what is deferred for these keys, or will be."""
        places = list(map(self.caller.keys.later, keys))
        self.names(places, now_ms)
        self.manages((self.db, place) for place in places)

    # Effects: of a request that Redis queues they are done again when EXEC comes; and at once, too,
    # for it may have refused MULTI.

    def names(self, keys: Collection[bytes], now_ms: int) -> None:
        super().names(keys, now_ms)
        if self.transaction is not None:
            self.transaction.named.update(keys)

    def sees(self, databases: Iterable[int]) -> None:
        super().sees(databases)
        if self.transaction is not None:
            self.transaction.seen.update(databases)

    def manages(self, places: Iterable[Place]) -> None:
        if self.transaction is not None:
            places = list(places)
            self.transaction.managed.update(places)
        super().manages(places)

    def writes(self, keys: Iterable[bytes]) -> None:
        keys = list(keys)
        super().writes(keys)
        if self.transaction is not None:
            self.transaction.written.update(keys)

    def fills(self, keys: Iterable[bytes]) -> None:
        keys = list(keys)
        super().fills(keys)
        if self.transaction is not None:
            self.transaction.filled.update(keys)
