"""A step of the session that waits for something, while the client's later bytes are kept.

Before its requests go to Redis: reaps, new families, and Redis that does not keep up. After them:
replies, the link, or an item.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from ttlproxy.core.registry import DbKey
from ttlproxy.core.signing import Signer
from ttlproxy.link import Link
from ttlproxy.link.knowledge.jobs import UNANSWERED_S
from ttlproxy.proxy.blocking_lease import BlockingLease
from ttlproxy.session import Session, Step, Wait

if TYPE_CHECKING:
    from ttlproxy.proxy.client import Client
    from ttlproxy.proxy.redis_connection import ToRedis
    from ttlproxy.proxy.routed.lane import Lane
    from ttlproxy.proxy.sharing.shared_upstream import LaneUpstream


class HeldStep:
    """One step. `run` ends when the client's later bytes may go on.

    unsent: its requests, held on their way to Redis
    """

    def __init__(
        self,
        client: Client | Lane,
        link: Link,
        session: Session,
        backend: ToRedis | LaneUpstream,
        step: Step,
        *,
        has_gone: bool,
    ) -> None:
        """`has_gone`: its requests have gone to Redis."""
        self._client = client
        self._link = link
        self._session = session
        self._backend = backend
        # Its bytes are left out, so that nothing keeps them from being freed.
        self._step = replace(step, to_redis=b"", withheld=b"")
        self.unsent = b"" if has_gone else step.to_redis
        self._secret = session.script_calls.signer.secret  # with which its requests are signed
        self._drained: asyncio.Future[None] | None = None  # done when Redis keeps up again
        self._lease: BlockingLease | None = None

    async def run(self) -> None:
        work = self._carry_out()
        await (self._link.jobs.verify(work) if self._step.look else work)

    async def _carry_out(self) -> None:
        step = self._step
        if step.must_reap:
            places, databases, unswept = step.reap_places, step.reap_databases, step.sweep_before
            await self._link.holds.until_reaped(places, databases, unswept, not step.modifies)
        if step.unsure:
            await self._link.holds.until_sure(step.unsure)
            calls = self._session.script_calls
            if calls.signer.secret != self._secret:
                self.unsent = calls.signed_anew(self.unsent, Signer(self._secret))
        if step.is_held or self.unsent:
            self._client.expects(step)
            await self._send()
            self._client.sent(self._session, step)
        await self._follow()

    async def _send(self) -> None:
        """Sends in pieces: a transport could not be made to forget what it has."""
        client, at, most = self._client, 0, self._backend.most_at_once
        while at < len(self.unsent):
            client.to_redis(self.unsent[at : at + most], 0 if at else self._step.requests)
            at += most
            if client.redis_is_full:
                self._drained = asyncio.get_running_loop().create_future()
                await self._drained
        self.unsent = b""

    async def _follow(self) -> None:
        """Requests have gone to Redis: waits for what they need."""
        step, session = self._step, self._session
        is_unknown = step.uncounted or session.silent or session.behind_blocking
        if step.awaits or step.settles is not None or (step.look and not is_unknown):
            await self._client.passed()
        elif step.look:
            await asyncio.sleep(UNANSWERED_S)
        if step.settles is not None and step.settles.data:
            await self._link.holds.until_all_know_rules()
            self._client.write(step.settles.data)
        if step.asks:
            session.indexed = await self._link.holds.indexed(step.asks)
        if step.wait is not None:
            await self._wait(step.wait)

    async def _wait(self, wait: Wait) -> None:
        """A request waits for an item."""
        client, ask = self._client, self._client.ask
        lease = BlockingLease(self._session, wait, self._link.list_waiters, ask, self._be_sure)
        if not client.wait_for_item():
            lease.end()
        self._lease = lease
        try:
            await lease.run()
        finally:
            self._lease = None

    async def _be_sure(self, place: DbKey) -> None:
        if not self._session.may_set_deadline(place[1]):
            await self._link.holds.until_sure([place])

    def drained(self) -> None:
        """Redis keeps up again."""
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def answer_now(self) -> None:
        """A request that waits for an item is answered now, even without one."""
        if self._lease is not None:
            self._lease.end()


def follow(link: Link, session: Session, step: Step) -> None:
    """The requests of a step have gone to Redis: does later what they need."""
    if step.sweep_after:
        places = session.registry.places
        link.context.sweep_later(place for key in step.sweep_after for place in places(key))
    if step.apply_ttl_after:
        link.context.apply_ttl_later(step.apply_ttl_after)
