"""Gives replies of several nodes to the client in the order of its requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ttlproxy.proxy.redis_connection import LOW
from ttlproxy.proxy.reply_queue import drop
from ttlproxy.proxy.routed.chunk import Chunk
from ttlproxy.proxy.routed.pending_request import PendingRequest
from ttlproxy.proxy.write_batch import Write

# A client that has more chunks under way has an object for each request.
_MOST_CHUNKS: Final = 16


class ReplyOrder:
    """
    owed: the requests without a reply, the oldest first; chunks: or these, the oldest first
    muted: the client has switched replies off; pushes still pass
    """

    def __init__(self, write: Write, at_end: Callable[[Callable[[], None]], None]) -> None:
        """`at_end(do)` calls `do` at the end of this turn of the event loop."""
        self.muted = False
        self.chunks: deque[Chunk] = deque()
        self.owed: deque[PendingRequest] = deque()
        self._write = write
        self._at_end = at_end
        self._is_late = False  # replies to the oldest chunk wait for the end of the turn
        self._out: list[bytes] = []
        self._pushes: list[bytes] = []  # that came in the middle of another node's reply
        self._is_within = False  # a part of the oldest one's reply has passed
        self._quiet: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self.owed) + sum([chunk.left for chunk in self.chunks])

    @property
    def takes_chunk(self) -> bool:
        """Whether the next requests may go as a chunk."""
        return not (self.owed or self.muted or len(self.chunks) >= _MOST_CHUNKS)

    def add(self, requests: Iterable[PendingRequest]) -> None:
        """Notes that these requests are owed replies, behind all others."""
        self.open()
        self.owed.extend(requests)

    def open(self) -> None:
        """Turns the chunks that are owed into single requests."""
        if not self.chunks:
            return
        self._give_first()
        chunks, self.chunks = self.chunks, deque()
        for chunk in chunks:
            found = chunk.pending_requests()
            self.owed.extend([request for _, request in found])
            for part in chunk.parts:
                requests = [
                    request for each, request in found if each is part and request.reply is None
                ]
                if part.unsent:
                    part.lane.send(requests, part.unsent)
                else:
                    part.lane.owes_for(requests)

    def came(self) -> None:
        """Replies to chunks have come."""
        chunks = self.chunks
        while chunks and chunks[0].is_whole:
            self._out += chunks.popleft().take_all()
        if not chunks:
            self.flush()
            self._is_quiet()
            return
        if not self._is_late and chunks[0].has_first:
            self._is_late = True
            self._at_end(self._end_turn)
        if self._out:
            self.flush()

    def _end_turn(self) -> None:
        self._is_late = False
        self._give_first()

    def _give_first(self) -> None:
        """Gives the client what has come of the oldest chunk, up to the first that is missing."""
        if self.chunks:
            self._out += self.chunks[0].take_first()
            self.flush()

    def passes(self, data: bytes, count: int, *, is_within: bool = False) -> None:
        """The next bytes of replies to the oldest chunk, of which `count` end here; `is_within`:
        the last one goes on."""
        chunk = self.chunks[0]
        self._write(data)
        chunk.left -= count
        self._is_within = is_within
        if self._pushes and not is_within:
            self._let_pushes_pass()
            self.flush()
        if not chunk.left:
            self.chunks.popleft()
            if self._quiet is not None and not self.chunks:
                self._is_quiet()

    def is_next(self, request: PendingRequest) -> bool:
        """Whether the client gets the reply to this one next."""
        return bool(self.owed) and self.owed[0] is request

    def behind(self, request: PendingRequest) -> list[PendingRequest]:
        """The later requests of the client, the oldest first."""
        found = list(self.owed)
        return found[found.index(request) + 1 :] if request in found else []

    def take_back(self, request: PendingRequest) -> None:
        """The reply of a later request does not count: it is sent again."""
        if request.lane is not None and request.reply is not None:
            request.lane.kept -= len(request.reply)
        request.reply = None

    def part(self, data: bytes) -> None:
        """A part of the oldest one's reply, which goes on."""
        self._is_within = True
        if not self.muted:
            self._out.append(data)

    def answered(self, request: PendingRequest, reply: bytes) -> None:
        """A reply is whole; `reply` is the rest of it if parts have passed."""
        request.reply = reply
        if request.lane is not None:
            request.lane.kept += len(reply)
        self.advance()

    def answered_all(self, requests: Sequence[PendingRequest], replies: Sequence[bytes]) -> None:
        """Replies of one lane are whole."""
        lane, size = None, 0
        for request, reply in zip(requests, replies, strict=True):
            if request.taker is None:
                request.reply, lane = reply, request.lane
                size += len(reply)
            else:
                request.answer(reply)
        if lane is not None:
            lane.kept += size
        self.advance()

    def advance(self) -> None:
        """Gives the client the replies that are there, up to the first that is not."""
        owed = self.owed
        if not owed or owed[0].reply is None:
            return
        give = ([] if self.muted else self._out).append
        while owed and (reply := owed[0].reply) is not None:
            give(reply)
            lane = owed.popleft().lane
            if lane is not None:
                lane.kept -= len(reply)
                if lane.is_held_up and lane.kept <= LOW:
                    lane.resume()
        self._is_within = False
        if self._pushes:
            self._let_pushes_pass()
        if not owed:
            self._is_quiet()
        elif (lane := owed[0].lane) is not None and lane.is_held_up:
            lane.resume()

    def push(self, data: bytes) -> None:
        """A push passes between two replies."""
        if self._is_within:
            self._pushes.append(data)
        else:
            self._out.append(data)

    def _let_pushes_pass(self) -> None:
        self._out += self._pushes
        self._pushes.clear()

    def flush(self) -> None:
        """Sends what has come in order."""
        if self._out:
            out, self._out = self._out, []
            self._write(out[0] if len(out) == 1 else b"".join(out))

    def drop(self) -> None:
        """The client has gone: nothing more is sent."""
        self._write = drop

    def say(self, reply: bytes) -> None:
        """Sends a reply of the proxy's own, when no other is owed."""
        if reply and not self.muted:
            self._out.append(reply)
        self.flush()

    async def quiet(self) -> None:
        """Ends when no reply is owed."""
        if len(self):
            self._quiet = self._quiet or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._quiet)

    def _is_quiet(self) -> None:
        if self._quiet is not None:
            self._quiet.set_result(None)
            self._quiet = None
