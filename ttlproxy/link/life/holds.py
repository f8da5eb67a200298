"""Holds a session until what it must not see is reaped, or hold_max is over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from redis.asyncio import Redis
from redis.exceptions import ClusterDownError

from ttlproxy.core.counters import Counters
from ttlproxy.core.registry import DbKey
from ttlproxy.errors import ClusterIsDown, ReapRefused, SlotMoved, UpstreamError
from ttlproxy.link.reaper.reap_requests import ReapRequest
from ttlproxy.link.shared.barriers import PATIENCE_S
from ttlproxy.net.tasks import fail, unless

if TYPE_CHECKING:
    from ttlproxy.link.life.link import Link


@contextmanager
def held(counters: Counters, why: str) -> Iterator[None]:
    """Measures one hold; `why`: one of HELD. It counts if it fails, but not if it is cancelled:
    then the client has gone."""
    began_s = time.monotonic()

    def observe() -> None:
        counters.hold_ms[why].observe((time.monotonic() - began_s) * 1000)

    try:
        yield
    except Exception:
        observe()
        raise
    observe()


class Holds:
    """Makes sessions wait. Time in which Redis answers nobody, or no writes, does not count."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._context = link.context
        self._barriers = link.barriers

    async def until_reaped(
        self,
        places: Collection[DbKey],
        databases: Iterable[int],
        unswept: Iterable[DbKey],
        only_reads: bool,
    ) -> None:
        """Reaps what is due now at these places and in all of these databases; sweeps `unswept`.

        While writes are paused in Redis nothing can be reaped: a request that `only_reads` is not
        held then, others are until the pause is over. After hold_max, pauses not counted, raises
        ReapRefused if Redis answers errors, TimeoutError if it is away; SlotMoved at once if
        another master has the keys.
        """
        request: ReapRequest | None = None

        def ask() -> asyncio.Future[None]:
            nonlocal request
            request = self._link.reap_requests.add(places, databases, unswept)
            return request.done

        try:
            await self._until("reap", ask, only_reads)
        except TimeoutError:
            if request is None or request.refusal is None:
                raise
            is_down = isinstance(request.refusal, ClusterDownError)
            raise (ClusterIsDown if is_down else ReapRefused)(str(request.refusal)) from None

    async def until_rules_are_read(self) -> None:
        """Ends when no rule of ONWRITE is in doubt. Raises TimeoutError after hold_max, pauses not
        counted."""
        await self._until("rules", self._context.actions.reading)

    async def until_sure(self, places: Collection[DbKey]) -> None:
        """Ends when all proxies know the families of these places, and the state that they share is
        stored. If Redis refuses that, it will refuse the client's request. Raises TimeoutError
        after hold_max, pauses not counted."""
        calls = self._context.script_calls
        if not calls.has_state:
            await self._until("family", self._link.shared_state.stored)
        if any(not calls.families.are_sure(key) for _, key in places):
            await self._until("family", lambda: self._link.activation.add(places))

    async def until_all_know_rules(self) -> None:
        """Ends when all proxies have heard of the rules that are stored now, and requests that were
        sent by older rules have been executed. Raises TimeoutError after hold_max, pauses not
        counted."""
        await self._until("rules", self._link.activation.tell_all)

    async def indexed(self, places: Collection[DbKey]) -> dict[bytes, bool]:
        """Returns for each key whether it may have an index in any of these places. Raises
        TimeoutError after hold_max, pauses not counted."""
        asked, found = list(places), dict[bytes, bool]()

        def ask() -> asyncio.Future[None]:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            async def look(redis: Redis) -> None:
                try:
                    looks = await self._context.may_be_indexed(redis, asked)
                except BaseException:  # the job is not done again by itself
                    fail(done, UpstreamError("the link was lost"))
                    raise
                for (_, key), may_be_indexed in zip(asked, looks, strict=True):
                    found[key] = found.get(key, False) or may_be_indexed
                done.set_result(None)

            self._link.jobs.soon(look)
            return done

        await self._until("index", ask)
        return found

    async def until_served(self) -> None:
        """Ends when the link serves. Raises TimeoutError after hold_max."""
        with held(self._context.counters, "redis"):
            async with asyncio.timeout(self._context.settings.hold_max):
                await self._context.serving.ready.wait()

    async def _until(
        self, why: str, ask: Callable[[], asyncio.Future[None]], only_reads: bool = False
    ) -> None:
        """Asks, and asks again after each loss of the link. Raises TimeoutError after hold_max, and
        SlotMoved."""
        with held(self._context.counters, why):
            async with asyncio.timeout(self._context.settings.hold_max) as limit:
                while True:
                    await self._context.serving.ready.wait()
                    if only_reads and self._barriers.holds:
                        return None
                    try:
                        return await self._done(ask(), only_reads, limit)
                    except SlotMoved:
                        raise
                    except UpstreamError:
                        pass  # the link was lost: ask in its next life

    async def _done(
        self, done: asyncio.Future[None], only_reads: bool, limit: asyncio.Timeout
    ) -> None:
        """Ends when `done` is, or when writes are paused and the request `only_reads`.

        `limit` does not run during a pause.
        """
        loop, barriers = asyncio.get_running_loop(), self._barriers
        while True:
            await asyncio.wait({done}, timeout=PATIENCE_S)
            if done.done():
                return done.result()
            end_s, since_s = limit.when(), loop.time()
            limit.reschedule(None)
            await unless(done, barriers.judged(), "a wait for a barrier")
            if barriers.holds and only_reads:
                done.cancel()
                return None
            await unless(done, barriers.released(), "a wait for a barrier")
            limit.reschedule((end_s or since_s) + loop.time() - since_s)
