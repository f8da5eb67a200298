"""Decides whether this proxy hears of deadlines that come soon: a few do; all others ask Redis at
each request.

Each that hears makes announcements dearer for Redis. The news are hints for reads; news that writes
must know are confirmed by all proxies: see activation.py.

Each proxy subscribes to channels, because Redis counts subscribers, and knows at once when one is
gone.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Any, Final

from redis.asyncio import Redis

from ttlproxy.link.connecting.known_server import CLIENTS, fields, trackers
from ttlproxy.link.connecting.pipeline import Words, run, valid
from ttlproxy.link.connecting.pushes import Ask
from ttlproxy.link.server.compatibility import join_channel, proxy_channel
from ttlproxy.link.shared.context import Context

log = logging.getLogger(__name__)

# The number of proxies that hear of deadlines. Each costs Redis 2.5 us for an announcement, of some
# 45 us.
FEW: Final = 4
# The heartbeats that count as the last ones.
_LATELY: Final = 3


class Modes:
    """The mode of this proxy, and what it knows of the others'.

    channel: that of all proxies which work together; empty before the first connection
    news: what was told before the present connection: see activation.py
    may_subscribe: Redis lets this proxy subscribe; else others do not see it
    lately: how many proxies there were at the last heartbeats, at most; 0 if that is forgotten
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.channel = b""
        self.news: list[bytes] = []
        self.may_subscribe = False
        self._counts = deque[int](maxlen=_LATELY)

    def choose(self, ask: Ask) -> bool:
        """Whether this proxy is to hear announcements of deadlines; subscribes. Runs in a thread,
        on the new push connection.

        All connections of this kind have as many channels, those of families apart: by the number
        activation.py finds one that does not react.
        """
        keys = self._context.keys
        self.channel = proxy_channel(self._context)
        join_channel(ask, self.channel)
        (counted,) = ask(self.question())
        hears = self._is_to_hear(counted)
        (reply,) = ask((b"SUBSCRIBE", keys.broadcast if hears else keys.on_demand))
        self.may_subscribe = not isinstance(reply, Exception)
        if not self.may_subscribe:
            log.debug("this proxy hears of deadlines: %s", reply)
            return True
        (channels,) = ask((b"PUBSUB", b"CHANNELS", keys.told + b"*"))
        told = map(keys.told_by, channels if isinstance(channels, list) else ())
        self.news = [news for news in told if news is not None]
        return hears

    def _is_to_hear(self, counted: Any) -> bool:
        is_counted = isinstance(counted, list) and not self._context.keys.clustered
        return not is_counted or counted[1] < FEW

    def question(self) -> Words:
        """Asks how many proxies hear of deadlines, and how many do not."""
        keys = self._context.keys
        return (b"PUBSUB", b"NUMSUB", keys.broadcast, keys.on_demand)

    def attached(self, reply: Any) -> int | None:
        """The number of proxies in the reply to `question`; None if it does not tell."""
        if not (self.may_subscribe and isinstance(reply, list)):
            return None
        attached: int = reply[1] + reply[3]
        self._counts.append(attached)
        return attached

    @property
    def lately(self) -> int:
        return max(self._counts, default=0)

    def forget_counts(self) -> None:
        """All losses until now have been noticed."""
        self._counts.clear()

    async def has_others(self, redis: Redis) -> bool:
        """Whether there are other proxies. Each tracks keys and subscribes before it asks, so of
        two that begin together one knows of the other. Raises redis-py's RedisError."""
        counted, info = await run(redis, [(0, self.question()), (0, CLIENTS)])
        attached = self.attached(counted)
        return (attached or trackers(fields(valid(info)))) > 1
