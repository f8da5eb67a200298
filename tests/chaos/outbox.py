"""`python -m tests.chaos.outbox --firings 100000 --kills 100`: outboxes, while proxies are killed.

Elements of many slots expire in bursts, before three masters; rules send them to destinations in
other slots. In each burst proxies are killed with -9 at a random moment: one, or all at once. In
the end each element must have arrived once, and those of one key in the order of their deadlines.
Exit code 1 if not.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Final, NamedTuple

from tests.chaos.accounts import parser
from tests.support.cluster import Cluster
from tests.support.processes import wait_until
from tests.support.redis_client import Client
from tests.support.servers import Binary, Proxy, find_binaries
from ttlproxy.core.keys import Keys, slot
from ttlproxy.link.reaper import outboxes

KEYS: Final = Keys(clustered=True)
# Rule -> its destination; their keys are `verb:number`.
RULES: Final = {
    b"rpush": (b"RPUSH", b"to:a"),
    b"lpush": (b"LPUSH", b"to:b"),
    b"xadd": (b"XADD", b"to:c"),
    b"many": (b"RPUSH", b"to:%1"),  # to one of ten
}
SOURCES: Final = 100  # keys of each rule
PROXIES: Final = 2
# How long the lease of a killed proxy holds up the others.
LEASE_MS: Final = 200
# From when a burst's elements are written until the first expires; and until the last one does.
WRITTEN_MS: Final = 600
BURST_MS: Final = 20
KILLED_WITHIN_MS: Final = 150


class Found(NamedTuple):
    """What was in the outboxes when all proxies were dead.

    waiting: entries; applied: those of them that had been carried, and were not removed yet
    """

    waiting: int
    applied: int


class Figures(NamedTuple):
    firings: int
    kills: int
    slots: int
    found: list[Found]
    took_s: float
    faults: list[str]

    def __str__(self) -> str:
        interrupted = [found for found in self.found if found.waiting]
        doubtful = [found for found in self.found if found.applied]
        return (
            f"{self.firings:,} elements of {self.slots} slots, {self.kills} kills of proxies,"
            f" {self.took_s:.0f} s; all proxies dead {len(self.found)} times:"
            f" {len(interrupted)} times with entries in outboxes"
            f" ({sum(found.waiting for found in interrupted):,}), {len(doubtful)} times with"
            f" entries that were carried and not removed"
            f" ({sum(found.applied for found in doubtful):,});"
            f" {len(self.faults)} faults"
        )


def sources() -> list[bytes]:
    """The keys whose elements expire."""
    return [b"%b:%d:{%b%d}" % (rule, n % 10, rule, n) for rule in RULES for n in range(SOURCES)]


def faults(expected: Mapping[bytes, int], arrived: Iterable[bytes]) -> list[str]:
    """What is wrong with the names that have arrived at one destination, in this order.

    expected: how many elements of each key should
    """
    found: list[str] = []
    numbers: dict[bytes, list[int]] = {key: [] for key in expected}
    for name in arrived:
        key, _, number = name.rpartition(b"/")
        numbers.setdefault(key, []).append(int(number))
    for key, each in numbers.items():
        wanted = list(range(expected.get(key, 0)))
        if each == wanted:
            continue
        missing = sorted({*wanted} - {*each})
        doubled = [number for number, count in Counter(each).items() if count > 1]
        found.append(
            f"{key.decode()}: {len(missing)} missing {missing[:5]}, {len(doubled)} doubled"
            f" {doubled[:5]}, {'sorted' if each == sorted(each) else 'not in order'}"
        )
    return found


class Trial:
    """A Cluster, proxies that are killed, and a client that reads."""

    def __init__(
        self, binary: Binary, chance: random.Random, stack: ExitStack, *, forked: bool
    ) -> None:
        self._chance = chance
        self._forked = forked
        self._cluster = stack.enter_context(Cluster(binary, nodes=3, masters=3))
        self._proxies = [self._proxy(stack) for _ in range(PROXIES)]
        self._written = Counter[bytes](dict.fromkeys(sources(), 0))  # key -> its elements so far
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read, name="reader")
        stack.callback(self._over.set)

    def run(self, firings: int, kills: int) -> Figures:
        began_s = time.monotonic()
        self._set_rules()
        self._reader.start()
        # One burst for each time that proxies are killed: one, and then all.
        bursts = max(1, -(-kills * 2 // (1 + PROXIES)))
        killed, found = 0, list[Found]()
        for burst in range(bursts):
            due_ms = self._now_ms() + WRITTEN_MS
            self._write(firings // bursts + (burst < firings % bursts), due_ms)
            self._sleep_until(due_ms + self._chance.uniform(0, KILLED_WITHIN_MS))
            victims = self._proxies if burst % 2 else [self._chance.choice(self._proxies)]
            victims = victims[: kills - killed]
            for proxy in victims:
                proxy.child.send_signal(signal.SIGKILL)
            for proxy in victims:
                proxy.wait()
            killed += len(victims)
            if len(victims) == len(self._proxies):
                found.append(self._look())
            for proxy in victims:
                proxy.start()
        self._until_all_has_arrived(firings)
        self._over.set()
        self._reader.join()
        troubles = self._judged()
        troubles += [fault for proxy in self._proxies for fault in proxy.faults]
        slots = len({slot(name) for name in self._written})
        return Figures(firings, killed, slots, found, time.monotonic() - began_s, troubles)

    def _proxy(self, stack: ExitStack) -> Proxy:
        words = ("--lease-ms", str(LEASE_MS))
        proxy = Proxy(self._cluster.nodes[0].url, *words, forked=self._forked)
        stack.callback(proxy.remove)
        return proxy.start()

    def _now_ms(self) -> int:
        return self._cluster.nodes[0].client.now_ms()

    def _sleep_until(self, at_ms: float) -> None:
        time.sleep(max(0.0, (at_ms - self._now_ms()) / 1000))

    def _set_rules(self) -> None:
        client = Client(self._proxies[0].port)
        for rule, (verb, dest) in RULES.items():
            pattern = b"%b:*:{*}" % rule
            reply = client.ask("ONEXPIRE", pattern, verb, dest, "OUTBOX")
            assert reply == b"OK", reply
        client.close()

    def _write(self, count: int, due_ms: int) -> None:
        """Elements of all keys in turn; those of one key expire one after the other."""
        client, names = Client(self._proxies[0].port), list(self._written)
        requests = []
        for number in range(count):
            key = names[number % len(names)]
            name = b"%b/%06d" % (key, self._written[key])
            self._written[key] += 1
            at_ms = due_ms + number * BURST_MS // count
            requests.append(("SADDEX", key, "PXAT", at_ms, "MEMBERS", 1, name))
        assert {*client.ask_many(requests)} == {1}
        client.close()

    def _read(self) -> None:
        """Reads keys, so that elements are handed on for clients, too, until it is over."""
        chance, names = random.Random(0), sources()
        while not self._over.wait(0.01):
            proxy = chance.choice(self._proxies)
            try:
                client = Client(proxy.port)
                while not self._over.wait(0.002):
                    client.ask("SCARD", chance.choice(names))
            except OSError:
                pass  # the proxy was killed
            except Exception as trouble:
                if "onnect" not in repr(trouble):
                    raise

    def _outboxes(self) -> Iterator[tuple[bytes, list[bytes]]]:
        """All outboxes, and their entries."""
        for node in self._cluster.nodes:
            for name in node.ask("KEYS", KEYS.outbox + b"*"):
                if KEYS.destination(name) is not None:
                    yield name, node.ask("LRANGE", name, 0, -1)

    def _look(self) -> Found:
        """What outboxes have, and how much of it has been carried. No proxy is running."""
        waiting = applied = 0
        for name, entries in self._outboxes():
            waiting += len(entries)
            to = KEYS.destination(name)
            assert to is not None
            progress, owner = KEYS.shared_in(to, KEYS.outbox), self._cluster.nodes[to * 3 // 16384]
            words = (owner.ask("HGET", progress, slot(name)) or b"").split()
            carried = dict(zip(words[1::2], map(int, words[2::2]), strict=True))
            for entry in entries:
                term, number = outboxes.identity(entry).split()
                applied += int(number) <= carried.get(term, 0)
        return Found(waiting, applied)

    def _until_all_has_arrived(self, firings: int) -> None:
        client = Client(self._proxies[0].port)
        lists = [b"to:a", b"to:b", *(b"to:%d" % n for n in range(10))]

        def count() -> int:
            sizes = client.ask_many([*(("LLEN", name) for name in lists), ("XLEN", "to:c")])
            return sum(map(int, sizes))

        wait_until(lambda: count() >= firings, f"{firings} elements have arrived", 120)
        wait_until(lambda: not [*self._outboxes()], "the outboxes are empty")
        client.close()

    def _judged(self) -> list[str]:
        client = Client(self._proxies[0].port)
        found: list[str] = []
        for rule, (verb, dest) in RULES.items():
            of_rule = {key: n for key, n in self._written.items() if key.startswith(rule + b":")}
            dests = {dest.replace(b"%1", key.split(b":")[1]) for key in of_rule}
            for to in sorted(dests):
                mine = {
                    key: n
                    for key, n in of_rule.items()
                    if dest.replace(b"%1", key.split(b":")[1]) == to
                }
                found += faults(mine, _arrived(client, verb, to))
        client.close()
        return found


def _arrived(client: Client, verb: bytes, dest: bytes) -> list[bytes]:
    """The names of elements at a destination, as they came."""
    if verb == b"XADD":
        return [
            words[words.index(b"element") + 1] for _, words in client.ask("XRANGE", dest, "-", "+")
        ]
    names: list[bytes] = client.ask("LRANGE", dest, 0, -1)
    return names[::-1] if verb == b"LPUSH" else names


def trial(binary: Binary, firings: int, kills: int, seed: int, *, forked: bool) -> Figures:
    with ExitStack() as stack:
        return Trial(binary, random.Random(seed), stack, forked=forked).run(firings, kills)


def main() -> int:
    flags = parser("tests.chaos.outbox", __doc__)
    flags.add_argument("--firings", type=int, default=100_000)
    flags.add_argument("--kills", type=int, default=100)
    options = flags.parse_args()
    binary = find_binaries()[options.redis]
    figures = trial(binary, options.firings, options.kills, options.seed, forked=False)
    print(figures)
    for fault in figures.faults:
        print(f"FAULT: {fault}")
    return int(bool(figures.faults))


if __name__ == "__main__":
    sys.exit(main())
