"""Requests that went to several masters as they came, in one chunk: there is no ticket for each.

The replies of a master wait in its share. They are put in the client's order all at once, when the
last one has come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ttlproxy.link import Link
from ttlproxy.proxy.routed.ticket import Ticket
from ttlproxy.wire import encode, from_bodies

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.lane import Lane


class Share(deque[bytes]):
    """What one master has of a batch: the replies that wait, the oldest first.

    lane: where its requests went; missing: how many replies are to come
    kept: bytes of those that wait; unsent: the requests, if they could not just pass
    """

    __slots__ = ("batch", "bodies", "commands", "kept", "lane", "missing", "unsent")

    def __init__(self, batch: Batch, lane: Lane) -> None:
        super().__init__()
        self.batch = batch
        self.lane = lane
        self.commands: list[list[bytes]] = []
        self.bodies: list[bytes] = []
        self.missing = self.kept = 0
        self.unsent = b""

    def add(self, replies: Sequence[bytes], size: int) -> None:
        """So many of its replies have come, of `size` bytes."""
        self.extend(replies)
        self.missing -= len(replies)
        self.kept += size
        self.lane.kept += size
        self.batch.missing -= len(replies)


class Batch:
    """
    order: for each request without a reply, the share where that will be, the oldest first
    missing: how many replies are to come
    """

    __slots__ = ("_commands", "_numbers", "missing", "order", "shares")

    def __init__(
        self,
        commands: list[list[bytes]],
        bodies: Sequence[bytes],
        numbers: list[int],
        links: Sequence[Link],
        lane_to: Callable[[Link], Lane],
    ) -> None:
        """For each request its words, its `bodies`, the slot of its first
        argument, which is a key, and the master of that."""
        self.missing = len(commands)
        self._commands = commands
        self._numbers = numbers
        shares = {link: Share(self, lane_to(link)) for link in set(links)}
        self.shares = list(shares.values())
        self.order = order = list(map(shares.__getitem__, links))
        for share, args, body in zip(order, commands, bodies, strict=True):
            share.commands.append(args)
            share.bodies.append(body)

    def send(self) -> bool:
        """Sends the requests; False if some of them could not just pass, and have not gone."""
        all_sent = True
        for share in self.shares:
            data = from_bodies(share.bodies)
            share.missing = len(share.bodies)
            if not share.lane.passes_share(share, data):
                share.unsent, all_sent = data, False
            del share.commands, share.bodies
        return all_sent

    def take_all(self) -> list[bytes]:
        """All replies that have not been taken, in order: none is missing."""
        for share in self.shares:
            share.lane.kept -= share.kept
        return list(map(deque.popleft, self.order))

    def take_first(self) -> list[bytes]:
        """Those up to the first that is missing."""
        taken = []
        for share in self.order:
            if not share:
                break
            taken.append(reply := share.popleft())
            share.kept -= len(reply)
            share.lane.kept -= len(reply)
        del self.order[: len(taken)]
        return taken

    def tickets(self) -> list[tuple[Share, Ticket]]:
        """A ticket for each request whose reply has not been taken, with the reply if it waits."""
        begin = len(self._commands) - len(self.order)
        found = []
        for share, args, number in zip(
            self.order, self._commands[begin:], self._numbers[begin:], strict=True
        ):
            ticket = Ticket(args, encode(tuple(args)), number)
            ticket.lane = share.lane
            ticket.reply = share.popleft() if share else None
            found.append((share, ticket))
        return found
