"""Carries out the steps of a session; one may wait, while the client's later bytes are kept.

Before its requests go to Redis: reaps, new families, and Redis that does not keep up. After them:
replies, the link, or an item.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING

from ttlproxy.core.counters import Counters
from ttlproxy.core.registry import DbKey
from ttlproxy.core.signing import Signer
from ttlproxy.link import Link
from ttlproxy.link.knowledge.jobs import UNANSWERED_S
from ttlproxy.proxy.blocking_lease import BlockingLease
from ttlproxy.proxy.phase import CONNECTING, HOLDING, Phase
from ttlproxy.proxy.redis_connection import HIGH, Backend, Send, Take
from ttlproxy.session import Session, Step, Wait
from ttlproxy.session.replies import Tell

if TYPE_CHECKING:
    from ttlproxy.proxy.sharing.shared_upstream import SharedUpstream


class StepHolder(ABC):
    """A client of one Redis, or a lane.

    link: to its Redis; redis_is_full: Redis does not keep up
    write: gets what Redis sends; to_redis: sends bytes that ask for some number of replies
    """

    write: Take
    to_redis: Send

    def __init__(self, link: Link, counters: Counters) -> None:
        self.link = link
        self.redis_is_full = False
        self._counters = counters
        self._phase: Phase = CONNECTING
        self._held: HeldStep | None = None
        self._backend: Backend | SharedUpstream | None = None

    @abstractmethod
    def start(self, coroutine: Coroutine[None, None, None], why: str) -> asyncio.Task[None]:
        """Has it carried out; `why`: a word about it, for whoever lists tasks."""

    @abstractmethod
    def expects(self, step: Step) -> None:
        """The requests of a step are about to go to Redis."""

    @abstractmethod
    def wait_for_item(self) -> bool:
        """A request waits for an item from now on; False if it must be answered at once."""

    def ask(self, request: bytes, tell: Tell) -> None:
        """Sends a request of ours; `tell` is told its reply."""
        if self._backend is not None:
            self._backend.ask(request, tell)
        else:
            tell(None)

    def full(self, is_full: bool) -> None:
        """Redis does not keep up, or keeps up again."""
        self.redis_is_full = is_full
        if self._held is not None and not is_full:
            self._held.drained()

    def answer_now(self) -> None:
        """A request that waits for an item is answered now, even without one."""
        if self._held is not None:
            self._held.answer_now()

    def sent(self, session: Session, step: Step) -> None:
        """Requests have gone to Redis: does what follows at once, and later what they need."""
        session.has_sent(step.requests)
        context, places = self.link.context, session.registry.places
        if step.sweep_after:
            context.sweep_later(place for key in step.sweep_after for place in places(key))
        if step.apply_ttl_after:
            context.apply_ttl_later(step.apply_ttl_after)

    @property
    def _unsent_bytes(self) -> int:
        return len(self._held.unsent) if self._held is not None else 0

    def _carry_out(self, session: Session, step: Step) -> None:
        out = step.to_redis
        holds = step.is_held or len(out) > HIGH  # its requests, before they go to Redis
        if holds or step.pauses:
            assert self._backend is not None
            self._held = HeldStep(self, session, self._backend, step, has_gone=not holds)
            self._counters.held += 1 if step.must_reap else 0
            self._hold(self._held.run, "held step")
        if not holds:
            self.expects(step)
            if out:
                self.to_redis(out, step.requests)
            self.sent(session, step)

    def _hold(self, until: Callable[[], Awaitable[None]], why: str) -> None:
        """Keeps what comes in until `until()` ends."""
        self._enter(HOLDING)
        self._counters.holding += 1
        self.start(self._held_until(until), why).add_done_callback(self._released)

    async def _held_until(self, until: Callable[[], Awaitable[None]]) -> None:
        await until()

    def _enter(self, phase: Phase) -> None:
        """The one place that changes the phase."""
        self._phase = phase

    def _released(self, task: asyncio.Task[None]) -> None:
        self._counters.holding -= 1


class HeldStep:
    """One step. `run` ends when the client's later bytes may go on.

    unsent: its requests, held on their way to Redis
    """

    def __init__(
        self,
        client: StepHolder,
        session: Session,
        backend: Backend | SharedUpstream,
        step: Step,
        *,
        has_gone: bool,
    ) -> None:
        """`has_gone`: its requests have gone to Redis."""
        self._client = client
        self._link = client.link
        self._session = session
        self._backend = backend
        # Its bytes are left out, so that nothing keeps them from being freed.
        self._step = replace(step, to_redis=b"", withheld=b"", stopping=None)
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
            await self._backend.replies.answered()
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
