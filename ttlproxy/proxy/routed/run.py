"""Requests that went to one master as they came, in one chunk: nearly all, for most clients.

While nothing else is owed to the client, their replies go on as they come, and are only counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttlproxy.core.keys import slot
from ttlproxy.proxy.routed.ticket import Ticket
from ttlproxy.wire import Requests

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.lane import Lane


class Run:
    """
    lane: where they went; count: how many have no reply yet
    """

    __slots__ = ("_commands", "_data", "count", "lane")

    def __init__(self, lane: Lane, commands: list[list[bytes]], data: bytes) -> None:
        """`commands`: the words of each request, `data`: their bytes. Each first argument is a
        key."""
        self.lane = lane
        self.count = len(commands)
        self._commands = commands
        self._data = data

    def tickets(self) -> list[Ticket]:
        """A ticket for each request that has no reply yet.

        Fewer if Redis reads no request in some of the bytes: then it sends an error, and closes.
        """
        answered = len(self._commands) - self.count
        requests = Requests()
        requests.take(self._data)
        tickets = []
        for args, begin, end in requests.exact(self._commands)[answered:]:
            ticket = Ticket(args, self._data[begin:end], slot(args[1]))
            ticket.lane = self.lane
            tickets.append(ticket)
        return tickets
