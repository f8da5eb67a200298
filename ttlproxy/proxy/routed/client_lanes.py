"""The connections of one client: one for each master, made when it is first needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ttlproxy.errors import NO_FREE_CONNECTION, NoFreeConnection
from ttlproxy.link import Link, Masters
from ttlproxy.proxy.routed.lane import Lane
from ttlproxy.proxy.routed.lane_calls import NO_ROOM
from ttlproxy.proxy.routed.pending_request import PendingRequest

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.routed_client import RoutedClient

# The time for a master that is no longer served to send the replies that it owes.
_RETIRES_S: Final = 1.0


class ClientLanes:
    """Iterates over all, also those of masters that are not served any more.

    port: the number of the one that the client has connected to, in `masters.view`
    """

    def __init__(self, masters: Masters, client: RoutedClient) -> None:
        self.port = 0
        self._masters = masters
        self._owners = masters.owners  # by slot
        self._client = client
        self._lanes: dict[Link, Lane] = {}
        self._retired: set[Lane] = set()
        self._home: Lane | None = None

    def __iter__(self) -> Iterator[Lane]:
        return iter([*self._lanes.values(), *self._retired])

    def of(self, number: int | None) -> Lane | None:
        """The lane of the slot's master, or the home for None; None while there is no master."""
        if number is None:
            return self.home()
        link = self._owners[number]
        return None if link is None else self.to(link)

    def at(self, host: str, port: int) -> Lane | None:
        """The lane of the master at this address."""
        link = self._masters.find(host, port)
        return None if link is None else self.to(link)

    def to(self, link: Link) -> Lane:
        lane = self._lanes.get(link)
        if lane is None:
            lane = self._lanes[link] = Lane(self._client, link)
        return lane

    async def links(self) -> dict[str, Link]:
        """The masters that requests about all keys at this port are for: their links by id.

        Raises TimeoutError if there is none for hold_max.
        """
        return await self._links_at(self.port)

    async def links_of_all(self) -> dict[str, Link]:
        """`links` of masters at all ports."""
        return await self._links_at(0)

    async def _links_at(self, port: int) -> dict[str, Link]:
        async with asyncio.timeout(self._client.hold_max_s):
            while not (links := self._masters.links_at(port)):
                self._masters.look()
                await self._masters.change()
        return links

    async def reach_all(self) -> list[Lane]:
        """The lanes of the masters at this port that are served, connected. Raises as `links` and
        `Lane.opened` do."""
        found = [self.to(link) for link in (await self.links()).values() if link.serving.now]
        for lane in found:
            await lane.opened()
        return found

    @property
    def lacks_one(self) -> bool:
        """Whether a master at this port is served to which there is no connection."""
        links = self._masters.links_at(self.port).values()
        return any(link.serving.now and link not in self._lanes for link in links)

    def home(self) -> Lane | None:
        """The lane for requests without keys; None while no master serves.

        Another one stands in for a master that is away, until it is served, or replaced, and
        nothing of the client's is at the other one.
        """
        home = self._home
        if home is None or home.is_closed or home.retires or self._stands_in(home):
            link = self._masters.home_at(self.port)
            self._home = None if link is None else self.to(link)
        return self._home

    def _stands_in(self, home: Lane) -> bool:
        return not self._masters.is_at(home.link, self.port) and home.is_unused

    @property
    def others(self) -> list[Lane]:
        """The lanes of masters that are served, but for the home."""
        return [lane for lane in self._lanes.values() if lane is not self._home]

    @property
    def is_unauthenticated(self) -> bool:
        """Whether the client has still to log in."""
        home = self.home()
        return home is not None and home.session is not None and home.session.before_login

    @property
    def is_full(self) -> bool:
        return any(lane.redis_is_full for lane in self._lanes.values())

    @property
    def kept(self) -> int:
        """Bytes of requests that are not sent yet."""
        return sum(lane.buffered for lane in self._lanes.values() if lane.waits)

    @property
    def kept_replies(self) -> int:
        """Bytes of replies that wait for others."""
        return sum(lane.kept_replies for lane in self)

    @property
    def buffered(self) -> int:
        return sum(lane.buffered for lane in self)

    def close(self, lane: Lane) -> None:
        """No more is expected of it."""
        self.forget(lane)
        lane.close()

    def forget(self, lane: Lane) -> None:
        if self._lanes.get(lane.link) is lane:
            del self._lanes[lane.link]
        self._retired.discard(lane)

    def retire(self, link: Link) -> None:
        """A master is not served any more: what it owes may still come, for a second."""
        client, lane = self._client, self._lanes.get(link)
        if lane is None:
            return
        if client.specials.needs(lane):
            client.ends_because("moved")
            self.close(lane)
            client.end()
            return
        self.forget(lane)
        lane.retires = True
        lane.give_back()
        if lane.owes:
            self._retired.add(lane)
            asyncio.get_running_loop().call_later(_RETIRES_S, self.lost, lane)
        else:
            lane.close()

    def close_idle(self, since_s: float) -> None:
        """Closes those that were last used before `since_s`, on the clock of the event loop, and
        that nothing needs."""
        for lane in self.others:
            if lane.used_s < since_s and not (lane.waits or self._client.specials.needs(lane)):
                self.close(lane)

    def clear(self) -> None:
        self._lanes.clear()
        self._retired.clear()
        self._home = None

    # Lanes call these.

    def lost(self, lane: Lane) -> None:
        """A connection has ended, or must."""
        if lane.is_closed:
            return
        owes = lane.owes or self._client.specials.needs(lane)
        self.forget(lane)
        if owes:
            lane.close()
            self._client.end()
        else:
            lane.give_back()
            lane.close()

    def miscounted(self, lane: Lane) -> None:
        """Ends, because a lane has got no reply, or a reply to nothing: none of its is certain."""
        self.close(lane)
        self._client.end()

    def can_go_on_without(self, lane: Lane) -> bool:
        """Whether nothing but the requests at hand needs the connection."""
        return self._client.is_open and not self._client.specials.needs(lane)

    def can_spare(self, lane: Lane) -> bool:
        """Whether a connection on which nothing is on its way may be closed."""
        has_logged_in = lane.session is not None and not lane.session.before_login
        return has_logged_in and self.can_go_on_without(lane)

    def crowded_out(self, lane: Lane) -> None:
        """Refuses the requests of a lane that got no room for its connection for hold_max; or the
        client, if it is not open."""
        client = self._client
        words = "must do without a connection to a master: there may be no more of them"
        if client.is_open:
            client.client_log.often(logging.WARNING, words)
            self.forget(lane)
            requests = lane.take_unsent()
            lane.trouble = NoFreeConnection(NO_ROOM)
            lane.close()
            self.answer(requests, NO_FREE_CONNECTION)
        else:
            client.refuse(NoFreeConnection(words))

    def turned_away(self, lane: Lane, error: bytes) -> None:
        """Redis has too many clients, and has closed the connection without reading from it."""
        words = "cannot connect to a master: it has reached its maxclients"
        client = self._client
        client.client_log.often(logging.WARNING, words)
        lane.link.context.node_counts.connections_refused += 1
        client.limit.make_room_at(lane.link)
        self.forget(lane)
        client.order.open()
        requests = [*lane.replies.requests, *lane.take_unsent()]
        lane.replies.requests.clear()
        lane.close()
        for request in requests:
            request.error = error
            request.answer(error)
        client.redirects.add([request for request in requests if request.taker is None])

    def answer(self, requests: Sequence[PendingRequest], reply: bytes) -> None:
        """Answers requests with this reply; they do not go to Redis."""
        for request in requests:
            if request.taker is None:
                self._client.order.answered(request, reply)
            else:
                request.answer(reply)
        self._client.flush()
