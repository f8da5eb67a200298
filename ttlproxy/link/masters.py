"""The masters of a Cluster: a link and a reaper for each, and which of them has which slot.

A node's own word on its slots counts; of two that claim one, the higher epoch. A slot has an owner
here as soon as its master's link serves and has read the slot's schedule: announcements arrive from
before that, so nothing is missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from redis.exceptions import RedisError

from ttlproxy.addresses import Address, Upstream
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.core.keys import SLOTS
from ttlproxy.core.topology import ClusterNode
from ttlproxy.errors import UnfitUpstream, UpstreamError
from ttlproxy.link.backoff import Backoff
from ttlproxy.link.context import first_signer
from ttlproxy.link.link import Link
from ttlproxy.link.master import Master, nodes_told_by
from ttlproxy.link.resolution import resolved
from ttlproxy.link.rules_of_all import RulesOfAll
from ttlproxy.link.serving import Serving
from ttlproxy.net.tasks import cancel, drop

log = logging.getLogger(__name__)

_BACKOFF: Final = Backoff(cap=2.0, base=0.05)
# Until a master that cannot be served is tried again.
_UNFIT_S: Final = 5.0


class Masters:
    """
    upstream: the URL as configured
    owners: the link for each slot; None while nobody has the slot whose link knows its managed keys
    changes: how often a slot's owner has changed
    serving: whether clients are served: by one master at least
    links: those of all masters, by the node's id
    rules: those of ONEXPIRE
    """

    def __init__(
        self,
        settings: Settings,
        upstream: Upstream,
        counters: Counters,
        on_gone: Callable[[Link], None],
    ) -> None:
        """`on_gone(link)` is called when that link's server is not that master any more."""
        self.upstream = upstream
        self.owners: list[Link | None] = [None] * SLOTS
        self.serving = Serving()
        self.changes = 0
        self.links: dict[str, Link] = {}
        self._settings = settings
        self._counters = counters
        self._on_gone = on_gone
        self._signer = first_signer(settings)
        self.rules = RulesOfAll(settings, self._signer, counters, lambda: self._masters.values())
        self._has_secret = settings.signing_key_file is not None
        self._masters: dict[str, Master] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._addresses: dict[Address, None] = dict.fromkeys(upstream.addresses)
        self._unfit: dict[str, str] = {}
        self._trouble = self._logged = ""
        self._change = asyncio.Event()
        self._failed = asyncio.Event()

    async def run(self) -> None:
        """Follows the Cluster until cancelled. Raises UnfitUpstream if no master can be served."""
        try:
            failures = 0 if await self._find() else 1
            while not self._failed.is_set():
                told = sum(master.told for master in self._masters.values())
                with suppress(TimeoutError):
                    async with asyncio.timeout(_BACKOFF.compute(failures) if failures else 1.0):
                        await self._failed.wait()
                if sum(master.told for master in self._masters.values()) == told:
                    failures = 0 if await self._find() else failures + 1
            raise UnfitUpstream("; ".join(self._unfit.values()))
        finally:
            await cancel(*self._tasks.values())

    @property
    def all(self) -> list[Link]:
        """The links of all masters."""
        return list(self.links.values())

    @property
    def shown(self) -> str:
        """The addresses of all masters, for people."""
        return ", ".join(sorted(master.shown for master in self._masters.values()))

    @property
    def home(self) -> Link | None:
        """For requests without keys: the master with what a Cluster has once, or another."""
        serving = [each for each in self._masters.values() if each.link.serving.now and each.known]
        serving.sort(key=lambda master: not master.link.context.keys.are_home)
        return serving[0].link if serving else None

    def find(self, host: str, port: int) -> Link | None:
        """The master at this address, as MOVED and ASK name it."""
        for master in self._masters.values():
            at = master.link.upstream
            if at.port == port and host in ("", at.host):
                return master.link
        return None

    def look(self) -> None:
        """Asks all masters at once which slots they own."""
        for master in self._masters.values():
            master.look()

    async def change(self) -> None:
        """Ends when a master has told of its slots, or a slot has another owner."""
        await self._change.wait()

    @property
    def trouble(self) -> str:
        """Why requests may have to wait; empty if every slot is served."""
        if None not in self.owners:
            return ""
        troubles = [
            f"{master.shown}: {master.link.trouble}"
            for master in self._masters.values()
            if master.link.trouble
        ]
        lacking = sum(owner is None for owner in self.owners)
        return "; ".join([*troubles, self._trouble or f"{lacking} slots are not served"])

    async def drop_leases(self) -> None:
        """Lets other proxies reap at once; for the end."""
        await asyncio.gather(*(master.reaper.drop_lease() for master in self._masters.values()))

    async def close(self) -> None:
        """Closes connections on which clients have waited."""
        for link in self.links.values():
            await link.list_waiters.close()

    # Inside.

    async def _find(self) -> bool:
        """Asks all nodes that were ever named, until one tells; returns whether one has."""
        for address in list(self._addresses):
            try:
                server = await resolved(self.upstream.at(address), self._settings.connect_timeout)
                nodes = await nodes_told_by(server, self._settings.connect_timeout)
            except (RedisError, OSError, UpstreamError, ValueError) as trouble:
                self._trouble = f"{address}: {trouble}"
                continue
            self._trouble = ""
            await self._meet(nodes, address.host)
            if self._masters:
                return True
            self._trouble = f"{address}: its Cluster has no master that owns slots"
        if self._trouble != self._logged:
            log.warning("no master of the Cluster is found: %s", self._trouble)
        self._logged = self._trouble
        self.serving.tried.set()
        return False

    async def _meet(self, nodes: list[ClusterNode], asked_at: str) -> None:
        """Adds masters that are new. `asked_at`: the host of the node that told."""
        for node in nodes:
            host = node.host or asked_at
            if node.is_there:
                self._addresses.setdefault(Address(host, node.port))
            if node.is_master and node.is_there and node.id not in self._masters:
                self._add(node, self.upstream.at(Address(host, node.port)))

    def _add(self, node: ClusterNode, server: Upstream) -> None:
        log.info("a master of the Cluster: %s, with %d slots", server.address, len(node.slots))
        master = Master(
            self._settings,
            server,
            self._counters,
            self._signer,
            self.rules,
            node,
            self._told,
            self._changed,
            self._gone,
            self.owners.__getitem__,
        )
        self._masters[node.id] = master
        self.links[node.id] = master.link
        task = asyncio.create_task(self._keep(master), name=f"master {server.address}")
        task.add_done_callback(drop)
        self._tasks[node.id] = task

    def _remove(self, master: Master) -> None:
        log.info("%s is no master of the Cluster any more", master.shown)
        del self._masters[master.id], self.links[master.id]
        self._unfit.pop(master.id, None)
        self._tasks.pop(master.id).cancel()
        master.link.context.end()
        self._on_gone(master.link)

    async def _keep(self, master: Master) -> None:
        """Runs a master's link; tries again later where it cannot be served."""
        while True:
            try:
                await master.run()
            except UnfitUpstream as unfit:
                if master.id not in self._unfit:
                    log.error("a master of the Cluster is not served: %s", unfit)
                self._unfit[master.id] = str(unfit)
                if self._unfit.keys() >= self._masters.keys():
                    self._failed.set()
                await asyncio.sleep(_UNFIT_S)

    def _gone(self, master: Master) -> None:
        """Its server has changed, or its role."""
        self._on_gone(master.link)
        self.look()

    async def _told(self, master: Master, nodes: list[ClusterNode]) -> None:
        """One of the masters has told what it knows."""
        if self._masters.get(master.id) is not master:
            return
        me = next((node for node in nodes if node.myself), None)
        own = me.slots if me is not None and me.id == master.id and me.is_master else frozenset()
        is_new = own != master.claims or (me is not None and me.epoch != master.epoch)
        master.claims, master.epoch = own, me.epoch if me is not None else 0
        await self._meet(nodes, master.link.upstream.host)
        if is_new:
            self._share_out()
        self._tell()

    def _changed(self, master: Master) -> None:
        """A master knows more of its slots' managed keys, or its link begins to serve."""
        self._publish()
        self._tell()

    def _share_out(self) -> None:
        """Gives each slot to the master with the highest epoch of those that claim it."""
        owner: dict[int, Master] = {}
        for master in sorted(self._masters.values(), key=lambda each: each.epoch):
            owner.update(dict.fromkeys(master.claims or (), master))
        owned: dict[str, set[int]] = {name: set() for name in self._masters}
        for number, master in owner.items():
            owned[master.id].add(number)
        for master in list(self._masters.values()):
            if owned[master.id] != set(master.owned):
                master.owns(owned[master.id])
            if master.claims is not None and not owned[master.id]:
                self._remove(master)
        self._publish()

    def _publish(self) -> None:
        """Sets the owners of all slots."""
        masters = self._masters.values()
        self._has_secret = self._has_secret or any(
            master.link.context.keys.are_home and master.link.serving.now for master in masters
        )
        owners: list[Link | None] = [None] * SLOTS
        if self._has_secret:
            for master in masters:
                for number in master.known:
                    owners[number] = master.link
        self.changes += owners != self.owners
        self.owners[:] = owners
        if any(owners) and not self.serving.now:
            self.serving.start()
        elif self.serving.now and not any(owners):
            self.serving.stop()

    def _tell(self) -> None:
        change, self._change = self._change, asyncio.Event()
        change.set()
