"""The connections to masters that clients share: pools for each master."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ttlproxy.link import Link
from ttlproxy.proxy.routed.lane_seat import LaneSeat
from ttlproxy.proxy.sharing.pool import Pool, Pools
from ttlproxy.proxy.sharing.shared_connection import SharedConnection
from ttlproxy.session.sharing import ConnectionState

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.lane import Lane

# The term of a master that is not served any more.
_NONE: Final = -1
Connect = Callable[
    [Link, Pool, Callable[[SharedConnection], None], Callable[[], int]], SharedConnection
]


class MasterPools:
    """By link, for the masters that are served."""

    def __init__(self, most: int, connect: Connect) -> None:
        """`most`: how many connections clients in the same state share to each master;
        `connect(link, pool, forget, term)` begins one."""
        self._most = most
        self._connect = connect
        self._pools: dict[Link, Pools] = {}

    async def seat(
        self, lane: Lane, state: ConnectionState, reads_slowly: Callable[[], None]
    ) -> LaneSeat | None:
        """A place on a connection in this state; None if there are too many states.

        Raises OSError, also if Redis refuses now what brings a connection there.
        """
        pool = await self._of(lane.link).of(state)
        if pool is None:
            return None
        seat = LaneSeat(lane, pool.least_used(), reads_slowly)
        await seat.opened(pool.an_open_one, "a shared connection to a master has ended")
        seat.is_taken = True
        return seat

    def retire(self, link: Link) -> None:
        """This master is not served any more: its connections end with their last clients."""
        pools = self._pools.pop(link, None)
        if pools is not None:
            pools.close_unused()

    @property
    def unsent(self) -> int:
        """Bytes that masters have not taken. Any thread may ask."""
        return sum(pools.unsent for pools in list(self._pools.values()))

    async def close(self) -> None:
        """Closes all, when the clients have gone."""
        for pools in self._pools.values():
            await pools.close()

    def _of(self, link: Link) -> Pools:
        if link not in self._pools:
            self._pools[link] = self._made(link)
        return self._pools[link]

    def _made(self, link: Link) -> Pools:
        def term() -> int:
            return link.server.term if self._pools.get(link) is pools else _NONE

        def connect(pool: Pool) -> SharedConnection:
            def forget(connection: SharedConnection) -> None:
                pool.forget(connection)
                for rider in list(connection.riders):
                    if isinstance(rider, LaneSeat):
                        rider.ends()

            return self._connect(link, pool, forget, term)

        pools = Pools(lambda state: Pool(self._most, term, connect, state))
        return pools
