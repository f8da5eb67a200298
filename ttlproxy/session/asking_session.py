"""A session that knows only the keys that clients have named: see core/knowledge.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ttlproxy.commands import FIRST_ALONE, READ_KEY, Route
from ttlproxy.core.knowledge import Asker
from ttlproxy.core.registry import Place
from ttlproxy.session.session import Routed, Session
from ttlproxy.session.step import Step
from ttlproxy.wire import whole


def _beyond(route: Route, args: Sequence[bytes]) -> list[Place]:
    """The places in other databases than its client's that a request writes to."""
    override = route.override
    db = override.other_db(args) if override else None
    return [(db, key) for key in override.targets(args)] if override and db is not None else []


class AskingSession(Session):
    """Before its requests are looked at, what they name is to be learnt: see `unmet`."""

    __slots__ = ()

    looks_up: ClassVar[bool] = True

    registry: Asker  # type: ignore[assignment]

    def unmet(self, data: bytes) -> list[Place]:
        requests = self._read or self._whole(data)
        if requests is None:
            return []
        find, kinds, keys = self._router.find, self._passthrough, set[bytes]()
        setters = self._router.setters
        beyond: list[Place] = []
        try:
            for args in requests:
                if kinds.get(args[0]) in FIRST_ALONE or args[0] in setters:  # nearly all
                    keys.add(args[1])
                else:
                    route = find(args[0])
                    keys.update(route.keys(args))
                    beyond += _beyond(route, args)
        except IndexError:
            return []  # no key
        self._reach_to(beyond)
        found = self.registry.unknown(keys)
        if found:
            self._read = None
        return found

    def _whole(self, data: bytes) -> list[list[bytes]] | None:
        """The requests of a chunk that begins and ends with a request, None for others."""
        parts = self.stranger or self._requests.pending or self._requests.relay
        return None if parts else whole(data)

    def only_reads(self, data: bytes) -> tuple[list[bytes], int] | None:
        """The unknown keys of a chunk that `passes` has just refused, and how many requests it is,
        if it only reads, and nothing is known to be due there; None for any other."""
        requests, hidden = self._read, self._names_hidden
        if requests is None or hidden or self._must_parse or not self.rights.have_all(self.users):
            return None
        passthrough, bounds, now_ms = self._passthrough, self.registry.bounds, 0
        managed = self.registry.managed
        keys = []
        try:
            for args in requests:
                key = args[1]
                if passthrough[args[0]] != READ_KEY:
                    return None
                if key not in managed:
                    continue
                if key not in bounds:
                    keys.append(key)
                    continue
                now_ms = now_ms or self._now_ms()
                if bounds[key] < now_ms:
                    return None
        except (KeyError, IndexError):
            return None  # not in the table, or no key
        return (keys, len(requests)) if keys else None

    def from_client(self, data: bytes) -> Step:
        step = super().from_client(data)
        if self.transaction is None:
            self.registry.reach_no_more()
        return step

    def _reach(self, found: list[Routed]) -> None:
        self._reach_to([place for route, args, _, _ in found for place in _beyond(route, args)])

    def _reach_to(self, places: list[Place]) -> None:
        """These are asked of, too, until the requests have been handled, or their EXEC."""
        if places and not self.stranger:
            self.registry.reach(places)
