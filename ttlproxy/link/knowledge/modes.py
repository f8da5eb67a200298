"""How proxies learn of managed keys: a few hear of all, the others look up what clients name.

A proxy in broadcast mode hears of each first deadline at once, and each such proxy makes
announcements dearer for Redis. The others (core/knowledge.py) are told a moment after the writer
has its reply. So as long as there is one of these, each proxy claims a key before it sends a write
that may announce (claims.py). While all proxies are in broadcast mode, none does.

With several I/O threads Redis may write an announcement after the reply to the writer, so a proxy
in broadcast mode would hear of it too late. A claim has a whole round trip for that. So there, each
of several proxies looks keys up.

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
_THREADS: Final = (
    "Redis has several io-threads, so it may announce a deadline after the reply to the request"
    " that sets it: "
)
_LOOKS_UP: Final = "where several proxies or workers are attached, each looks up keys"
_MAY_LOSE: Final = (
    "a value written through one proxy or worker may keep the deadline that was just set through"
    " another, and be deleted"
)
_UNKNOWN: Final = (
    "Redis does not tell whether it has io-threads. If it has, and several proxies or workers are"
    " attached, start them with --knowledge on-demand"
)


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
        self._has_threads: bool | None = False  # None: Redis does not tell
        self._must_hear = False  # of all keys: others do not react

    def meet(self, has_threads: bool | None) -> None:
        """Whether the server has several I/O threads, as it tells now; None if it does not."""
        if has_threads != self._has_threads:
            self._has_threads = has_threads
            if has_threads:
                hears = self._context.keys.clustered or self._wanted == "broadcast"
                log.warning("%s%s", _THREADS, _MAY_LOSE if hears else _LOOKS_UP)
            elif has_threads is None:
                log.info(_UNKNOWN)

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
        self._must_hear = self._must_hear and context.has_mode
        self._is_unclaiming = not (looks_up or counted[3])
        left = [keys.unclaiming] * (not self._is_unclaiming) + [keys.broadcast] * looks_up
        if left:
            ask(*((b"UNSUBSCRIBE", name) for name in left))
        return looks_up

    def _looks_up(self, counted: Any) -> bool:
        few = 1 if self._has_threads else FEW
        return self._wanted == "on-demand" or (self._wanted == "auto" and counted[1] > few)

    def hear_of_all(self) -> None:
        """Looks no keys up after all, because another proxy does not react."""
        self._must_hear = True
        self._context.know(on_demand=False)

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

    async def learn(self, redis: Redis, pushes: Pushes, reply: Any) -> bool:
        """Claims keys from now on, or no more, after a reply to `question`. Returns whether keys
        are to be looked up from now on: sessions that are there must end.

        Raises redis-py's ConnectionError or TimeoutError, or UpstreamError.
        """
        context = self._context
        if context.knowledge is not None or context.keys.clustered:
            return False
        if self._is_not_alone_with_threads(reply):
            self._claim(True)
            if await self._is_under_way():
                return False  # the next heartbeat sees the same
            context.know(on_demand=True)
            return True
        if not self._tells(reply) or reply[3]:
            self._claim(True)
            if self._is_unclaiming and not await self._is_under_way():
                self._is_unclaiming = False
                await pushes.listen(b"UNSUBSCRIBE", context.keys.unclaiming)
        elif not self._is_unclaiming:
            await self._claim_no_more(redis, pushes)
        return False

    def _is_not_alone_with_threads(self, reply: Any) -> bool:
        may = self._has_threads and self._wanted == "auto" and not self._must_hear
        return bool(may) and self._tells(reply) and reply[1] + reply[3] > 1

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
