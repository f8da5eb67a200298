"""Asks the Sentinels for the master: each of them once a second, and when it has news.

An answer counts by its configuration epoch, which grows with each failover: a Sentinel that was cut
off, or has not heard of the failover yet, has an older one. During a failover the Sentinel that
leads it names the promoted replica before the others do (src/sentinel.c,
sentinelGetCurrentMasterAddress), with the new epoch.

That Sentinel asks for INFO once a second, so it notices up to a second late that the replica is a
master. Writes of clients to the old master are lost meanwhile. So once it says that it promotes a
replica, we ask that replica ourselves.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from ttlproxy.addresses import Address, Upstream
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.connections import connected
from ttlproxy.link.connecting.failures import Asked, cause
from ttlproxy.link.connecting.pipeline import run, valid
from ttlproxy.link.connecting.reachability import met, mismatch, resolved
from ttlproxy.net.sockets import is_number
from ttlproxy.net.tasks import run_all, run_together

log = logging.getLogger(__name__)

_NAME: Final = "ttlproxy:sentinel"
_EVERY_S: Final = 1.0
# Once one Sentinel has answered, the others have this time: one that hangs must not delay a start.
_GRACE_S: Final = 0.2
# If none answers, the reason is known this time after connect_timeout.
_EXPLAIN_S: Final = 3.0
# Seconds between two questions to a replica that is being promoted, and how long one may take.
_PROMOTION_S: Final = 0.05
_PROMOTION_PATIENCE_S: Final = 1.0
# Published when a replica is told to become a master, when it has become one, and when a Sentinel
# has heard of that from others.
_PROMOTES: Final = "+failover-state-wait-promotion"
_NEWS: Final = (_PROMOTES, "+promoted-slave", "+switch-master")
_NO_SENTINEL: Final = re.compile("unknown command", re.IGNORECASE)


class Answer(NamedTuple):
    """The master's address, and the configuration epoch of that knowledge."""

    epoch: int
    address: Address


class Sentinel:
    """One Sentinel: its last answer, or why it gives none. Both are empty until it was asked."""

    def __init__(
        self,
        address: Address,
        upstream: Upstream,
        timeout_s: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        """`upstream`: the master's, as configured; `on_change()` is called when the answer
        changes."""
        assert upstream.sentinels is not None
        self.address = address
        self.answer: Answer | None = None
        self.trouble = ""
        self._upstream = upstream
        self._server = upstream.at_sentinel(address)
        self._service = upstream.sentinels.service
        self._timeout_s = timeout_s
        self._on_change = on_change
        self._news = asyncio.Event()
        self._candidate: Address | None = None  # the replica that this Sentinel promotes now

    @property
    def was_asked(self) -> bool:
        return self.answer is not None or bool(self.trouble)

    async def run(self) -> None:
        """Keeps the answer up to date, until cancelled."""
        while True:
            server = self._server
            try:
                server = await resolved(server, self._timeout_s())
                await run_together(
                    asking=self._ask_again_and_again(server), listening=self._listen(server)
                )
            except (RedisError, OSError) as trouble:
                self._learn(None, await self._why(server, _explained(trouble)))
            await asyncio.sleep(_EVERY_S)

    async def _why(self, server: Upstream, trouble: str) -> str:
        """Returns the trouble, and its cause if that is TLS, which is checked once."""
        if trouble in self.trouble:
            return self.trouble
        why = await mismatch(server, "sentinel") if is_number(server.host) else ""
        return f"{why} ({trouble})" if why else trouble

    async def _ask_again_and_again(self, server: Upstream) -> None:
        async with connected(server, _NAME, self._timeout_s()) as redis:
            while True:
                self._news.clear()
                self._learn(*await self._ask(redis))
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PROMOTION_S if self._candidate else _EVERY_S):
                        await self._news.wait()

    async def _ask(self, redis: Redis) -> tuple[Answer | None, str]:
        """Returns the answer, or why there is none."""
        name = self._service.encode()
        words = ((b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name), (b"SENTINEL", b"MASTER", name))
        place, master = await run(redis, [(0, each) for each in words])
        if valid(place) is None:
            return None, f"it knows no master named {self._service}"
        host, port = valid(place)
        state = valid(master)
        facts = dict(zip(state[::2], state[1::2], strict=True))
        answer = Answer(int(facts.get(b"config-epoch", 0)), Address(host.decode(), int(port)))
        is_failing_over = b"failover_in_progress" in facts[b"flags"].split(b",")
        return await self._after_promotion(answer, is_failing_over), ""

    async def _after_promotion(self, answer: Answer, is_failing_over: bool) -> Answer:
        """Returns the answer that the Sentinel will give once it has noticed that its candidate is
        a master."""
        candidate = self._candidate
        if not is_failing_over or candidate == answer.address:
            self._candidate = None
        elif candidate is not None:
            with suppress(OSError):  # its name may be unknown for a while
                server = await resolved(self._upstream.at(candidate), _PROMOTION_PATIENCE_S)
                found = await met(server, _PROMOTION_PATIENCE_S)
                if found is not None and found.is_master:
                    return Answer(answer.epoch + 1, candidate)
        return answer

    async def _listen(self, server: Upstream) -> None:
        async with (
            connected(server, _NAME, self._timeout_s(), patient=True) as redis,
            redis.pubsub(ignore_subscribe_messages=True) as channels,
        ):
            await channels.subscribe(*_NEWS)
            async for message in channels.listen():
                if message["channel"] == _PROMOTES.encode():
                    self._promotes(message["data"])
                self._news.set()

    def _promotes(self, event: bytes) -> None:
        """Takes the replica that is promoted from `event`: slave NAME HOST PORT @ SERVICE HOST
        PORT, of the replica and of its master."""
        _, _, host, port, _, service, *_ = event.split()
        if service == self._service.encode():
            self._candidate = Address(host.decode(), int(port))

    def _learn(self, answer: Answer | None, trouble: str) -> None:
        if (answer, trouble) == (self.answer, self.trouble):
            return
        if trouble and trouble != self.trouble:
            log.warning("the Sentinel at %s is of no use: %s", self.address, trouble)
        elif self.trouble and not trouble:
            log.info("the Sentinel at %s answers again", self.address)
        self.answer, self.trouble = answer, trouble
        self._on_change()


