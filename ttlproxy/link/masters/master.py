"""One of several masters of a Cluster: its link, its reaper, and the slots that it owns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ttlproxy.addresses import Upstream
from ttlproxy.core.keys import slot
from ttlproxy.core.registry import UNKNOWN
from ttlproxy.core.topology import ClusterNode, cluster_nodes
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.connections import connected
from ttlproxy.link.connecting.pipeline import ask_once, run, valid
from ttlproxy.link.knowledge.announcements import Pushes
from ttlproxy.link.life.link import Link
from ttlproxy.link.reaper.reaper import Reaper
from ttlproxy.link.reaper.schedules import Schedules
from ttlproxy.link.shared.context import Context
from ttlproxy.net.tasks import run_together
from ttlproxy.scripts.script_calls import ScriptCalls

if TYPE_CHECKING:
    from ttlproxy.link.masters.masters import Masters

log = logging.getLogger(__name__)

# Seconds between two questions about the Cluster, unless many proxies are attached to the master.
_EVERY_S: Final = 1.0
# After a question that came early, the next comes no earlier than this.
_AGAIN_S: Final = 0.02
_NODES: Final = (b"CLUSTER", b"NODES")
# Advice for the log if a master was never reached.
_ADVICE: Final = "the nodes of the Cluster give this address: see cluster-announce-ip"
_ADVICE_TLS: Final = f"{_ADVICE}, and tls-cluster for the port"
PushesOfAll = dict[str, Pushes | None]


async def nodes_told_by(server: Upstream, timeout_s: float) -> list[ClusterNode]:
    """Returns a node's knowledge of its Cluster. Raises redis-py's RedisError, OSError,
    UpstreamError or ValueError."""
    return _told(await ask_once(server, "ttlproxy:slots", timeout_s, _NODES))


def _told(replies: Sequence[object]) -> list[ClusterNode]:
    """Returns the nodes in the reply to _NODES."""
    return cluster_nodes(valid(replies[0]).decode("utf-8", "replace"))


class Master:
    """One of several masters.

    id, shown: the node's id, and its address for people
    place: host, port and host name, as nodes told them when it was met
    hosts: the names that MOVED and ASK may have for its host
    claims: the slots that it says are its own; None before it has said so
    epoch: that of the claims
    owned: the slots that are its own, as no other claims them with a higher epoch
    known: those of them whose managed keys the link knows
    strays: slots that are not its own, and in which it has announced deadlines
    answers: how often it has told what it knows
    pushes: the push connections of all masters when it was last asked, by their ids
    """

    def __init__(
        self, masters: Masters, upstream: Upstream, context: Context, node: ClusterNode
    ) -> None:
        self.id = node.id
        self.shown = upstream.address
        self.place = node.host, node.port, node.hostname
        self.hosts = node.host, node.hostname
        self.claims: Collection[int] | None = None
        self.epoch = node.epoch
        self.owned: set[int] = set()
        self.known: set[int] = set()
        self.strays: set[int] = set()
        self.answers = 0
        self.pushes: PushesOfAll = {}
        context.refusals.who = f"Redis at {upstream.shown}"
        context.keys.settle(node.slots)
        context.slot_schedules.owned = node.slots
        context.slot_schedules.on_unread = self._unread
        context.on_stray = partial(masters.pass_on_stray, self)
        advice = _ADVICE_TLS if upstream.tls else _ADVICE
        self.link = Link(upstream, context, lambda: masters.server_replaced(self), advice)
        self.reaper = Reaper(self.link, masters.owners.__getitem__)
        self._timeout_s = context.settings.connect_timeout
        self._slots = node.slots
        self._upstream = upstream
        self._masters = masters
        self._wanted = asyncio.Event()  # a look
        self._lacking = asyncio.Event()  # slots that are not known yet

    async def run(self) -> None:
        """Serves until cancelled. Raises UnfitUpstream."""
        await run_together(
            link=self.link.run(),
            reaper=self.reaper.run(),
            slots=self._follow(),
            schedules=self._learn(),
        )

    @property
    def is_home(self) -> bool:
        """Whether it has what a whole Cluster has once, such as the rules of ONEXPIRE."""
        return self.link.context.keys.are_home

    @property
    def slots_told(self) -> frozenset[int]:
        """The slots that others have said are its own; empty once it has claimed slots itself."""
        return frozenset() if self.claims is not None else self._slots

    @property
    def slots(self) -> Collection[int]:
        """Its slots, as it says itself, or else as others say."""
        return self.owned or self.slots_told

    @property
    def upstream(self) -> Upstream:
        return self.link.upstream

    @property
    def script_calls(self) -> ScriptCalls:
        return self.link.context.script_calls

    def look(self) -> None:
        """Asks it at once what it knows."""
        self._wanted.set()

    def owns(self, slots: set[int]) -> None:
        """Takes the slots that are its own from now on, and forgets what is known of others."""
        lost = (self.owned | self.strays | self.link.context.slot_schedules.read) - slots
        self.owned, self.strays = slots, set()
        self.known &= slots
        context = self.link.context
        context.keys.settle(slots)
        if lost:
            context.registry.forget(lambda key: slot(key) in lost)
            context.on_awaiting_ttl(context.agenda.drop(lambda key: slot(key) in lost))
        context.slot_schedules.owned = slots
        context.slot_schedules.forget(lost)
        if slots - self.known:
            self._lacking.set()

    def doubt(self, slots: Collection[int]) -> None:
        """Has slots that it owns again read: deadlines may have been set while they were
        another's."""
        self.known.difference_update(slots)
        self.link.context.slot_schedules.unread(slots)
        if slots:
            self._lacking.set()

    async def _follow(self) -> None:
        """Asks it again and again what it knows of the Cluster."""
        async with connected(self._upstream, "ttlproxy:slots", self._timeout_s) as redis:
            while True:
                self._wanted.clear()
                pushes = self._masters.pushes()
                try:
                    nodes = _told(await run(redis, [(0, _NODES)]))
                    self.answers += 1
                    await self._masters.take_answer(self, nodes, pushes)
                except (RedisError, OSError, ValueError) as trouble:
                    log.debug("%s tells nothing of its Cluster: %s", self.shown, trouble)
                await asyncio.sleep(_AGAIN_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_EVERY_S * self.link.context.fleet.stretch):
                        await self._wanted.wait()

    async def _learn(self) -> None:
        """Reads the schedules of those of its slots whose managed keys are not known."""
        while True:
            await self._lacking.wait()
            await self.link.serving.ready.wait()
            self._lacking.clear()
            lacking = self.owned - self.known
            self.known |= lacking & self.link.context.slot_schedules.read
            self._masters.slots_learned(self)
            if not (lacking := self.owned - self.known):
                continue
            read = set[int]()
            try:
                async with connected(self.link.upstream, "ttlproxy:load", self._timeout_s) as redis:
                    read = await self._read(redis, lacking)
            except (RedisError, OSError, UpstreamError) as trouble:
                log.debug("the schedules of %s cannot be read: %s", self.shown, trouble)
            if more := read & self.owned:
                self.known |= more
                self._masters.slots_learned(self)
            if self.owned - self.known:  # they are on their way, or it is busy
                self._lacking.set()
                await asyncio.sleep(_AGAIN_S)

    def _unread(self, slots: Collection[int]) -> None:
        """Takes the slots whose schedules the link could not read."""
        self.doubt(self.owned.intersection(slots))
        self._masters.slots_learned(self)

    async def _read(self, redis: Redis, slots: Collection[int]) -> set[int]:
        """Reads the schedules of slots; returns those that could be read: all their keys are here.

        Announcements go on arriving meanwhile, so a change is not missed.
        """
        context = self.link.context
        announced = context.registry.announced
        if context.rights.trusts_schedules:
            async for entries in context.slot_schedules.pages_of(redis, slots):
                for key, due_ms in entries:
                    announced(0, key, due_ms)
            return context.slot_schedules.read.intersection(slots)
        losses = context.slot_schedules.losses
        before = {number: losses[number] for number in slots}
        async for keys in Schedules(context).indexed(redis, 0):
            for key in keys:
                announced(0, key, UNKNOWN)
        leaving = await context.slot_schedules.leaving(redis, slots)
        return {number for number in slots if losses[number] == before[number]} - leaving
