"""A Sentinel that answers what a test says, in the test's own event loop.

Real Sentinels take seconds to get into most states, and into some only by chance.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import hiredis

from ttlproxy.addresses import Address
from ttlproxy.net.tasks import cancel

NAME = "mymaster"
_UNKNOWN = b"-ERR No such master with that name\r\n"


class ScriptedSentinel:
    """
    master: what it names; None if it knows none; epoch, flags: what it says of that
    refusal: its answer to all requests, if there is one
    is_silent: it takes requests and answers none, until it `speaks`
    asked: how often it was asked for the master
    """

    def __init__(self, address: Address, master: Address | None) -> None:
        self.address = address
        self.master = master
        self.epoch = 7
        self.flags = "master"
        self.refusal = ""
        self.is_silent = False
        self.asked = 0
        self.has_listener = asyncio.Event()
        self._was_asked = asyncio.Event()
        self._listeners = list[asyncio.StreamWriter]()
        self._conversations = set[asyncio.Task[None]]()
        self._left_out = list[tuple[asyncio.StreamWriter, bytes]]()

    async def gets_asked(self, times: int = 1) -> None:
        """Ends when it was asked for the master so many times more."""
        until = self.asked + times
        while self.asked < until:
            self._was_asked.clear()
            await self._was_asked.wait()

    @property
    def connections(self) -> int:
        """The number of connections that it has accepted so far."""
        return len(self._conversations)

    def speaks(self) -> None:
        """It answers what it was asked while it was silent."""
        self.is_silent = False
        for writer, reply in self._left_out:
            writer.write(reply)

    def publish(self, channel: str, message: str) -> None:
        for listener in self._listeners:
            listener.write(_bulks("message", channel, message))

    def promotes(self, candidate: Address, service: str = NAME) -> None:
        """It has told the candidate to become a master, and waits until it is one."""
        self.flags = "master,failover_in_progress"
        message = f"slave x {candidate.host} {candidate.port} @ {service} 127.0.0.1 1"
        self.publish("+failover-state-wait-promotion", message)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._conversations.add(asyncio.create_task(self._serve(reader, writer)))

    async def close(self) -> None:
        await cancel(*self._conversations)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser = hiredis.Reader()
        try:
            while data := await reader.read(65536):
                parser.feed(data)
                while (words := parser.gets()) is not False:
                    self._take([word.decode() for word in words], writer)
        finally:
            writer.close()

    def _take(self, words: Sequence[str], writer: asyncio.StreamWriter) -> None:
        if words[0] == "SUBSCRIBE":
            for count, channel in enumerate(words[1:], 1):
                writer.write(b"*3\r\n$9\r\nsubscribe\r\n%s:%d\r\n" % (_bulk(channel), count))
            self._listeners.append(writer)
            self.has_listener.set()
        elif self.is_silent:
            self._left_out.append((writer, self._reply(words)))
        else:
            writer.write(self._reply(words))

    def _reply(self, words: Sequence[str]) -> bytes:
        if self.refusal:
            return b"-%s\r\n" % self.refusal.encode()
        if words[0] != "SENTINEL":
            return b"+OK\r\n"
        has_it = words[2] == NAME and self.master is not None
        if words[1] == "MASTER":
            state = ("name", NAME, "flags", self.flags, "config-epoch", str(self.epoch))
            return _bulks(*state) if has_it else _UNKNOWN
        self.asked += 1
        self._was_asked.set()
        return _bulks(*map(str, self.master)) if has_it and self.master else b"*-1\r\n"


@asynccontextmanager
async def scripted_sentinel(
    master: Address | None, port: int = 0
) -> AsyncIterator[ScriptedSentinel]:
    """Listens on 127.0.0.1, until the end."""
    sentinel = ScriptedSentinel(Address("", 0), master)
    async with await asyncio.start_server(sentinel.accept, "127.0.0.1", port) as listening:
        sentinel.address = Address(*listening.sockets[0].getsockname())
        try:
            yield sentinel
        finally:
            await sentinel.close()


def _bulks(*words: str) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(map(_bulk, words))


def _bulk(word: str) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(word), word.encode())
