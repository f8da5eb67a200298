"""The masters of a Cluster: a link and a reaper for each, and which of them has which slot.

A node's own word on its slots counts; of two that claim one, the higher epoch. A slot has an owner
here as soon as its master's link serves and has read the slot's schedule: announcements arrive from
before that, so nothing is missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final
from weakref import WeakSet

from ttlproxy.addresses import Address, Upstream
from ttlproxy.config import Settings
from ttlproxy.core.cluster_view import ClusterView
from ttlproxy.core.counters import Counters
from ttlproxy.core.families import Known
from ttlproxy.core.keys import SLOTS, slot
from ttlproxy.core.registry import DbKey
from ttlproxy.core.text import counted
from ttlproxy.core.topology import ClusterNode
from ttlproxy.errors import UnfitUpstream
from ttlproxy.link.connecting.connections import Backoff
from ttlproxy.link.connecting.known_server import Serving
from ttlproxy.link.connecting.reachability import endpoints
from ttlproxy.link.life.link import Link, ServerStatus
from ttlproxy.link.masters.master import Master, PushesOfAll
from ttlproxy.link.masters.seeds import Seeds
from ttlproxy.link.masters.slots import KnownSlots, SlotLog
from ttlproxy.link.shared.context import Context, StateLink, first_signer
from ttlproxy.link.shared.rules_of_all import RulesOfAll
from ttlproxy.net.tasks import cancel, drop

log = logging.getLogger(__name__)

_BACKOFF: Final = Backoff(cap=2.0, base=0.05)
# Seconds until a master that cannot be served is tried again.
_UNFIT_S: Final = 5.0


class Masters:
    """All masters of a Cluster, each with its link and its reaper.

    upstream: the URL as configured
    owners: the link for each slot; None while no link knows the slot's managed keys
    changes: how often a slot's owner has changed
    serving: whether clients are served, by one master at least
    links: those of all masters, by the node's id
    rules: those of ONEXPIRE and ONWRITE
    view: the nodes that clients find; pushes(): the push connections of all masters
    """

    def __init__(
        self,
        settings: Settings,
        upstream: Upstream,
        counters: Counters,
        on_gone: Callable[[Link], None],
    ) -> None:
        """`on_gone(link)` is called when that link's server is no longer that master."""
        self.upstream = upstream
        self.owners: list[Link | None] = [None] * SLOTS
        self.serving = Serving()
        self.changes = 0
        self.links: dict[str, Link] = {}
        self.view = ClusterView(settings.node_ports)
        self._settings = settings
        self._counters = counters
        self._on_gone = on_gone
        self._signer = first_signer(settings)
        self.rules = RulesOfAll(settings, self._signer, counters, lambda: self._masters.values())
        self._families = Known()
        self._state_links = WeakSet[StateLink]()
        self._awaiting_ttl = set[DbKey]()  # places whose slots have no master that is served
        self._has_secret = settings.signing_key_file is not None
        self._masters: dict[str, Master] = {}
        self._known = KnownSlots(self._masters)
        self.pushes = self._known.pushes
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._seeds = Seeds(upstream, lambda: settings.connect_timeout)
        self._unfit: dict[str, str] = {}
        self._slot_log = SlotLog()
        self._replicas: set[str] = set()  # nodes that were replicas when they were last told of
        self._unclaimed: list[int] = []
        self._logged = ""
        self._shares_ports = False
        self._change = asyncio.Event()
        self._failed = asyncio.Event()

    async def run(self) -> None:
        """Follows the Cluster until cancelled. Raises UnfitUpstream if no master can be served."""
        trying = asyncio.create_task(self._try(), name="masters: first attempts")
        reading = asyncio.create_task(self.rules.keep_known(), name="masters: rules")
        try:
            failures = 0 if await self._find() else 1
            while not self._failed.is_set():
                answers = sum(master.answers for master in self._masters.values())
                with suppress(TimeoutError):
                    async with asyncio.timeout(_BACKOFF.compute(failures) if failures else 1.0):
                        await self._failed.wait()
                if sum(master.answers for master in self._masters.values()) == answers:
                    failures = 0 if await self._find() else failures + 1
                self._slot_log.log(self._unclaimed)
            raise UnfitUpstream("; ".join(self._unfit.values()))
        finally:
            await cancel(trying, reading, *self._tasks.values())

    @property
    def all(self) -> list[Link]:
        """The links of all masters."""
        return list(self.links.values())

    @property
    def nodes(self) -> dict[str, ServerStatus]:
        """The masters by address. Other threads may call this."""
        return {
            each.shown: ServerStatus(each.link, len(each.owned), self._why_not(each))
            for each in list(self._masters.values())
        }

    def _why_not(self, master: Master) -> str:
        """Returns why requests for a master have to wait; empty if it is served."""
        if not master.link.serving.now:
            return master.link.trouble or "there is no connection to it"
        if not master.owned:
            return "it has not told yet which slots it owns"
        lacking = len(master.owned) - len(master.known)
        if lacking > 0:
            return f"the deadlines of {counted(lacking, 'slot is', 'slots are')} being read"
        return "" if self._has_secret else "the master with the proxies' secret is away"

    @property
    def shown(self) -> str:
        """The addresses of all masters, for people."""
        return ", ".join(sorted(master.shown for master in self._masters.values()))

    @property
    def home(self) -> Link | None:
        """The link for requests without keys: of the master with the home slot, or of another."""
        serving = [each for each in self._masters.values() if each.link.serving.now and each.known]
        serving.sort(key=lambda master: not master.link.context.keys.are_home)
        return serving[0].link if serving else None

    def home_at(self, port: int) -> Link | None:
        """Returns the link for requests without keys at this port of `view`: its master's, or
        another's."""
        for name in self.view.masters_at(port):
            master = self._masters.get(name)
            if master is not None and master.link.serving.now and master.known:
                return master.link
        return self.home

    def is_at(self, link: Link, port: int) -> bool:
        """Whether this link serves requests without keys at this port of `view`."""
        own = self.view.masters_at(port)
        return not own or any(self.links.get(name) is link for name in own)

    def links_at(self, port: int) -> dict[str, Link]:
        """Returns the links for requests about all keys at this port of `view`: its masters', or
        those of the whole Cluster. Masters that have just failed may be missing."""
        own = self.view.masters_at(port)
        return {name: self.links[name] for name in own or self.links if name in self.links}

    def find(self, host: str, port: int) -> Link | None:
        """Returns the link of the master at this address, as MOVED and ASK name it."""
        for master in self._masters.values():
            at = master.link.upstream
            if at.port == port and host in ("", "?", at.host, *master.hosts):
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
        """The reason why requests may have to wait; empty if every slot is served."""
        if None not in self.owners:
            return ""
        troubles = [
            f"{master.shown}: {master.link.trouble}"
            for master in self._masters.values()
            if master.link.trouble
        ]
        lacking = sum(owner is None for owner in self.owners)
        unserved = f"{counted(lacking, 'slot is', 'slots are')} not served"
        return "; ".join([*troubles, self._seeds.trouble or unserved])

    async def drop_leases(self) -> None:
        """Gives up all leases at the end, so that other proxies can reap at once."""
        await asyncio.gather(*(master.reaper.drop_lease() for master in self._masters.values()))

    async def close(self) -> None:
        """Closes connections on which clients have waited."""
        for link in self.links.values():
            await link.list_waiters.close()

    async def _try(self) -> None:
        """Lets clients connect, and wait, once each master was tried."""
        while not self._masters:
            await self.change()
        for link in self.all:
            await link.serving.tried.wait()
        self.serving.tried.set()

    async def _find(self) -> bool:
        """Asks the nodes of the URL, and others, until one tells of the Cluster; returns whether
        one has."""
        known = set(self._masters)
        told = await self._seeds.find(known)
        if told is not None:
            if known.isdisjoint(told.ids):
                for master in list(self._masters.values()):
                    self._remove(master, "the Cluster was made anew")
                self._known.clear()
            await self._add_new_masters(told.nodes, told.server)
            self._logged = ""
            return True
        if self._seeds.trouble != self._logged:
            log.warning("no master of the Cluster is found: %s", self._seeds.trouble)
        self._logged = self._seeds.trouble
        self.serving.tried.set()
        return False

    async def _add_new_masters(self, nodes: list[ClusterNode], server: Upstream) -> None:
        """Adds masters that are new, or have moved. `server` has told of the nodes."""
        there = [node for node in nodes if node.is_there]
        self._seeds.others = [Address(node.host, node.port) for node in there if node.host]
        self.view.set_nodes(nodes)
        self._note_shared_ports()
        self._replicas |= {node.id for node in nodes if node.master}
        masters = [node for node in there if node.is_master]
        if not any(map(self._is_new, masters)):
            return
        found = await endpoints(server, masters, self._settings.connect_timeout)
        for node in filter(self._is_new, masters):
            if node.id in self._masters:
                self._remove(self._masters[node.id], f"it is at {found[node.id]} now")
            self._add(node, self.upstream.at(found[node.id]))
        self._notify()

    def _is_new(self, node: ClusterNode) -> bool:
        """Whether the node is not known, or is no longer reached where it was."""
        known = self._masters.get(node.id)
        if known is None:
            return True
        is_elsewhere = bool(node.host) and known.place != (node.host, node.port, node.hostname)
        return is_elsewhere and not known.link.serving.now

    def _add(self, node: ClusterNode, server: Upstream) -> None:
        log.info("a master of the Cluster: %s, with %d slots", server.address, len(node.slots))
        context = Context(
            self._settings,
            self._counters,
            self._signer,
            self.rules,
            self._families,
            self._state_links,
        )
        context.on_gap = self._known.note_gap
        context.on_awaiting_ttl = self._hand_on
        master = Master(self, server, context, node)
        context.tellers = lambda: [each.link.activation for each in self._known.others(master)]
        if node.id in self._replicas:
            self._replicas.discard(node.id)
            before = [each.pushes for each in self._masters.values() if each.slots]
            context.known_slots = lambda: self._known.at_new_master(master, before)
        self._masters[node.id] = master
        self.links[node.id] = master.link
        task = asyncio.create_task(self._keep(master), name=f"master {server.address}")
        task.add_done_callback(drop)
        self._tasks[node.id] = task

    def _remove(self, master: Master, why: str) -> None:
        log.info("%s is no master of the Cluster any more: %s", master.shown, why)
        del self._masters[master.id], self.links[master.id]
        self._unfit.pop(master.id, None)
        task, context = self._tasks.pop(master.id), master.link.context
        task.add_done_callback(lambda _: self._hand_on(context.agenda.drop(lambda key: True)))
        task.cancel()
        context.end()
        self._on_gone(master.link)

    async def _keep(self, master: Master) -> None:
        """Runs a master's link; tries again later if it cannot be served."""
        while True:
            try:
                await master.run()
            except UnfitUpstream as unfit:
                if self._unfit.get(master.id) != str(unfit):
                    log.error("a master of the Cluster is not served: %s", unfit)
                self._unfit[master.id] = str(unfit)
                if self._unfit.keys() >= self._masters.keys():
                    self._failed.set()
                await asyncio.sleep(_UNFIT_S)

    def server_replaced(self, master: Master) -> None:
        """Ends the sessions of a master whose server, or its role, has changed."""
        self._on_gone(master.link)
        self.look()

    async def take_answer(
        self, master: Master, nodes: list[ClusterNode], pushes: PushesOfAll
    ) -> None:
        """Takes what a master has told of the Cluster. `pushes`: from before it was asked."""
        if self._masters.get(master.id) is not master:
            return
        me = next((node for node in nodes if node.myself), None)
        is_it = me is not None and me.id == master.id
        own = me.slots if me is not None and is_it and me.is_master else frozenset()
        epoch = me.epoch if me is not None else 0
        if me is not None and is_it:
            master.hosts = me.host, me.hostname
        is_new = own != master.claims or epoch != master.epoch
        if epoch > master.epoch and not self._known.has_heard(master, nodes):
            before = master.claims
            master.doubt(own if before is None else own.intersection(before))
        master.claims, master.epoch = own, epoch
        self._known.learn()
        if is_new or master.strays:
            self._share_out()
            self._known.note_gap()
        try:
            if is_it or not self._are_strange(nodes, master):
                await self._add_new_masters(nodes, master.link.upstream)
        finally:
            master.pushes = pushes
            self._drop_replaced(master)
        self._notify()

    def _are_strange(self, nodes: list[ClusterNode], master: Master) -> bool:
        """Whether the nodes are another Cluster's, one of which is at this master's address now."""
        others = self._masters.keys() - {master.id}
        return others.isdisjoint(node.id for node in nodes)

    def pass_on_stray(self, master: Master, key: bytes, deadline_ms: int) -> None:
        """Passes on a deadline that a master has announced in a slot that is not its own as far as
        is known. The slot has come to it, and may be back already, so its owner's link must know,
        too."""
        number = slot(key)
        master.strays.add(number)
        for other in self._masters.values():
            if number in other.owned:
                other.link.context.announced(0, key, deadline_ms)
        self.look()

    def _hand_on(self, places: Iterable[DbKey]) -> None:
        """Hands on places where elements still await deadlines by rules of ONWRITE, each to the
        link of the master that has its slot: the link through which they were written may have lost
        the slot before it could give them deadlines."""
        for place in places:
            link = self.owners[slot(place[1])]
            if link is None or link not in self.links.values():
                self._awaiting_ttl.add(place)
            else:
                link.context.apply_ttl_later([place])

    def slots_learned(self, master: Master) -> None:
        """Notes that a master knows more of its slots' managed keys, or that its link begins to
        serve."""
        self._unfit.pop(master.id, None)
        self._publish()
        self._notify()

    def _share_out(self) -> None:
        """Gives each slot to the master with the highest epoch of those that claim it."""
        owner = self._owner()
        self.view.follow({number: master.id for number, master in owner.items()})
        self._note_shared_ports()
        owned: dict[str, set[int]] = {name: set() for name in self._masters}
        for number, master in owner.items():
            owned[master.id].add(number)
        said = {number for each in self._masters.values() for number in each.slots_told}
        self._unclaimed = [each for each in range(SLOTS) if each not in owner and each not in said]
        for master in list(self._masters.values()):
            if owned[master.id] != set(master.owned) or master.strays:
                master.owns(owned[master.id])
        self._publish()

    def _owner(self) -> dict[int, Master]:
        """Returns the master of each slot that is claimed."""
        owner: dict[int, Master] = {}
        for master in sorted(self._masters.values(), key=lambda each: each.epoch):
            owner.update(dict.fromkeys(master.claims or (), master))
        return owner

    def _drop_replaced(self, told: Master) -> None:
        """Removes masters whose slots others have. One that says so itself, as `told` may have
        done, goes last: its task ends with it, and must first tell of the masters that have the
        slots."""
        idle = [each for each in self._masters.values() if not each.owned]
        owner = self._owner() if idle else {}
        for master in idle:
            says_so = master.claims is not None and not master.claims
            if (master is told or not says_so) and _is_replaced(master, owner):
                self._remove(master, "it owns no slots")

    def _note_shared_ports(self) -> None:
        if self.view.is_shared and not self._shares_ports:
            log.warning("there are more masters than cluster_ports, so some share a port")
        self._shares_ports = self.view.is_shared

    def _publish(self) -> None:
        """Sets the owners of all slots, and whether clients are served."""
        masters = self._masters.values()
        self._has_secret = self._has_secret or any(
            master.link.context.keys.are_home and master.link.serving.now for master in masters
        )
        owners: list[Link | None] = [None] * SLOTS
        if self._has_secret:
            for master in masters:
                for number in master.known:
                    owners[number] = master.link
        self._known.learn()
        self.changes += owners != self.owners
        self.owners[:] = owners
        waiting, self._awaiting_ttl = self._awaiting_ttl, set()
        self._hand_on(waiting)
        if any(owners) and not self.serving.now:
            self.serving.start()
        elif self.serving.now and not any(owners):
            self.serving.stop()

    def _notify(self) -> None:
        change, self._change = self._change, asyncio.Event()
        change.set()


def _is_replaced(master: Master, owner: dict[int, Master]) -> bool:
    """Whether others have its slots now, also if it has never told. `owner`: the master of each
    slot."""
    of_others = (owner.get(number) for number in master.slots_told)
    return all(other is not None and other.epoch > master.epoch for other in of_others)
