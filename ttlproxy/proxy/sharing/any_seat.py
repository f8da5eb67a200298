"""What every place on a shared connection to Redis has in common, whoever has it.

It has the surface of a connection of one's own; but a client that logs in or waits has such a one.
"""

from __future__ import annotations

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from ttlproxy.proxy.sharing.shared_connection import Rider, SharedConnection

# A server that hangs lets nobody open a connection; those that are there may serve all the same.
_PATIENCE_S: Final = 0.1


class AnySeat(Rider, ABC):
    """is_cut: no more is sent"""

    most_at_once = sys.maxsize  # no other client's requests may come between ours
    unsent = 0  # what Redis has not taken is kept for all together

    def __init__(self, connection: SharedConnection) -> None:
        self.is_cut = False
        self._connection = connection
        self._is_gone = self._is_closed = False
        self._is_slow = False  # the client does not keep up

    async def opened(self, an_open_one: Callable[[], SharedConnection | None], lost: str) -> None:
        """Ends when the connection is there, or takes long and `an_open_one()` is another. Else
        closes the seat, and raises OSError: of the connection, or one that says `lost`."""
        try:
            if not self._connection.opened.done():
                await self._wait_or_move(an_open_one)
            await asyncio.shield(self._connection.opened)
            if self._connection.is_lost:
                raise ConnectionError(lost)
        except BaseException:
            self.close()
            raise

    async def _wait_or_move(self, an_open_one: Callable[[], SharedConnection | None]) -> None:
        await asyncio.wait({self._connection.opened}, timeout=_PATIENCE_S)
        other = None if self._connection.opened.done() else an_open_one()
        if other is not None:
            self._move_to(other)

    def _move_to(self, connection: SharedConnection) -> None:
        """Nothing is owed."""
        self._connection.leave(self)
        self._connection = connection
        connection.join(self)

    @abstractmethod
    def close(self) -> None:
        """What is owed is thrown away."""

    def pause(self, is_full: bool) -> None:
        """The client does not keep up, or keeps up again: the others go on. It is read from, as it
        may read no reply before its last request is taken."""
        self._is_slow = is_full

    def cut(self) -> None:
        self.is_cut = True

    def ignore(self) -> None:
        """What comes is thrown away."""
        self._is_gone = True
