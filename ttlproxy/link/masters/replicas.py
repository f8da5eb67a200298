"""The replicas of one master of a Cluster, so that nobody waits when one of them is promoted.

The registry has all that needs attention at the master soon. A replica has what the master had a
moment ago: that is in the registry, too, but for what it has given up since (core/undo_log.py). And
what the master has announced while this proxy did not hear it is pushed by the replica. Both need
be kept only from a *checkpoint* on which the replica has passed. At a checkpoint the master tells
how far its replication is, and all that it has announced has been heard.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from redis.exceptions import RedisError

from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.core.topology import ClusterNode
from ttlproxy.core.undo_log import UndoLog
from ttlproxy.errors import UpstreamError
from ttlproxy.link.connecting.connections import Backoff
from ttlproxy.link.connecting.known_server import ServerClock
from ttlproxy.link.connecting.pushes import Pushes
from ttlproxy.link.connecting.reachability import accepts, endpoints
from ttlproxy.link.life.link import Link
from ttlproxy.link.shared.inherited import Inherited
from ttlproxy.link.shared.replica_pushes import REPLICATION, Checkpoint, ReplicaPushes, replication
from ttlproxy.net.tasks import cancel, drop, time_limit

log = logging.getLogger(__name__)

_AGAIN: Final = Backoff(cap=30.0, base=0.1)
# A connection that was shorter counts as a failure.
_HEALTHY_MS: Final = 10_000
# A replica may be behind by this number of checkpoints, before it has to pass a new one.
_FURTHEST: Final = 300
# Id, host, port and host name.
_Place = tuple[str, str, int, str]


class Replicas:
    """
    undo_log: of the master's registry
    """

    def __init__(
        self, settings: Settings, link: Link, master: str, turn: asyncio.Semaphore
    ) -> None:
        """`master`: the id of the node that `link` is for. `turn` lets few replicas connect at a
        time, because that takes a thread."""
        self.undo_log = link.context.registry.undo_log = UndoLog()
        self._settings = settings
        self._link = link
        self._master = master
        self._turn = turn
        self._wanted: dict[_Place, ClusterNode] = {}
        self._changed = asyncio.Event()  # `_tasks` does not fit `_wanted`
        self._tasks: dict[_Place, asyncio.Task[None]] = {}
        self._heard: dict[str, ReplicaPushes] = {}
        self._checkpoints: list[Checkpoint] = []
        self._before: Pushes | None = None  # the master's push connection before a checkpoint
        self._has_failed = False  # the last checkpoint

    @property
    def ready(self) -> int:
        """The number of them that may be promoted without a wait. Other threads may ask."""
        since = self.undo_log.interrupted_in
        return sum(
            each.is_ready and (each.since or 0) > since for each in list(self._heard.values())
        )

    async def run(self) -> None:
        """Keeps a connection to each of them, until cancelled."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                try:
                    await self._follow_all()
                except (UpstreamError, RedisError, OSError) as trouble:
                    log.debug("the replicas are not heard: %s", trouble)
        finally:
            await cancel(*self._tasks.values())
            self._tasks.clear()

    def follow(self, nodes: Iterable[ClusterNode]) -> None:
        """The master knows these nodes of the Cluster."""
        replicas = [node for node in nodes if node.master == self._master and node.is_there]
        self._wanted = {_place(node): node for node in replicas if not node.myself}
        has_ended = any(task.done() for task in self._tasks.values())
        if has_ended or self._wanted.keys() != self._tasks.keys():
            self._changed.set()

    def begin_checkpoint(self) -> int:
        """The master is about to be asked REPLICATION; returns the checkpoint's number."""
        until_ms = self._link.context.registry.until_ms
        number = self.undo_log.number if self._has_failed else self.undo_log.begin_part(until_ms)
        self._before = self._hears
        for pushes in self._heard.values():
            pushes.part_begins(number)
        return number

    def end_checkpoint(self, number: int, told: Mapping[str, str]) -> None:
        """The master has answered so, or with nothing."""
        self._link.announcements.receive()
        is_gapless = self._before is not None and self._before is self._hears
        self._has_failed = not (is_gapless and told.get("role") == "master")
        if not self._has_failed:
            offset = int(told.get("master_repl_offset", -1))
            self._checkpoints.append(Checkpoint(number, told.get("master_replid", ""), offset))
            for pushes in self._heard.values():
                pushes.heard(number)
        else:
            for pushes in self._heard.values():
                pushes.fails(number)
        self._tidy(number)

    def hears(self, node: ClusterNode) -> bool:
        """Whether it has a connection to this node."""
        return node.id in self._heard

    def inherited(self, node: ClusterNode, known: Collection[int]) -> Inherited | None:
        """The knowledge of a replica that is a master now; None if that is not enough. `known`:
        the slots of the master whose managed keys are in its registry."""
        pushes = self._heard.get(node.id)
        registry = self._link.context.registry
        if pushes is None or not pushes.is_ready or pushes.since is None:
            return None
        undone = self.undo_log.since(pushes.since)
        slots = node.slots.intersection(known) - undone.slots
        if not slots:
            return None
        del self._heard[node.id]
        pushes.is_given = True
        pushes.wanted.set()  # its task ends
        entries = registry.entries(0)
        for key, bound in undone.raised.items():
            entries[key] = min(bound, entries.get(key, bound))
        deferring = self._link.context.slot_schedules.deferring
        return Inherited(
            entries, undone.until_ms, set(slots), deferring & slots, node.epoch, pushes
        )

    # Inside.

    @property
    def _hears(self) -> Pushes | None:
        """The connection on which all that the master announces is heard, if there is one."""
        return self._link.announcements.connection if self._link.serving.now else None

    def _tidy(self, number: int) -> None:
        """Drops what no replica needs; `number`: of the last checkpoint."""
        for pushes in self._heard.values():
            if pushes.since is not None and pushes.since < number - _FURTHEST:
                pushes.start_anew()
        needed = (each.since for each in self._heard.values() if each.since is not None)
        first = min(needed, default=number)
        self.undo_log.drop(first)
        self._checkpoints = [each for each in self._checkpoints if each.number >= first]

    async def _follow_all(self) -> None:
        """Begins and ends tasks, so that there is one for each that is wanted."""
        for place, task in list(self._tasks.items()):
            if place not in self._wanted or task.done():
                await cancel(self._tasks.pop(place))
        new = [node for place, node in self._wanted.items() if place not in self._tasks]
        if not new:
            return
        server, timeout_s = self._link.upstream, self._settings.connect_timeout
        places = await endpoints(server, new, timeout_s)
        for node in new:
            there = server.at(places[node.id])
            task = asyncio.create_task(self._keep(node.id, there), name=f"replica {there.address}")
            task.add_done_callback(drop)
            self._tasks[_place(node)] = task

    async def _keep(self, name: str, server: Upstream) -> None:
        """Keeps a connection to a replica, until its pushes are somebody else's."""
        failures = 0
        while True:
            began = ServerClock.reading()
            try:
                await self._hear(name, server)
                return
            except (UpstreamError, RedisError, OSError, ValueError) as trouble:
                log.debug("the replica %s is not heard: %s", server.address, trouble)
            failures = 0 if ServerClock.reading() - began > _HEALTHY_MS else failures + 1
            await asyncio.sleep(_AGAIN.compute(failures))

    async def _hear(self, name: str, server: Upstream) -> None:
        """Opens a connection and asks, after each checkpoint, how far the replica is. Returns when
        its pushes are somebody else's. Raises UpstreamError or OSError if it ends."""
        settings = self._settings
        if not await accepts(server, settings.connect_timeout):
            raise UpstreamError("it accepts no connection")
        pushes = ReplicaPushes(self._link.context.keys, name, self._master)
        try:
            async with self._turn:
                await pushes.open(server, settings.connect_timeout, settings.tcp_keepalive)
            self._heard[name] = pushes
            while True:
                await pushes.wanted.wait()
                pushes.wanted.clear()
                if pushes.is_given:
                    return
                async with time_limit(settings.connect_timeout):
                    (reply,) = await pushes.ask([REPLICATION])
                pushes.update(replication(reply), self._checkpoints)
        finally:
            if not pushes.is_given:
                self._heard.pop(name, None)
                pushes.close()


def _place(node: ClusterNode) -> _Place:
    return node.id, node.host, node.port, node.hostname
