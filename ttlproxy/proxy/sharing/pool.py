"""The connections to Redis that clients of this process share: a few, opened as they are needed.

A client shares with those whose connections are in the same state as its own, and with nobody else:
Redis checks rights by connection, and replies in the connection's version of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ttlproxy.net.tasks import cancel
from ttlproxy.proxy.sharing.shared_connection import SharedConnection
from ttlproxy.session.sharing import ConnectionState

# In so many states connections are kept; those without clients make room for others.
_MOST_STATES: Final = 64


class Pool:
    """
    connections: those that are there, or are being opened; state: the state that they begin in
    """

    def __init__(
        self,
        most: int,
        term: Callable[[], int],
        connect: Callable[[Pool], SharedConnection],
        state: ConnectionState,
    ) -> None:
        """`most`: how many there may be; `term()`: the link's term; `connect(self)` begins one
        more."""
        self.connections: set[SharedConnection] = set()
        self.state = state
        self._most = most
        self._term = term
        self._connect = connect

    def least_used(self) -> SharedConnection:
        """The connection with fewest clients. Those to a server that is not served any more are
        for nobody."""
        usable = self._usable()
        found = _least_used(usable)
        if found is None or (found.riders and len(usable) < self._most):
            found = self._connect(self)
            self.connections.add(found)
        return found

    def an_open_one(self) -> SharedConnection | None:
        """The connection with fewest clients of those that are open; None if there is none."""
        return _least_used(each for each in self._usable() if each.is_open)

    def forget(self, connection: SharedConnection) -> None:
        """The connection has ended."""
        self.connections.discard(connection)

    async def close(self) -> None:
        """Closes all, when the clients have gone."""
        opening = [each.opened for each in self.connections]
        for each in list(self.connections):
            each.close()
        await cancel(*opening)

    def close_unused(self) -> None:
        """Closes those without clients."""
        for each in list(self.connections):
            if not each.riders:
                each.close()

    @property
    def has_riders(self) -> bool:
        return any(each.riders for each in self.connections)

    def _usable(self) -> list[SharedConnection]:
        term = self._term()
        return [each for each in self.connections if each.term == term]


def _least_used(connections: Iterable[SharedConnection]) -> SharedConnection | None:
    return min(connections, key=lambda each: len(each.riders), default=None)


class Pools:
    """A pool for each state that clients' connections have."""

    def __init__(self, make: Callable[[ConnectionState], Pool]) -> None:
        self._make = make
        self._pools: dict[ConnectionState, Pool] = {}  # what was asked for last stands last

    async def of(self, state: ConnectionState) -> Pool | None:
        """The pool for a state; None if there are too many, which all have clients."""
        while state not in self._pools and len(self._pools) >= _MOST_STATES:
            if not await self._make_room():  # meanwhile another client may ask for the same
                return None
        pool = self._pools.pop(state, None) or self._make(state)
        self._pools[state] = pool
        return pool

    @property
    def unsent(self) -> int:
        """Bytes that Redis has not taken. Any thread may ask."""
        pools = list(self._pools.values())
        return sum(each.unsent for pool in pools for each in list(pool.connections))

    def close_unused(self) -> None:
        """Closes the connections without clients."""
        for pool in self._pools.values():
            pool.close_unused()

    async def close(self) -> None:
        """Closes all, when the clients have gone."""
        for pool in self._pools.values():
            await pool.close()

    async def _make_room(self) -> bool:
        for state, pool in self._pools.items():
            if not pool.has_riders:
                del self._pools[state]
                await pool.close()
                return True
        return False