class SentinelGroup:
    """All Sentinels of a URL."""

    def __init__(self, upstream: Upstream, timeout_s: Callable[[], float]) -> None:
        assert upstream.sentinels is not None
        self._service = upstream.sentinels.service
        self._timeout_s = timeout_s
        self._changed = asyncio.Event()
        self.each = [
            Sentinel(address, upstream, timeout_s, self._tell)
            for address in upstream.sentinels.addresses
        ]

    async def run(self) -> None:
        """Keeps the answers up to date, until cancelled."""
        await run_all(*(sentinel.run() for sentinel in self.each))

    async def changed(self) -> None:
        """Ends when a Sentinel gives another answer than before."""
        await self._changed.wait()

    async def answer(self) -> Answer:
        """Returns the master's address now. Raises UpstreamError, with what each Sentinel says, if
        none knows it or they disagree."""
        limit_s = self._timeout_s() + _EXPLAIN_S
        await self._until(limit_s, lambda: any(each.answer for each in self.each))
        await self.until_asked(_GRACE_S)
        best = self.latest()
        if best is None:
            said = "; ".join(f"{each.address}: {_said(each)}" for each in self.each)
            raise UpstreamError(f"no agreed master {self._service} of the Sentinels: {said}")
        return best

    def latest(self) -> Answer | None:
        """Returns the master that they agree on now; None if they do not agree, or none answers."""
        return chosen([each.answer for each in self.each if each.answer])

    async def until_asked(self, limit_s: float) -> None:
        """Ends when each has answered, or is known to give no answer, or the time is over."""
        await self._until(limit_s, lambda: False)

    async def _until(self, limit_s: float, is_enough: Callable[[], bool]) -> None:
        """Ends when it is enough, all have been asked, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not (is_enough() or all(each.was_asked for each in self.each)):
                    await self.changed()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def chosen(answers: Sequence[Answer]) -> Answer | None:
    """Returns the newest epoch's answer; if these differ, the most frequent one; None for a tie."""
    newest = max((answer.epoch for answer in answers), default=0)
    votes = Counter(answer for answer in answers if answer.epoch == newest).most_common(2)
    if not votes or (len(votes) > 1 and votes[0][1] == votes[1][1]):
        return None
    return votes[0][0]


def _said(sentinel: Sentinel) -> str:
    if sentinel.answer is not None:
        return f"the master is {sentinel.answer.address}"
    return sentinel.trouble or "no answer yet"


_SENTINEL: Final = Asked("the Sentinel", "sentinel", "USER", "docs/sentinel.md has its rights")


def _explained(trouble: RedisError | OSError) -> str:
    if isinstance(trouble, ResponseError) and _NO_SENTINEL.search(str(trouble)):
        return "it is no Sentinel"
    return str(cause(trouble, _SENTINEL))
