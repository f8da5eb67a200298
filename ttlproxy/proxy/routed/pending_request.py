"""One request of a client on its way to a node, and back with its reply."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.lane import Lane


class PendingRequest:
    """
    args, raw: the request's words, and its bytes as the client sent them
    slot: of its keys; None if it has none
    lane: where it went last
    reply: the reply, once it is whole, while earlier ones are awaited
    error: with which a node has sent it back
    taker: gets the reply, or the error, instead of the client
    """

    __slots__ = ("args", "error", "lane", "raw", "reply", "slot", "taker")

    def __init__(self, args: list[bytes], raw: bytes, slot: int | None) -> None:
        self.args = args
        self.raw = raw
        self.slot = slot
        self.lane: Lane | None = None
        self.reply: bytes | None = None
        self.error: bytes | None = None
        self.taker: asyncio.Future[bytes] | None = None

    def awaited(self) -> asyncio.Future[bytes]:
        """The reply, for a caller that waits for it in place of the client."""
        self.taker = asyncio.get_running_loop().create_future()
        return self.taker

    def answer(self, reply: bytes) -> None:
        """Gives the reply to the caller that waits for it."""
        if self.taker is not None and not self.taker.done():
            self.taker.set_result(reply)

    def fail(self, trouble: Exception) -> None:
        """Tells the caller that waits for it that there will be no reply."""
        if self.taker is not None and not self.taker.done():
            self.taker.set_exception(trouble)
            self.taker.exception()  # maybe nobody waits any more
