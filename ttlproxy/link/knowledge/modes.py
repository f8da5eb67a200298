"""Decides whether this proxy hears of deadlines that come soon: a few do; all others ask Redis at
each request.

Each proxy that hears of deadlines makes announcements dearer for Redis. Announced deadlines are
hints for reads; what writes must know is confirmed by all proxies: see activation.py.

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
# The number of last heartbeats that `lately` is about.
_LATELY: Final = 3


class Modes:
    """The mode of this proxy, and the known modes of the others.

    channel: that of all proxies which work together; empty before the first connection
    news: what was told before the present connection: see activation.py
    may_subscribe: whether Redis lets this proxy subscribe; if not, others do not see it
    lately: the most proxies at one of the last heartbeats; 0 if that is forgotten
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.channel = b""
        self.news: list[bytes] = []
        self.may_subscribe = False
        self._counts = deque[int](maxlen=_LATELY)

    def choose(self, ask: Ask) -> bool:
        """Subscribes; returns whether this proxy is to hear announcements of deadlines. Runs in a
        thread, on the new push connection.

        All push connections have the same number of channels, not counting those of news: by the
        number activation.py finds a proxy that does not acknowledge.
        """
        keys = self._context.keys
        self.channel = proxy_channel(self._context)
        join_channel(ask, self.channel)
        (counted,) = ask(self.question())
        is_counted = isinstance(counted, list) and not keys.clustered
        hears = not is_counted or counted[1] < FEW
        (reply,) = ask((b"SUBSCRIBE", keys.broadcast if hears else keys.on_demand))
        self.may_subscribe = not isinstance(reply, Exception)
        if not self.may_subscribe:
            log.debug("this proxy hears of deadlines: %s", reply)
            return True
        (channels,) = ask((b"PUBSUB", b"CHANNELS", keys.news_prefix + b"*"))
        told = map(keys.news_of, channels if isinstance(channels, list) else ())
        self.news = [news for news in told if news is not None]
        return hears

    def question(self) -> Words:
        """Returns the request for the numbers of proxies that hear of deadlines, and that do
        not."""
        keys = self._context.keys
        return (b"PUBSUB", b"NUMSUB", keys.broadcast, keys.on_demand)

    def attached(self, reply: Any) -> int | None:
        """Returns the number of proxies in the reply to `question`; None if it does not tell."""
        if not (self.may_subscribe and isinstance(reply, list)):
            return None
        attached: int = reply[1] + reply[3]
        self._counts.append(attached)
        return attached

    @property
    def lately(self) -> int:
        return max(self._counts, default=0)

    def forget_counts(self) -> None:
        """Forgets the counts of the last heartbeats: all losses until now have been noticed."""
        self._counts.clear()

    async def has_others(self, redis: Redis) -> bool:
        """Whether there are other proxies. Each tracks keys and subscribes before it asks, so of
        two that begin together one knows of the other. Raises redis-py's RedisError."""
        counted, info = await run(redis, [(0, self.question()), (0, CLIENTS)])
        attached = self.attached(counted)
        return (attached or trackers(fields(valid(info)))) > 1
