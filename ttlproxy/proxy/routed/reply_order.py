"""Gives replies of several nodes to the client in the order of its requests."""

from __future__ import annotations

import asyncio
from collections import deque

from ttlproxy.proxy.routed.ticket import Ticket
from ttlproxy.proxy.write_batch import Write


class ReplyOrder:
    """
    owed: the requests without a reply, the oldest first
    muted: the client has switched replies off; pushes still pass
    """

    def __init__(self, write: Write) -> None:
        self.muted = False
        self._write = write
        self.owed: deque[Ticket] = deque()
        self._out: list[bytes] = []
        self._pushes: list[bytes] = []  # that came in the middle of another node's reply
        self._is_within = False  # a part of the oldest one's reply has passed
        self._quiet: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self.owed)

    def add(self, ticket: Ticket) -> None:
        self.owed.append(ticket)

    def is_next(self, ticket: Ticket) -> bool:
        """Whether the client gets the reply to this one next."""
        return bool(self.owed) and self.owed[0] is ticket

    def behind(self, ticket: Ticket) -> list[Ticket]:
        """The later requests of the client, the oldest first."""
        found = list(self.owed)
        return found[found.index(ticket) + 1 :] if ticket in found else []

    def take_back(self, ticket: Ticket) -> None:
        """The reply of a later request does not count: it is sent again."""
        if ticket.lane is not None and ticket.reply is not None:
            ticket.lane.keeps(-len(ticket.reply))
        ticket.reply = None

    def part(self, data: bytes) -> None:
        """A part of the oldest one's reply, which goes on."""
        self._is_within = True
        self._say(data)

    def answered(self, ticket: Ticket, reply: bytes) -> None:
        """A reply is whole; `reply` is the rest of it if parts have passed."""
        owed = self.owed
        if owed[0] is not ticket:
            ticket.reply = reply
            if ticket.lane is not None:
                ticket.lane.keeps(len(reply))
            return
        self._say(reply)
        self._is_within = False
        owed.popleft()
        while owed and (kept := owed[0].reply) is not None:
            self._say(kept)
            done = owed.popleft()
            if done.lane is not None:
                done.lane.keeps(-len(kept))
        if self._pushes:
            self._out += self._pushes
            self._pushes.clear()
        if owed:
            if (lane := owed[0].lane) is not None and lane.is_held_up:
                lane.resume()
        elif self._quiet is not None:
            self._quiet.set_result(None)
            self._quiet = None

    def push(self, data: bytes) -> None:
        """A push passes between two replies."""
        if self._is_within:
            self._pushes.append(data)
        else:
            self._out.append(data)

    def flush(self) -> None:
        """Sends what has come in order."""
        if self._out:
            out, self._out = self._out, []
            self._write(out[0] if len(out) == 1 else b"".join(out))

    def say(self, reply: bytes) -> None:
        """Sends a reply of the proxy's own, when no other is owed."""
        self._say(reply)
        self.flush()

    async def quiet(self) -> None:
        """Ends when no reply is owed."""
        if self.owed:
            self._quiet = self._quiet or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._quiet)

    def _say(self, data: bytes) -> None:
        if not self.muted and data:
            self._out.append(data)
