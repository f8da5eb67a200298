"""Which request of a client goes where, and which must wait for all before it.

Requests that concern one slot, or no key, go on as they come. Any other waits until all before it
are answered, and `special_requests` does it; what comes later is kept meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from ttlproxy.core.keys import slot
from ttlproxy.link import Link
from ttlproxy.proxy.redis_connection import LOW
from ttlproxy.proxy.routed.chunk import Chunk, Part
from ttlproxy.proxy.routed.pending_request import PendingRequest
from ttlproxy.proxy.routed.requests_in import RequestsIn
from ttlproxy.proxy.routed.routing_table import FIRST, HOME, KEYS, SPLIT, STEPS, RoutingTable
from ttlproxy.wire import pieces, whole

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.routed_client import RoutedClient

# The requests that may be without a reply before the client is read no further.
MOST_OWED: Final = 10_000


class Routing:
    """
    requests: those that have come, and have not gone
    """

    def __init__(self, client: RoutedClient, table: Callable[[], RoutingTable], limit: int) -> None:
        """`table()`: that of the commands that the masters have; `limit`: the most bytes of one
        request."""
        self.requests = RequestsIn(limit)
        self._client = client
        self._table = table
        self._masters = client.masters
        self._owners = client.masters.owners
        self._changes = client.masters.changes  # of the slots' masters, as far as looked at
        # Whether nothing is kept, and the next request is special only if its name says so.
        self._is_free = False
        self._has_ended = False

    def take(self, data: bytes) -> None:
        """Takes bytes from the client."""
        if self._is_free and self._has_passed(data):
            return
        self.requests.take(data)
        self.go()

    def end(self) -> None:
        """No more will come: each reply may be the last, and is looked at."""
        self._has_ended, self._is_free = True, False
        self._client.order.open()

    def _has_passed(self, data: bytes) -> bool:
        """Sends a plain chunk. False if it is none: then nothing is done."""
        client = self._client
        if self._changes != self._masters.changes or client.redirects.lines:
            return False
        table, sharing = self._table(), client.sharing
        commands = sharing.read(data, table.router.shareable) if sharing.is_open else whole(data)
        if commands is None:
            return False
        numbers = table.plain_slots(commands, data)
        if numbers is None:
            return False
        links = list(map(self._owners.__getitem__, numbers))
        order, first, lane_to = client.order, links[0], client.lanes.to
        if first is None or None in links or not order.takes_chunk:
            self._send(list(map(PendingRequest, commands, pieces(data), numbers)))
            return True
        chunk = Chunk(commands, numbers)
        if links.count(first) == len(links):
            chunk.parts.append(part := Part(lane := lane_to(first), len(links), not order.chunks))
            has_gone = lane.passes(part, data)
        else:
            has_gone = chunk.send(pieces(data), cast(list[Link], links), lane_to)
        order.chunks.append(chunk)
        if not has_gone:
            order.open()
        return True

    def _send(self, pending: Sequence[PendingRequest]) -> None:
        """Sends requests to the masters of their slots."""
        client, owners = self._client, self._owners
        client.order.add(pending)
        lines = client.redirects.lines
        by_link: dict[Link | None, list[PendingRequest]] = {}
        for request in pending:
            number = request.slot
            if number in lines:
                link = None
            elif number is None:
                home = client.lanes.home()
                link = None if home is None else home.link
            else:
                link = owners[number]
            if link in by_link:
                by_link[link].append(request)
            else:
                by_link[link] = [request]
        for link, some in by_link.items():
            if link is None:
                client.redirects.add(some)
            else:
                client.lanes.to(link).send(some, b"".join([each.raw for each in some]))
        if len(client.order) > MOST_OWED:
            client.read()

    def go(self) -> None:
        """Sends the requests that have come, up to one that must wait for all before it."""
        client, requests = self._client, self.requests
        waiting, table = requests.waiting, self._table()
        self._is_free = False
        if waiting and client.specials.wants_all:
            client.start(self._special(), "special request")
            return
        if self._changes != self._masters.changes:
            self._changes = self._masters.changes
            client.redirects.changed(self._owners)
        pending: list[PendingRequest] = []
        sharing = client.sharing if client.sharing.is_open else None
        for args, raw in waiting:
            if sharing is not None and not sharing.takes(args, raw, table.router.shareable):
                break
            way = table[args[0]]
            if way is FIRST:
                number = slot(args[1]) if len(args) > 1 else None
            elif way is HOME:
                number = None
            elif way is KEYS or (way is SPLIT and _is_whole(args)):
                number = table.slot_of(args)
            else:
                break
            pending.append(PendingRequest(args, raw, number))
        if pending:
            requests.have_gone(len(pending))
            self._send(pending)
        if waiting:
            client.start(self._special(), "special request")
        elif requests.is_cut or requests.ending:
            self._look_at_rest()
        else:
            self._is_free = not (self._has_ended or client.specials.wants_all)

    def _look_at_rest(self) -> None:
        """The last request is not whole: it may be too large, or none."""
        client, requests = self._client, self.requests
        if client.lanes.is_unauthenticated and requests.exceeds_login():
            requests.give_up()
        if requests.ending:
            client.start(self._end_with(requests.ending), "special request")
        elif requests.is_too_large:
            client.start(client.specials.refuse_too_large(), "special request")
        elif requests.kept > LOW:
            client.keeps()

    async def _special(self) -> None:
        client = self._client
        await client.order.quiet()
        if not client.sharing.is_open:
            await client.specials.next()
            return
        args, raw = self.requests.waiting[0]
        client.sharing.prepare(args, raw, self._table().router.shareable)
        client.said = b""
        await client.specials.next()
        client.sharing.replied(args, client.said)

    async def _end_with(self, ending: bytes) -> None:
        client = self._client
        await client.order.quiet()
        client.sharing.leave()
        await client.specials.end_with(ending)


def _is_whole(args: Sequence[bytes]) -> bool:
    """Whether all keys of a request that can be split are in one slot, or it is not complete."""
    keys = args[1 :: STEPS[args[0].decode().upper()]]
    return len(keys) < 2 or len(set(map(slot, keys))) == 1
