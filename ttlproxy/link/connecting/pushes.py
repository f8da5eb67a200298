"""Announcements: a RESP3 connection that does nothing but receive what Redis pushes.

A pending reply would delay a push, so nothing is sent here once tracking is on. When a writer has
its reply, the push can be read: `receive` takes what is there without waiting, before each look at
a client's chunk. asyncio's transports cannot do that, so this is a plain non-blocking socket.

Each `receive` costs a system call. A proxy that is alone needs none while no request of its own
clients is under way that could be announced: nobody else can cause a push. So a new proxy says
hello before it serves, by a key that it sets and deletes, and Redis counts the clients that track
keys.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import hiredis

from ttlproxy.core.keys import Keys
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.link.connecting.proxy_count import push_name
from ttlproxy.link.connecting.push_socket import Ask, PushSocket
from ttlproxy.wire import encode

# How long the key stays if its writer was killed, or may not delete it.
_LEFT_MS = 1000


def announcing(name: bytes) -> tuple[tuple[bytes | int, ...], ...]:
    """Requests that announce a name to all proxies: they set and delete a key of that name."""
    return (b"SET", name, b"", b"PX", _LEFT_MS), (b"DEL", name)


class Pushes(PushSocket):
    """The push connection.

    on_announcement(db, key, deadline_ms) is called for each announcement, on_swap(db, db) when two
    databases change places, on_rules(db, counts, pattern) when a rule changes, on_version(version)
    when the slots of a Cluster's node are told of that, on_flush() when Redis says that any key may
    be gone, on_hello() when another proxy is about to serve, on_walks(who) when a proxy
    walks over the data for all, on_layout(version) when one has written down the layout's version,
    on_news(news) when another proxy tells what all must acknowledge, on_loss() once when the
    connection ends.

    hears: whether it hears announcements of deadlines
    acknowledged: the news that all others see to be known here
    """

    def __init__(
        self,
        keys: Keys,
        on_announcement: Callable[[int, bytes, int], None],
        on_swap: Callable[[int, int], None],
        on_rules: Callable[[int, bool, bytes], None],
        on_version: Callable[[bytes], None],
        on_flush: Callable[[], None],
        on_hello: Callable[[], None],
        on_walks: Callable[[bytes], None],
        on_layout: Callable[[bytes], None],
        on_news: Callable[[bytes], None],
        on_loss: Callable[[], None],
        choose: Callable[[Ask], bool] = lambda ask: True,
    ) -> None:
        """`choose(ask)` says, before Redis tracks anything, whether this proxy is to hear
        announcements of deadlines. See modes.py."""
        super().__init__(on_loss)
        self.hears = True
        self.acknowledged = set[bytes]()
        self._keys = keys
        self._on_announcement = on_announcement
        self._on_swap = on_swap
        self._on_rules = on_rules
        self._on_version = on_version
        self._on_flush = on_flush
        self._on_hello = on_hello
        self._on_walks = on_walks
        self._on_layout = on_layout
        self._on_news = on_news
        self._choose = choose
        self._listening: asyncio.Future[bool] | None = None

    def _take(self, message: object) -> None:
        if isinstance(message, list) and message[:1] == [b"message"]:
            self._on_news(message[2])
            return
        if not isinstance(message, list) or message[:1] != [b"invalidate"]:
            self._answered(message)
            return
        if message[1] is None:
            self._on_flush()
            return
        for name in message[1]:
            announced = self._keys.announced(name)
            if announced:
                db, deadline_ms, key = announced
                self._on_announcement(db, key, deadline_ms)
            elif databases := self._keys.swapped(name):
                self._on_swap(*databases)
            elif ruled := self._keys.ruled(name):
                self._on_rules(*ruled)
            elif (version := self._keys.rules_version(name)) is not None:
                self._on_version(version)
            elif name == self._keys.hello:
                self._on_hello()
            elif who := self._keys.walking(name):
                self._on_walks(who)
            elif (layout := self._keys.layout_told(name)) is not None:
                self._on_layout(layout)

    async def listen(self, command: bytes, channel: bytes) -> bool:
        """Subscribes, or ends that; whether Redis lets us. Raises UpstreamError."""
        self._listening = self._loop.create_future()
        await self.send(encode((command, channel)))
        return await self._listening

    def _answered(self, message: object) -> None:
        if self._listening is not None and not self._listening.done():
            self._listening.set_result(not isinstance(message, hiredis.ReplyError))

    def close(self) -> None:
        super().close()
        if self._listening is not None and not self._listening.done():
            self._listening.set_exception(UpstreamError("the push connection was lost"))
            self._listening.exception()  # maybe nobody waits

    def _opening(self) -> list[Words]:
        return [(b"CLIENT", b"SETNAME", push_name(self._keys.prefix))]

    def _begin(self, connection: socket.socket) -> None:
        keys = self._keys
        self.hears = self._choose(lambda *requests: self._replies(connection, *requests))
        heard = [keys.announcement_prefix] if self.hears else keys.seldom_announced
        prefixes = (word for prefix in heard for word in (b"PREFIX", prefix))
        self._ask(connection, (b"CLIENT", b"TRACKING", b"ON", b"BCAST", *prefixes))
