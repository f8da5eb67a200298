"""Plain requests that went to their masters as they came, in one chunk: nearly all, for most
clients. None has an object of its own.

The replies of a master wait in its part. They are put in the client's order all at once, when the
last one has come. If all went to one master, and nothing is owed before them, they are only
counted, and go on as they come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ttlproxy.link import Link
from ttlproxy.proxy.routed.pending_request import PendingRequest
from ttlproxy.wire import encode

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.lane import Lane


class Part:
    """The part of a chunk at one master.

    lane: where its requests went; unsent: or these, if they could not just pass
    passes: its replies go on as they come
    missing: how many of them are to come
    replies: those that have come; taken: how many of them have been taken
    kept: bytes of the others
    """

    __slots__ = ("kept", "lane", "missing", "passes", "replies", "taken", "unsent")

    def __init__(self, lane: Lane, count: int, passes: bool) -> None:
        self.lane = lane
        self.unsent = b""
        self.passes = passes
        self.missing = count
        self.replies: list[bytes] = []
        self.taken = self.kept = 0

    def add(self, replies: list[bytes], size: int) -> None:
        """Takes replies that have come, of `size` bytes."""
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
        """Notes that `size` bytes of replies wait no longer."""
        self.kept -= size
        self.lane.kept -= size


class Chunk:
    """
    parts: what each master has; left: how many replies have not been taken
    """

    __slots__ = ("_commands", "_numbers", "_order", "left", "parts")

    def __init__(self, commands: list[list[bytes]], numbers: list[int]) -> None:
        """`commands`, `numbers`: each request's words, and the slot of its first argument, a
        key."""
        self.left = len(commands)
        self.parts: list[Part] = []
        self._commands = commands
        self._numbers = numbers
        self._order = [0] * self.left  # for each request, which part it is in

    def send(
        self, requests: list[bytes], links: Sequence[Link], lane_to: Callable[[Link], Lane]
    ) -> bool:
        """Sends the requests to several; False if some could not just pass, and have not gone.

        `requests`, `links`: the bytes of each request, and the master of its slot.
        """
        places = {link: place for place, link in enumerate(set(links))}
        self._order = order = list(map(places.__getitem__, links))
        shares: list[list[bytes]] = [[] for _ in places]
        for place, request in zip(order, requests, strict=True):
            shares[place].append(request)
        all_sent = True
        for link, own in zip(places, shares, strict=True):
            self.parts.append(part := Part(lane_to(link), len(own), passes=False))
            all_sent = part.lane.passes(part, b"".join(own)) and all_sent
        return all_sent

    @property
    def _begin(self) -> int:
        """The number of the first request whose reply has not been taken."""
        return len(self._commands) - self.left

    @property
    def is_whole(self) -> bool:
        """Whether all replies have come."""
        for part in self.parts:  # noqa: SIM110 - a third of the time of `all`
            if part.missing:
                return False
        return True

    def take_all(self) -> list[bytes]:
        """The replies that have not been taken, in order: none is missing."""
        rest = []
        for part in self.parts:
            part.give(part.kept)
            if part.taken:
                del part.replies[: part.taken]
            part.replies.reverse()  # their end is where they are taken at once
            rest.append(part.replies)
        return list(map(list.pop, map(rest.__getitem__, self._order[self._begin :])))

    @property
    def has_first(self) -> bool:
        """Whether the next reply has come."""
        return self.parts[self._order[self._begin]].has_next

    def take_first(self) -> list[bytes]:
        """The replies up to the first that is missing."""
        taken: list[bytes] = []
        for place in self._order[self._begin :]:
            part = self.parts[place]
            if not part.has_next:
                break
            taken.append(reply := part.take())
            part.give(len(reply))
        self.left -= len(taken)
        return taken

    def pending_requests(self) -> list[tuple[Part, PendingRequest]]:
        """One for each request whose reply has not been taken, with the reply if it waits."""
        begin, found = self._begin, []
        for place, args, number in zip(
            self._order[begin:], self._commands[begin:], self._numbers[begin:], strict=True
        ):
            part = self.parts[place]
            request = PendingRequest(args, encode(tuple(args)), number)
            request.lane = part.lane
            request.reply = part.take() if part.has_next else None
            found.append((part, request))
        return found
