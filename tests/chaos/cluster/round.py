"""One round: the keys of its clients, what they know, and which of their troubles count."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from tests.chaos.cluster.deliveries import Deliveries
from tests.chaos.cluster.pools import Pool
from tests.chaos.cluster.system import ClusterSystem, tags
from tests.chaos.history import meets
from tests.chaos.kinds import Kind, Words
from tests.chaos.system import machine_ms
from tests.chaos.writers import Round, RuledKeys
from ttlproxy.core.keys import slot


class Incident(NamedTuple):
    """An error, or a lost connection. since_ms: when the connection was last known to be good"""

    since_ms: float
    at_ms: float
    what: str


class Slot:
    """The keys in one slot that are not written by `Writer`, and what is known of them.

    deferred: tasks of DEFER; streamed, pushed: those that rules of ONEXPIRE hand on, by XADD and
    by RPUSH; queue, bag: items of a list and of a set
    """

    def __init__(self, tag: str, name: str) -> None:
        self.tag = tag
        self.number = slot(tag.encode())
        self.deferred, self.streamed, self.pushed = Deliveries(), Deliveries(), Deliveries()
        self.stream = f"deferred:{tag}:{name}"
        self.streaming, self.streamed_to = f"streaming:{tag}:{name}", f"streamed:{tag}"
        self.pushing, self.pushed_to = f"pushing:{tag}:{name}", f"pushed:{tag}"
        self.streaming_keys = RuledKeys(self.streaming)
        self.queue, self.bag = Pool(f"queue:{tag}:{name}"), Pool(f"bag:{tag}:{name}")

    @property
    def keys(self) -> list[str]:
        """All that may be left at the end."""
        pools = [self.queue.key, self.bag.key]
        tasks = [*set(self.streaming_keys.of.values()), self.streamed_to]
        return [self.stream, *tasks, self.pushing, self.pushed_to, *pools]


# The rules for the keys of all slots.
RULES = (
    ("streaming:{*}:*", "XADD", "streamed:{%1}"),
    ("pushing:{*}:*", "RPUSH", "pushed:{%1}"),
)


class ClusterRound(Round):
    """
    slots: those that have keys; incidents: what went wrong, as clients saw it
    """

    keys_of_a_type = 3

    def __init__(self, system: ClusterSystem, number: int, seed: int) -> None:
        self._tags = tags(system.words)
        Random(f"{seed}:{number}").shuffle(self._tags)
        super().__init__(system, number, seed)
        self._cluster = system
        self.slots = [Slot(tag, self.name) for tag in self._tags]
        self.incidents: list[Incident] = []
        self._noting = threading.Lock()

    def key_name(self, kind: Kind, at: int) -> str:
        """Each has a slot of its own."""
        number = "HSZL".index(kind.letter) * self.keys_of_a_type + at
        return f"{super().key_name(kind, at)}:{self._tags[number]}"

    @property
    def is_cautious(self) -> bool:
        return self._cluster.is_cautious

    @property
    def counts(self) -> Counter[str]:
        pools = [pool for each in self.slots for pool in (each.queue, each.bag)]
        deliveries = [
            tasks for each in self.slots for tasks in (each.deferred, each.streamed, each.pushed)
        ]
        more = Counter(
            {
                "tasks": sum(len(tasks.written) for tasks in deliveries),
                "items": sum(len(pool.put) for pool in pools),
                "items taken": sum(len(pool.taken) for pool in pools),
                "incidents": len(self.incidents),
            }
        )
        return super().counts + more

    def failed(self, requests: Sequence[Words], how: str, since_ms: float) -> None:
        what = f"{how}, when asked {' | '.join(' '.join(map(str, words)) for words in requests)}"
        with self._noting:
            self.incidents.append(Incident(since_ms, machine_ms(), what))

    def unexcused(self) -> Iterator[str]:
        """Incidents while no master was in trouble: however slots move, there must be none."""
        windows = [(away.begun_ms, away.ended_ms) for away in self._cluster.aways]
        for each in self.incidents:
            if not meets(windows, each.since_ms, each.at_ms):
                when = f"between {each.since_ms:.0f} and {each.at_ms:.0f}"
                yield f"{when}, no master was in trouble: {each.what}"
