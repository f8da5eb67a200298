"""Decides whether a client in front of several masters shares its connections to them with others.

A client begins with shared connections, and leaves them with the first request that may not go
there: then each of its lanes has a connection of its own, for good unless the client has only begun
(`session/sharing.py`). It changes when nothing is owed, so lanes can be closed: they are made anew
as they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ttlproxy.core.counters import Sharing
from ttlproxy.session.sharing import (
    INTRODUCES,
    LARGEST,
    ConnectionState,
    may_go,
    outcome,
    read,
    state_after,
)
from ttlproxy.wire import encode

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.routed_client import RoutedClient

# A client that has so many bytes of replies to take gets connections of its own, where Redis waits
# for it.
_MOST_UNREAD: Final = 1024 * 1024
# One that changes more often than this is not beginning.
_MOST_CHANGES: Final = 16
# The proxy answers these itself, since replicas serve no reads.
_OF_REPLICAS: Final = frozenset({b"READONLY", b"READWRITE"})


class SharingPolicy:
    """
    is_open: whether it shares, or may do so again; is_on: it shares
    state: of the connections that it shares
    """

    def __init__(self, client: RoutedClient, sharing: Sharing, is_open: bool) -> None:
        self.is_open = is_open
        self.is_on = False
        self.state = ConnectionState()
        self._client = client
        self._sharing = sharing
        self._changes = 0
        self._asks_login = False
        self._must_leave = False  # with its next request, for good
        self._is_unknown = False  # what its own connection has been told

    def starts(self, *, asks_login: bool) -> None:
        """Decides for a client that connects; `asks_login`: it must log in first."""
        self._asks_login = asks_login
        self.is_on = self.is_open and not asks_login

    def read(self, data: bytes, names: set[bytes]) -> list[list[bytes]] | None:
        """The requests of a chunk for shared connections; None for any other."""
        return read(data, names) if self.is_on and not self._must_leave else None

    def takes(self, args: Sequence[bytes], raw: bytes, names: set[bytes]) -> bool:
        """Whether a request goes over the connections that the client has now."""
        return self.is_on and not self._must_leave and _is_shareable(args, raw, names)

    def prepare(self, args: Sequence[bytes], raw: bytes, names: set[bytes]) -> None:
        """Gives the client the connections that its next request needs; nothing is owed."""
        is_shareable = not self._must_leave and _is_shareable(args, raw, names)
        if self.is_on and is_shareable:
            return
        begins = not self._must_leave and outcome(args) is not None
        self._changes += 1
        if self.is_on:
            self._change(False)
            self._left(begins, args, names)
        elif is_shareable and not self._is_unknown and self._changes <= _MOST_CHANGES:
            state = state_after(self._client.connection_settings)
            if state is not None and (state.auth or not self._asks_login):
                self.state = state
                self._change(True)
                return
        if self._client.lanes.is_unauthenticated:
            return  # Redis refuses what it asks for
        self.is_open = begins and self._changes <= _MOST_CHANGES

    def leave(self) -> None:
        """Gives the client connections of its own, for good, for a reason that is not a request."""
        if self.is_on:
            self._change(False)
            self._sharing.left["form"] += 1
        self.is_open = False

    def replied(self, args: Sequence[bytes], reply: bytes) -> None:
        """Its next request was answered; `reply`: empty if it is not known how."""
        is_known = None if self.is_on else outcome(args)
        if is_known is not None and not (reply and is_known(reply)):
            self._is_unknown = True

    def keeps(self, size: int) -> None:
        """Notes how many bytes of replies are kept for the client."""
        self._must_leave = self._must_leave or (self.is_on and size > _MOST_UNREAD)

    def _change(self, is_on: bool) -> None:
        self.is_on = is_on
        lanes = self._client.lanes
        for lane in lanes:
            lanes.close(lane)

    def _left(self, begins: bool, args: Sequence[bytes], names: set[bytes]) -> None:
        form = "form" if may_go(args, names) else "command"
        why = "unread" if self._must_leave else "handshake" if begins else form
        self._sharing.left[why] += 1


def _is_shareable(args: Sequence[bytes], raw: bytes, names: set[bytes]) -> bool:
    if not (may_go(args, names) or _introduces(args) or _is_of_replicas(args)):
        return False
    return len(raw) <= LARGEST and encode(tuple(args)) == raw


def _is_of_replicas(args: Sequence[bytes]) -> bool:
    return len(args) == 1 and args[0].upper() in _OF_REPLICAS


def _introduces(args: Sequence[bytes]) -> bool:
    """Whether the client only says what it is called."""
    word = args[1].upper() if len(args) > 1 else b""
    return args[0].upper() == b"CLIENT" and INTRODUCES.get(word) == len(args)
