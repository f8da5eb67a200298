"""A session with one of several masters: its requests come whole, and have been read already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ttlproxy.core.registry import Place
from ttlproxy.session.session import Session


class LaneSession(Session):
    """A client's requests on their way to one master of a Cluster."""

    __slots__ = ()

    skips_replies: ClassVar[bool] = False

    def may_be_indexed(self, args: Sequence[bytes]) -> list[Place]:
        """The keys of a request that may have an index; none of a command of ours."""
        route = self._router.find(args[0])
        if route.virtual:
            return []
        return [place for key in route.keys(args) for place in self.registry.places(key)]

    def passes_read(self, data: bytes, requests: list[list[bytes]]) -> bool:
        """`passes` for whole requests: `data` as they were sent, and their words."""
        if self._must_parse:
            return False
        named = self._hidden_begin in data and self._may_name_hidden(data, requests)
        if named or not self._pass_through(requests):
            return False
        self._counts.forwarded += len(requests)
        return True
