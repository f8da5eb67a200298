"""The connections to Redis that clients of this process share: a few, opened as they are needed.

A client shares with those whose connections are in the same state as its own, and with nobody else:
Redis checks rights by connection, and replies in the connection's version of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ttlproxy.link import Link
from ttlproxy.net.tasks import cancel
from ttlproxy.proxy.sharing.shared_connection import SharedConnection
from ttlproxy.session.sharing import ConnectionState

# States in which connections to a server are kept; those without clients make room for others.
_MOST_STATES: Final = 64
# The term of a server that is not served any more.
_NONE: Final = -1


class Pool:
    """The shared connections to one server in one state.

    connections: all that are there, or are being opened; state: the state that they begin in;
    term(): that of the link to their server
    """

    def __init__(
        self,
        most: int,
        term: Callable[[], int],
        connect: Callable[[Pool], SharedConnection],
        state: ConnectionState,
    ) -> None:
        """`most`: how many there may be; `connect(self)` begins one more."""
        self.connections: set[SharedConnection] = set()
        self.state = state
        self.term = term
        self._most = most
        self._connect = connect

    def least_used(self) -> SharedConnection:
        """The connection with fewest clients. Nobody gets one to a server that is no
        longer served."""
        usable = self._usable()
        found = _least_used(usable)
        if found is None or (found.clients and len(usable) < self._most):
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

    @property
    def has_clients(self) -> bool:
        return any(each.clients for each in self.connections)

    def _usable(self) -> list[SharedConnection]:
        term = self.term()
        return [each for each in self.connections if each.term == term]


def _least_used(connections: Iterable[SharedConnection]) -> SharedConnection | None:
    return min(connections, key=lambda each: len(each.clients), default=None)


class _Pools(dict[ConnectionState, Pool]):
    """The pools of one server, by state; the state that was asked for last stands last."""

    is_retired = False


class Pools:
    """The pools of all servers."""

    def __init__(self, most: int, connect: Callable[[Link, Pool], SharedConnection]) -> None:
        """`most`: how many connections clients in the same state share to each server;
        `connect(link, pool)` begins one."""
        self._most = most
        self._connect = connect
        self._pools: dict[Link, _Pools] = {}

    async def of(self, link: Link, state: ConnectionState) -> Pool | None:
        """The pool for a state; None if there are too many, which all have clients."""
        pools = self._pools.setdefault(link, _Pools())
        while state not in pools and len(pools) >= _MOST_STATES:
            if not await _make_room(pools):  # meanwhile another client may ask for the same
                return None
        pool = pools.pop(state, None) or self._made(link, pools, state)
        pools[state] = pool
        return pool

    def retire(self, link: Link) -> None:
        """Stops serving this server: its connections end with their last clients."""
        pools = self._pools.pop(link, _Pools())
        pools.is_retired = True
        for each in [each for pool in pools.values() for each in pool.connections]:
            if not each.clients:
                each.close()

    @property
    def unsent(self) -> int:
        """Bytes that Redis has not taken. Any thread may ask."""
        pools = [pool for pools in list(self._pools.values()) for pool in list(pools.values())]
        return sum(each.unsent for pool in pools for each in list(pool.connections))

    async def close(self) -> None:
        """Closes all, when the clients have gone."""
        for pools in self._pools.values():
            for pool in pools.values():
                await pool.close()

    def _made(self, link: Link, pools: _Pools, state: ConnectionState) -> Pool:
        def term() -> int:
            return _NONE if pools.is_retired else link.server.term

        return Pool(self._most, term, lambda pool: self._connect(link, pool), state)


async def _make_room(pools: _Pools) -> bool:
    for state, pool in pools.items():
        if not pool.has_clients:
            del pools[state]
            await pool.close()
            return True
    return False
