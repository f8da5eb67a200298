"""What happens to the slots and masters of a Cluster, one trouble after the other.

While slots move nothing is excused. While a master fails, what docs/cluster.md says is excused,
until all nodes agree and both proxies serve all slots from their masters.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import Final

from tests.chaos.cluster import moves
from tests.chaos.cluster.moves import NotPossibleError
from tests.chaos.cluster.system import ClusterSystem
from tests.chaos.settings import Rules, run_short
from tests.support.cluster import Node
from tests.support.network import Network
from tests.support.processes import wait_until
from ttlproxy.core.keys import SLOTS

_PROMOTED_S: Final = 120.0
# How far proxies may be, in ms each way: news of a deadline need less than `near_ms`.
_FAR_MS: Final = 50
# So long is a master stopped that comes back before it is taken for dead.
_SHORT_S: Final = (0.1, 0.5, 1.5)


class Troubles:
    """Chooses and makes troubles until it is told to stop."""

    def __init__(self, system: ClusterSystem, chance: Random, only: Sequence[str]) -> None:
        """`only`: some of NAMES."""
        self._all = [trouble for name in only for trouble in _ALL[name]]
        self._system = system
        self._chance = chance
        self._rules = Rules(system, chance)
        self.counts = Counter[str]()

    def run(self, stop: threading.Event) -> None:
        """One trouble after the other; after each the Cluster is well again."""
        while not stop.wait(self._chance.uniform(0.05, 1.5)):
            trouble = self._chance.choice(self._all)
            name = trouble.__name__.strip("_")
            self._system.log("trouble", name=name)
            try:
                trouble(self)
            except NotPossibleError as why:
                self._system.log("skipped", name=name, why=str(why))
                continue
            self._system.log("over", name=name)
            self.counts["troubles"] += 1
        self._rules.clear()
        self._system.delay(0, 0)

    # Slots that move.

    def _ends(self, number: int) -> tuple[Node, Node]:
        """The master that has the slot, and another one."""
        source = self._system.owner(number)
        others = [node for node in self._system.masters if node is not source]
        return source, self._chance.choice(others)

    def _slot(self) -> int:
        return self._chance.choice(self._system.slots)

    def _move(self, number: int, source: Node, target: Node) -> None:
        pause_s = self._chance.choice([0.0, 0.0, 0.05, 0.5])
        with self._system.on_its_way(number):
            moves.move_by_keys(self._system, number, source, target, self._chance, pause_s)

    def _move_slot(self) -> None:
        number = self._slot()
        self._move(number, *self._ends(number))
        self._system.until_agreed()

    def _move_there_and_back(self) -> None:
        """The slot is away for a moment only, or for a second."""
        number = self._slot()
        source, target = self._ends(number)
        self._move(number, source, target)
        self._system.until_agreed()
        threading.Event().wait(self._chance.choice([0.0, 0.0, 0.1, 1.0]))
        self._move(number, target, source)
        self._system.until_agreed()

    def _move_in_vain(self) -> None:
        number = self._slot()
        moves.open_and_close(self._system, number, *self._ends(number))

    def _reshard(self) -> None:
        """By redis-cli, which first takes the slots with keys."""
        source, target = self._ends(self._slot())
        moves.reshard(source, target, self._chance.randint(1, 6))
        self._system.until_agreed()

    def _move_whole(self) -> None:
        """All slots with keys that a master has, in one step."""
        source, target = self._ends(self._slot())
        own = [number for number in self._system.slots if number in self._system.me(source).slots]
        chosen = self._chance.sample(own, self._chance.randint(1, len(own)))
        moves.move_whole(self._system, chosen, source, target)
        self._system.until_agreed()

    def _restart_proxy(self) -> None:
        """A proxy is killed, and starts while a slot is on its way."""
        proxy, number = self._chance.choice(self._system.proxies), self._slot()
        ends = self._ends(number)
        with self._system.away((), loses=False), ThreadPoolExecutor() as pool:
            proxy.kill()
            moving = pool.submit(self._move, number, *ends)
            proxy.start()
            moving.result()
            self._system.until_settled()

    def _change_rules(self) -> None:
        self._rules.change()

    def _run_short(self) -> None:
        """Where a rule cannot be carried out, its key does not expire: so there is none."""
        self._rules.clear()
        master = self._system.owner(self._slot())
        with self._system.away((), loses=False):
            self.counts["keys evicted"] += run_short(self._system, master, self._chance)

    # Masters that fail.

    @contextmanager
    def _away(self, *, loses: bool) -> Iterator[Node]:
        """A master that is about to fail; it is excused until all is well again."""
        system = self._system
        master = system.owner(self._slot())
        slots = system.me(master).slots
        system.is_cautious = loses
        here = [number for number in system.slots if number in slots]
        _, offset, replicas = system.ask(master, "ROLE")
        lag = max((offset - int(replica[2]) for replica in replicas), default=-1)
        system.log("away", master=master.port, slots=here, lag_bytes=lag)
        if loses:
            threading.Event().wait(system.lags_ms / 1000)
        try:
            with system.away(slots, loses=loses):
                yield master
                system.until_settled()
        finally:
            system.is_cautious = False

    def _fail_over(self) -> None:
        """CLUSTER FAILOVER: the master stops until its replica has all."""
        with self._away(loses=False) as master:
            self._elect(self._system.replica_of(master))

    def _fail_over_force(self) -> None:
        with self._away(loses=True) as master:
            self._elect(self._system.replica_of(master), "FORCE")

    def _elect(self, replica: Node, *how: str) -> None:
        if replica.was_elected:
            raise NotPossibleError("Redis would count its votes of before once more")
        replica.promote(*how)

    def _take_over(self) -> None:
        with self._away(loses=True) as master:
            self._system.replica_of(master).promote("TAKEOVER")

    def _until_promoted(self, replica: Node) -> None:
        role = "a replica has taken over"
        wait_until(lambda: replica.ask("ROLE")[0] == b"master", role, _PROMOTED_S)
        replica.note_elected()

    def _kill_master(self) -> None:
        """kill -9; it comes back, empty, when its replica has taken over."""
        with self._away(loses=True) as master:
            replica = self._system.replica_of(master)
            master.kill()
            if self._chance.random() < 0.3:
                replica.promote("TAKEOVER")
            self._until_promoted(replica)
            threading.Event().wait(self._chance.choice([0.0, 0.5, 2.0]))
            master.client.close()
            master.restart()
            self._system.announce(master)

    def _stop_master(self) -> None:
        """SIGSTOP until its replica has taken over."""
        with self._away(loses=True) as master:
            replica = self._system.replica_of(master)
            master.child.send_signal(signal.SIGSTOP)
            try:
                if self._chance.random() < 0.3:
                    replica.promote("TAKEOVER")
                self._until_promoted(replica)
                threading.Event().wait(self._chance.choice([0.0, 0.1, 2.0]))
            finally:
                master.child.send_signal(signal.SIGCONT)

    def _cut(self, how: Callable[[Network, int], AbstractContextManager[None]]) -> None:
        """Cut off, or from the other nodes only, until its replica has taken over."""
        network = self._system.network
        if network is None:
            raise NotPossibleError("the nodes are not in namespaces of their own")
        with self._away(loses=True) as master:
            replica = self._system.replica_of(master)
            with how(network, self._system.nodes.index(master)):
                self._until_promoted(replica)
                threading.Event().wait(self._chance.choice([0.0, 0.5, 3.0]))

    def _cut_off(self) -> None:
        self._cut(Network.cut_off)

    def _cut_from_others(self) -> None:
        """Clients still reach it: it serves until it finds out that it is alone."""
        self._cut(Network.cut_from_others)

    def _stop_for_a_moment(self) -> None:
        """SIGSTOP for so short that nobody takes over."""
        with self._away(loses=False) as master:
            master.child.send_signal(signal.SIGSTOP)
            try:
                threading.Event().wait(self._chance.choice(_SHORT_S))
            finally:
                master.child.send_signal(signal.SIGCONT)

    # Distances.

    def _move_away(self) -> None:
        """Each way of each connection to a node gets a delay of its own."""
        most_ms = self._chance.choice([0, 0.2, 1, 5, _FAR_MS])
        self._be_far(self._chance.choice([0, most_ms]), most_ms)

    def _lose_packets(self) -> None:
        """What passes is held up for a while."""
        with self._system.away(range(SLOTS), loses=False):
            self._be_far(0, 500)
            threading.Event().wait(self._chance.choice([0.1, 1.0]))
            self._be_far(0, 0)
            self._system.until_settled()

    def _be_far(self, least_ms: float, most_ms: float) -> None:
        if not self._system.relays:
            raise NotPossibleError("there are no relays in front of the nodes")
        self._system.delay(least_ms, most_ms)


_ALL: Final[dict[str, list[Callable[[Troubles], None]]]] = {
    "reshard": [
        Troubles._move_slot,
        Troubles._move_slot,
        Troubles._move_there_and_back,
        Troubles._move_in_vain,
        Troubles._reshard,
    ],
    "atomic": [Troubles._move_whole],
    "proxy": [Troubles._restart_proxy],
    "rules": [Troubles._change_rules],
    "memory": [Troubles._run_short],
    "failover": [Troubles._fail_over, Troubles._fail_over_force],
    "takeover": [Troubles._take_over],
    "kill": [Troubles._kill_master],
    "stop": [Troubles._stop_master, Troubles._stop_for_a_moment],
    "partition": [Troubles._cut_off, Troubles._cut_from_others],
    "distance": [Troubles._move_away, Troubles._move_away, Troubles._lose_packets],
}
NAMES: Final = tuple(_ALL)
