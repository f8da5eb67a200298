"""The connections to Redis that clients of this process share: a few, opened as they are needed."""

from __future__ import annotations

from collections.abc import Callable

from ttlproxy.net.tasks import cancel
from ttlproxy.proxy.sharing.shared_connection import SharedConnection


class Pool:
    """
    connections: those that are there, or are being opened
    """

    def __init__(
        self, most: int, term: Callable[[], int], connect: Callable[[], SharedConnection]
    ) -> None:
        """`most`: how many there may be; `term()`: the link's term; `connect()` begins one more."""
        self.connections: set[SharedConnection] = set()
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
            found = self._connect()
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
