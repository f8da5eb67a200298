"""A session with one of several masters: its requests come whole, and have been read already."""

from __future__ import annotations

from ttlproxy.commands import Call
from ttlproxy.session.session import Session


class LaneSession(Session):
    """A client's requests on their way to one master of a Cluster."""

    __slots__ = ()

    def declare(self, call: Call, denies_oom: bool) -> None:
        """Says nothing: a lane hides no reply."""

    def passes_read(self, data: bytes, requests: list[list[bytes]]) -> bool:
        """`passes` for whole requests: `data` as they were sent, and their words."""
        if self._must_parse:
            return False
        named = self._hidden_begin in data and self._may_name_hidden(data, requests)
        if named or not self._pass_through(requests):
            return False
        self._counts.forwarded += len(requests)
        return True
