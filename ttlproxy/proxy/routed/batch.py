"""Requests that went to several masters as they came, in one chunk: there is no ticket for each.

The replies of a master wait in its share. They are put in the client's order all at once, when the
last one has come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ttlproxy.link import Link
from ttlproxy.proxy.routed.ticket import Ticket
from ttlproxy.wire import encode

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.lane import Lane


class Share:
    """What one master has of a batch.

    lane: where its requests went; unsent: or these, if they could not just pass
    replies: those that have come; taken: how many of them have been taken
    kept: bytes of the others; missing: how many are to come
    """

    __slots__ = ("kept", "lane", "missing", "replies", "taken", "unsent")

    def __init__(self, lane: Lane, count: int) -> None:
        self.lane = lane
        self.unsent = b""
        self.replies: list[bytes] = []
        self.taken = self.kept = 0
        self.missing = count

    def add(self, replies: list[bytes], size: int) -> None:
        """So many replies have come, of `size` bytes."""
        if self.replies:
            self.replies += replies
        else:
            self.replies = replies
        self.missing -= len(replies)
        self.kept += size
        self.lane.kept += size

    @property
    def has_next(self) -> bool:
        """Whether the next reply has come."""
        return self.taken < len(self.replies)

    def take(self) -> bytes:
        """The next reply, which has come."""
        reply = self.replies[self.taken]
        self.taken += 1
        return reply

    def give(self, size: int) -> None:
        """So many bytes of replies wait no longer."""
        self.kept -= size
        self.lane.kept -= size


class Batch:
    """
    left: how many replies have not been taken
    """

    __slots__ = ("_commands", "_numbers", "_order", "left", "shares")

    def __init__(self, commands: list[list[bytes]], numbers: list[int]) -> None:
        """For each request its words, and the slot of its first argument, which is a key."""
        self.left = len(commands)
        self.shares: list[Share] = []
        self._commands = commands
        self._numbers = numbers
        self._order: list[int] = []  # for each request, whose reply comes next: its share

    def send(
        self, requests: list[bytes], links: Sequence[Link], lane_to: Callable[[Link], Lane]
    ) -> bool:
        """Sends the requests; False if some of them could not just pass, and have not gone.

        `requests`, `links`: the bytes of each request, and the master of its slot.
        """
        places = {link: place for place, link in enumerate(set(links))}
        self._order = order = list(map(places.__getitem__, links))
        parts: list[tuple[list[list[bytes]], list[bytes]]] = [([], []) for _ in places]
        for place, args, request in zip(order, self._commands, requests, strict=True):
            commands, own = parts[place]
            commands.append(args)
            own.append(request)
        all_sent = True
        for link, (commands, own) in zip(places, parts, strict=True):
            share = Share(lane_to(link), len(own))
            self.shares.append(share)
            data = b"".join(own)
            if not share.lane.passes_share(share, commands, data):
                share.unsent, all_sent = data, False
        return all_sent

    @property
    def is_whole(self) -> bool:
        """Whether all replies have come."""
        for share in self.shares:  # noqa: SIM110 - a third of the time of `all`
            if share.missing:
                return False
        return True

    def take_all(self) -> list[bytes]:
        """All replies that have not been taken, in order: none is missing."""
        rest = []
        for share in self.shares:
            share.give(share.kept)
            if share.taken:
                del share.replies[: share.taken]
            share.replies.reverse()  # their end is where they are taken at once
            rest.append(share.replies)
        return list(map(list.pop, map(rest.__getitem__, self._order)))

    @property
    def has_first(self) -> bool:
        """Whether the next reply has come."""
        return self.shares[self._order[0]].has_next

    def take_first(self) -> list[bytes]:
        """Those up to the first that is missing."""
        taken: list[bytes] = []
        for place in self._order:
            share = self.shares[place]
            if not share.has_next:
                break
            taken.append(reply := share.take())
            share.give(len(reply))
        del self._order[: len(taken)]
        self.left -= len(taken)
        return taken

    def tickets(self) -> list[tuple[Share, Ticket]]:
        """A ticket for each request whose reply has not been taken, with the reply if it waits."""
        begin = len(self._commands) - self.left
        found = []
        for place, args, number in zip(
            self._order, self._commands[begin:], self._numbers[begin:], strict=True
        ):
            share = self.shares[place]
            ticket = Ticket(args, encode(tuple(args)), number)
            ticket.lane = share.lane
            ticket.reply = share.take() if share.has_next else None
            found.append((share, ticket))
        return found
