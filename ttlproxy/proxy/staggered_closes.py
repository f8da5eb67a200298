"""Spreads the ends of many connections over turns of the event loop.

When thousands end in the same moment, a turn that handled them all would take the time of
thousands, and a new client would have to wait for it. So each turn handles a few.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

# Each takes 50 us: a turn stays below 1 ms. A new client waits several turns for its first reply.
PER_TURN: Final = 8


class StaggeredCloses:
    """The ends of connections that are left for later turns, in their order."""

    __slots__ = ("_later", "_left")

    def __init__(self) -> None:
        self._later = deque[Callable[[], None]]()
        self._left = PER_TURN  # of what this turn may handle

    def put_off(self, end: Callable[[], None]) -> bool:
        """Whether this turn has handled enough: then `end()` is called in a later one."""
        if self._left == PER_TURN:
            asyncio.get_running_loop().call_soon(self._next_turn)
        if self._left:
            self._left -= 1
            return False
        self._later.append(end)
        return True

    def at_eof(self, ends: Callable[[], bool], transport: asyncio.Transport) -> bool:
        """Whether the connection stays open, for a protocol's `eof_received`: `ends()` says so; a
        later turn closes the connection if not."""

        def late() -> None:
            if not (transport.is_closing() or ends()):
                transport.close()

        return self.put_off(late) or ends()

    def _next_turn(self) -> None:
        self._left = PER_TURN
        if self._later:
            asyncio.get_running_loop().call_soon(self._next_turn)
        while self._later and self._left:
            self._left -= 1
            self._later.popleft()()
