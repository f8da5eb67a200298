"""How proxies learn of managed keys: a few hear of all, the others look up what clients name.

A proxy in broadcast mode hears of each first deadline at once, and each such proxy makes
announcements dearer for Redis. The others (core/knowledge.py) are told a moment after the writer
has its reply. So as long as there is one of these, each proxy claims a key before it sends a write
that may announce (claims.py). While all proxies are in broadcast mode, none does.

Each proxy subscribes to channels on which nothing is published, because Redis counts subscribers,
and knows at once when one is gone. Who begins to look up keys subscribes first, and then waits
until everybody claims; who claims no more subscribes first, and then looks whether anybody looks up
keys. So one of two always sees the other.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from redis.asyncio import Redis

from ttlproxy.config import Settings
from ttlproxy.core.keys import MEETING
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.pipeline import Words, run, valid
from ttlproxy.link.connecting.push_socket import Ask
from ttlproxy.link.connecting.pushes import Pushes
from ttlproxy.link.connecting.server_identity import CLIENTS, fields, trackers
from ttlproxy.link.knowledge.lookup_connection import LookupConnection
from ttlproxy.link.server.meeting import meet
from ttlproxy.link.shared.barriers import IsPaused
from ttlproxy.link.shared.context import Context

log = logging.getLogger(__name__)

# So many proxies hear of all keys. Each costs Redis 2.5 us for an announcement, of some 45 us.
FEW: Final = 4


class Modes:
    """The mode of this proxy, and what it knows of the others'."""

    def __init__(self, settings: Settings, context: Context, is_paused: IsPaused) -> None:
        self._wanted = settings.knowledge
        self._context = context
        self._is_paused = is_paused
        signer = context.script_calls.signer
        self._key = signer.sign(MEETING, ())[:8] if context.has_own_secret else b"stored"
        self._may_subscribe = False  # else it hears of all keys, and always claims
        self._is_unclaiming = False  # others see that this proxy does not claim

    def choose(self, ask: Ask) -> bool:
        """Whether keys are to be looked up; subscribes if not. Runs in a thread, on the new push
        connection."""
        context, keys = self._context, self._context.keys
        if keys.clustered:
            return False
        meet(ask, keys.prefix, self._key)
        if context.has_mode and context.knowledge is not None:
            return True
        names = (keys.broadcast, keys.unclaiming)
        replies = ask(*((b"SUBSCRIBE", name) for name in names), self.question())
        counted = replies[-1]
        refused = [reply for reply in replies if isinstance(reply, Exception)]
        self._may_subscribe = not refused
        if refused:
            log.debug("this proxy hears of all keys, and claims them: %s", refused[0])
            return False
        looks_up = not context.has_mode and self._looks_up(counted)
        self._is_unclaiming = not (looks_up or counted[3])
        left = [keys.unclaiming] * (not self._is_unclaiming) + [keys.broadcast] * looks_up
        if left:
            ask(*((b"UNSUBSCRIBE", name) for name in left))
        return looks_up

    def _looks_up(self, counted: Any) -> bool:
        return self._wanted == "on-demand" or (self._wanted == "auto" and counted[1] > FEW)

    def begin(self, looks_up: bool) -> None:
        """A push connection is open; `looks_up`: what `choose` has said."""
        context = self._context
        context.know(on_demand=looks_up)
        self._claim(not self._is_unclaiming)

    def lost(self) -> None:
        """The push connection is lost, so nobody sees any more that this proxy does not claim."""
        self._is_unclaiming = False
        self._claim(True)

    def _claim(self, claims: bool) -> None:
        context = self._context
        context.script_calls.claims = claims and not context.keys.clustered

    def question(self) -> Words:
        """How many proxies hear of all keys, and how many look them up."""
        keys = self._context.keys
        return (b"PUBSUB", b"NUMSUB", keys.broadcast, keys.on_demand)

    def attached(self, reply: Any) -> int | None:
        """How many proxies the reply to `question` tells of; None if it does not tell."""
        return reply[1] + reply[3] if self._tells(reply) else None

    async def has_others(self, redis: Redis) -> bool:
        """Whether there are other proxies. Each tracks keys and subscribes before it asks, so of
        two that begin together one knows of the other. Raises redis-py's RedisError."""
        counted, info = await run(redis, [(0, self.question()), (0, CLIENTS)])
        attached = self.attached(counted)
        return (attached or trackers(fields(valid(info)))) > 1

    def _tells(self, reply: Any) -> bool:
        may = self._may_subscribe or self._context.knowledge is not None
        return may and isinstance(reply, list)

    async def learn(self, redis: Redis, pushes: Pushes, reply: Any) -> None:
        """Claims keys from now on, or no more, after a reply to `question`.

        Raises redis-py's ConnectionError or TimeoutError, or UpstreamError.
        """
        context = self._context
        if context.knowledge is not None or context.keys.clustered:
            return
        if not self._tells(reply) or reply[3]:
            self._claim(True)
            if self._is_unclaiming and not await self._is_under_way():
                self._is_unclaiming = False
                await pushes.listen(b"UNSUBSCRIBE", context.keys.unclaiming)
        elif not self._is_unclaiming:
            await self._claim_no_more(redis, pushes)

    async def _is_under_way(self) -> bool:
        """Whether Redis may not have carried out yet what was sent without a claim. Of two barriers
        the second was certainly sent later than that."""
        return await self._is_paused() or await self._is_paused()

    async def _claim_no_more(self, redis: Redis, pushes: Pushes) -> None:
        context = self._context
        if not await pushes.listen(b"SUBSCRIBE", context.keys.unclaiming):
            self._may_subscribe = False
            return
        (reply,) = await run(redis, [(0, self.question())])
        if isinstance(reply, list) and not reply[3]:
            self._is_unclaiming = True
            self._claim(False)
        else:
            await pushes.listen(b"UNSUBSCRIBE", context.keys.unclaiming)

    async def count_unclaiming(self, lookups: LookupConnection) -> int:
        """How many proxies do not claim. Raises UpstreamError."""
        (reply,) = await lookups.ask([(b"PUBSUB", b"NUMSUB", self._context.keys.unclaiming)])
        if isinstance(reply, Exception):
            raise UpstreamError(f"it must tell who looks up keys: {reply}")
        return int(reply[1])
