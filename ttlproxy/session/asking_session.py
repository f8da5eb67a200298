"""A session that knows of no key whether something is due there: see core/knowledge.py."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar, Final

from ttlproxy.commands import READ_KEY, Route
from ttlproxy.core.knowledge import Asker
from ttlproxy.core.registry import Place
from ttlproxy.session.session import Routed, Session
from ttlproxy.session.step import Step
from ttlproxy.session.told import Stopping
from ttlproxy.wire import encode, whole

# A chunk that is longer may wait before it is sent.
_LONGEST: Final = 1 << 15


def _beyond(route: Route, args: Sequence[bytes]) -> list[Place]:
    """The places in other databases than its client's that a request writes to."""
    override = route.override
    db = override.other_db(args) if override else None
    return [(db, key) for key in override.targets(args)] if override and db is not None else []


class AskingSession(Session):
    """Redis tells whether something is due in the keys of a chunk: before its requests (`reads`),
    within the call that they become (`Step.stopping`), or to the link, for which they wait.

    may_stop: whether the next chunk may be such a call: who sends it sees to the rest
    """

    __slots__ = ("may_stop",)

    asks: ClassVar[bool] = True

    registry: Asker  # type: ignore[assignment]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.may_stop = False

    def reads(self, data: bytes) -> tuple[list[bytes], int] | None:
        """The keys of a chunk that `passes` has just refused, of those that may have deadlines, and
        how many requests it is, if it only reads; None for any other."""
        requests, rights = self._read, self.rights
        if requests is None or self._names_hidden or self._must_parse:
            return None
        if not (rights.trusts_schedules and rights.have_all(self.users)):
            return None
        passthrough, covers = self._passthrough, self.registry.families.covers
        keys = []
        try:
            for args in requests:
                if passthrough[args[0]] != READ_KEY:
                    return None
                if covers(key := args[1]):
                    keys.append(key)
        except (KeyError, IndexError):
            return None  # not in the table, or no key
        return (keys, len(requests)) if keys else None

    def doubted(self, data: bytes) -> list[Place]:
        """Redis would refuse this client the scripts. So its writes go on as they came where no
        index is, as in a session that knows all managed keys."""
        if self.stranger or (self.may_script() and self.may_watch()):
            return []
        requests = self._read or self._whole(data)
        find, keys = self._router.find, set[bytes]()
        for args in requests or ():
            route = find(args[0])
            if route.override and route.fits(len(args)):
                keys.update(route.override.keys(args))
                self.registry.reach(_beyond(route, args))
        return self.registry.doubted(keys)

    def learn_indexes(self, places: Iterable[Place], found: Collection[Place]) -> None:
        self.registry.learn_indexes(places, found)

    def _whole(self, data: bytes) -> list[list[bytes]] | None:
        """The requests of a chunk that begins and ends with a request, None for others."""
        return None if self._requests.pending or self._requests.relay else whole(data)

    def stopped(self, stopping: Stopping) -> bytes:
        """Such a call has ended: the requests that it has not carried out."""
        left = stopping.requests[stopping.reply.carried_out :]
        if left:
            setters, counts = self.script_calls.direct.setters, self._counts
            ours = sum(args[0] in setters for args in left)
            counts.virtual -= ours
            counts.rewritten -= len(left) - ours
            counts.by_rule -= (len(left) - ours) * stopping.by_rule
            self.script_calls.counts[stopping.script] -= len(left)
        return b"".join([encode(tuple(args)) for args in left])

    def from_client(self, data: bytes) -> Step:
        step = super().from_client(data)
        if self.transaction is None:
            self.registry.reach_no_more()
        self.registry.forget_indexes()
        return step

    def _may_stop(self, data: bytes) -> bool:
        return self.may_stop and self.rights.trusts_schedules and len(data) < _LONGEST

    def _reach(self, found: list[Routed]) -> None:
        """What requests write to other databases is asked of, too, until they have been handled, or
        their EXEC."""
        if not self.stranger:
            self.registry.reach(at for route, args, _, _ in found for at in _beyond(route, args))
