"""The client, as its lanes see it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ttlproxy.core.counters import Counters
from ttlproxy.proxy.redis_connection import Backend
from ttlproxy.proxy.routed.reply_order import ReplyOrder
from ttlproxy.proxy.routed.ticket import Ticket
from ttlproxy.session.session import LaneSession

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.connection_limit import ConnectionLimit
    from ttlproxy.proxy.routed.lane import Lane
    from ttlproxy.proxy.routed.lane_seat import LaneSeat


class Owner(Protocol):
    """
    order: its replies
    replays: requests that each of its connections begins with, such as its login
    limit: how many connections all clients may have
    """

    counters: Counters
    limit: ConnectionLimit
    order: ReplyOrder

    @property
    def replays(self) -> Iterable[list[bytes]]: ...

    @property
    def hold_max_s(self) -> float: ...

    @property
    def rides(self) -> bool:
        """Whether its lanes share connections with those of other clients."""

    async def dial(self, lane: Lane) -> Backend | LaneSeat:
        """Connects, or finds a seat. Raises OSError."""

    def session(self, lane: Lane) -> LaneSession:
        """A new session, over what is known of the lane's master."""

    def answered(self, ticket: Ticket, reply: bytes) -> None:
        """A reply is whole, or its rest is there."""

    def answered_all(self, tickets: Sequence[Ticket], replies: Sequence[bytes]) -> None:
        """Replies of one lane are whole, and none of them is an error."""

    def came(self) -> None:
        """Replies to batches have come."""

    def part(self, ticket: Ticket, data: bytes) -> bool:
        """A reply has begun, or goes on; whether the client takes this part now."""

    def pushed(self, data: bytes) -> None:
        """A push, between two replies."""

    def bounced(self, tickets: Sequence[Ticket]) -> None:
        """Requests that have come back, and must be sent again; `reply` has the error, if any."""

    def flush(self) -> None:
        """Replies and pushes so far may go on."""

    def read(self) -> None:
        """A lane takes no more requests for now, or takes them again."""

    def keeps(self) -> None:
        """Much is kept for the client."""

    def can_spare(self, lane: Lane) -> bool:
        """Whether a connection on which nothing is on its way may be closed."""

    def gives_up(self, lane: Lane) -> None:
        """The connection makes room for another client's."""

    def crowded_out(self, lane: Lane) -> None:
        """There was no room for the connection for hold_max."""

    def turned_away(self, lane: Lane, error: bytes) -> None:
        """Redis has refused the connection, as it has too many clients."""

    def lost(self, lane: Lane) -> None:
        """The connection has ended, or must."""

    def can_go_on_without(self, lane: Lane) -> bool:
        """Whether nothing but the requests at hand needs the connection."""

    def miscounted(self, lane: Lane) -> None:
        """What has come is no reply, or a reply to nothing: no reply of its is certain."""

    def failed(self, trouble: BaseException) -> None:
        """Something that a request waits for has failed."""
