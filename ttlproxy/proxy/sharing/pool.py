"""The connections to Redis that clients of this process share: a few, opened as they are needed.

Clients that have logged in share with those that have sent the same login, and with nobody else:
Redis checks rights by connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ttlproxy.net.tasks import cancel
from ttlproxy.proxy.sharing.shared_connection import SharedConnection

# Of so many logins connections are kept; one without clients makes room for another.
_MOST_LOGINS: Final = 64


class Pool:
    """
    connections: those that are there, or are being opened; login: the request that logs them in
    """

    def __init__(
        self,
        most: int,
        term: Callable[[], int],
        connect: Callable[[Pool], SharedConnection],
        login: bytes,
    ) -> None:
        """`most`: how many there may be; `term()`: the link's term; `connect(self)` begins one
        more."""
        self.connections: set[SharedConnection] = set()
        self.login = login
        self._most = most
        self._term = term
        self._connect = connect

    def least_used(self) -> SharedConnection:
        """The connection with fewest clients. Those to a server that is not served any more are
        for nobody."""
        term = self._term()
        usable = [each for each in self.connections if each.term == term]
        found = min(usable, key=lambda each: len(each.riders), default=None)
        if found is None or (found.riders and len(usable) < self._most):
            found = self._connect(self)
            self.connections.add(found)
        return found

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
    def has_riders(self) -> bool:
        return any(each.riders for each in self.connections)


class Pools:
    """A pool for each login, and one for clients that need none: the empty login."""

    def __init__(self, make: Callable[[bytes], Pool]) -> None:
        self._make = make
        self._pools: dict[bytes, Pool] = {}  # the login that was asked for last stands last

    async def of(self, login: bytes) -> Pool | None:
        """The pool for a login; None if there are too many, which all have clients."""
        while login not in self._pools and len(self._pools) >= _MOST_LOGINS:
            if not await self._make_room():  # meanwhile another client may ask for the same
                return None
        pool = self._pools.pop(login, None) or self._make(login)
        self._pools[login] = pool
        return pool

    @property
    def unsent(self) -> int:
        """Bytes that Redis has not taken. Any thread may ask."""
        pools = list(self._pools.values())
        return sum(each.unsent for pool in pools for each in list(pool.connections))

    async def close(self) -> None:
        """Closes all, when the clients have gone."""
        for pool in self._pools.values():
            await pool.close()

    async def _make_room(self) -> bool:
        for login, pool in self._pools.items():
            if login and not pool.has_riders:
                del self._pools[login]
                await pool.close()
                return True
        return False
