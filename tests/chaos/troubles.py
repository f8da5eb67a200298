"""What happens to servers, proxies, connections and clocks, one trouble after the other.

A trouble is over when its function returns; only pauses go on. Wrong or missing replies are excused
for as long as docs/limits.md and docs/semantics.md say, and no longer.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Final

from redis.exceptions import RedisError

from tests.chaos.settings import Rules, run_short
from tests.chaos.system import System, machine_ms
from tests.support.processes import attempts
from tests.support.servers import Proxy, Server

# How long a proxy may take to see that the server's clock has jumped forward, or that its server
# is no longer the master: a heartbeat or two on a busy machine.
SEEN_MS: Final = 3000
# After a pause the waiting requests are carried out, reaps included.
_CAUGHT_UP_MS: Final = 1000
_STEP_PATIENCE_S: Final = 10.0
# Longer than a failover takes; the test ends it with UNPAUSE.
_FAILOVER_PAUSE_MS: Final = 60_000
# How far a proxy may be from Redis, in ms each way: news of a deadline need less than `near_ms`.
_FAR_MS: Final = 50
_OWN_NAMES: Final = (b"ttlproxy:link", b"ttlproxy:pushes", b"ttlproxy:reaps", b"ttlproxy:reaper")


class Troubles:
    """Chooses and makes troubles until it is told to stop."""

    def __init__(self, system: System, chance: Random, only: Sequence[str] = ()) -> None:
        """`only`: some of `names()`; empty means all."""
        self._all = [each for each in _ALL if not only or _name(each) in only]
        self._system = system
        self._chance = chance
        self._paused_until_ms = 0.0
        self._rules = Rules(system, chance)
        self.counts = Counter[str]()

    def run(self, stop: threading.Event) -> None:
        """One trouble after the other. At the end all runs and the replica is in step."""
        try:
            while not stop.wait(self._chance.uniform(0.05, 2.0)):
                trouble = self._chance.choice(self._all)
                self._system.log("trouble", name=_name(trouble))
                trouble(self)
                self.counts["troubles"] += 1
        finally:
            self._calm()

    def _calm(self) -> None:
        system = self._system
        for server in (system.master, system.replica):
            system.ask(server, "CLIENT", "UNPAUSE")
        self._rules.clear()
        for relay in system.relays:
            relay.delay(0, 0)
        if not system.until_in_step():
            raise TimeoutError("the replica does not follow")

    # Excuses.

    def _late(self, begun_ms: float, until_ms: float) -> None:
        self._system.excuses.late.append((begun_ms, until_ms))

    def _stopped(self, begun_ms: float) -> None:
        """A process stood still since then: extends the excuses by that time."""
        lost_ms = machine_ms() - begun_ms
        excuses = self._system.excuses
        for windows in (excuses.late, excuses.lagging, excuses.ahead):
            windows[:] = [
                (begin, end + lost_ms if end >= begun_ms else end) for begin, end in windows
            ]

    # Troubles.

    def _pause(self, kind: str) -> None:
        pause_ms = round(self._chance.choice([100, 500, 1500, 7000]) * self._chance.uniform(0.5, 1))
        begun_ms = machine_ms()
        self._system.ask(self._system.master, "CLIENT", "PAUSE", pause_ms, kind)
        # A shorter pause does not end one that still lasts.
        self._paused_until_ms = max(self._paused_until_ms, machine_ms() + pause_ms)
        self._late(begun_ms, self._paused_until_ms + _CAUGHT_UP_MS)
        self._system.log("pause", kind=kind, ms=pause_ms)

    def _pause_writes(self) -> None:
        self._pause("WRITE")

    def _pause_all(self) -> None:
        self._pause("ALL")

    def _stop(self, process: Server | Proxy) -> None:
        begun_ms = machine_ms()
        process.child.send_signal(signal.SIGSTOP)
        try:
            self._sleep(self._chance.choice([0.1, 0.5, 1.5, 4.0]))
        finally:
            self._system.go_on(process)
            self._stopped(begun_ms)

    def _stop_server(self) -> None:
        self._stop(self._system.master)

    def _stop_replica(self) -> None:
        self._stop(self._system.replica)

    def _stop_proxy(self) -> None:
        self._stop(self._chance.choice(self._system.proxies))

    def _sleep(self, seconds: float) -> None:
        threading.Event().wait(seconds * self._chance.uniform(0.5, 1.0))

    def _fail_over(self) -> None:
        """A failover without loss: writes wait until the replica has all. Connections stay."""
        system = self._system
        if not system.until_in_step(_STEP_PATIENCE_S):
            system.log("skipped", why="the replica is not in step")
            return
        begun_ms = machine_ms()
        old, new = system.master, system.replica
        system.ask(old, "CLIENT", "PAUSE", _FAILOVER_PAUSE_MS, "WRITE")
        if system.until_in_step(_STEP_PATIENCE_S):
            system.ask(new, "REPLICAOF", "NO", "ONE")
            system.switch.target = new.port
            system.master, system.replica = new, old
            system.follow()
            system.excuses.lagging.append((begun_ms, machine_ms() + SEEN_MS))
        system.ask(old, "CLIENT", "UNPAUSE")
        self._late(begun_ms, machine_ms() + _CAUGHT_UP_MS)
        system.log("failed over", master=system.master.port)

    def _kill_server(self) -> None:
        """What the server has acknowledged is in its file, and is there again after the restart."""
        if not self._system.until_in_step(_STEP_PATIENCE_S):
            self._system.log("skipped", why="a server is not in step")
            return
        server = self._chance.choice([self._system.master, self._system.replica])
        server.kill()
        self._sleep(self._chance.choice([0.1, 2.0]))
        server.restart()
        for _ in attempts(30.0, "the server has read its file"):
            with suppress(RedisError):
                if self._system.info(server, "persistence")["loading"] == "0":
                    break
        self._system.follow()

    def _kill_proxy(self) -> None:
        proxy = self._chance.choice(self._system.proxies)
        proxy.kill()
        proxy.start()

    def _kill_clients(self, *words: str) -> None:
        self._system.ask(self._system.master, "CLIENT", "KILL", *words)

    def _kill_all_clients(self) -> None:
        self._kill_clients("SKIPME", "yes")

    def _kill_normal_clients(self) -> None:
        self._kill_clients("TYPE", "normal")

    def _kill_subscribers(self) -> None:
        self._kill_clients("TYPE", "pubsub")

    def _kill_own_connections(self) -> None:
        """Kills the proxies' own connections that have one of their names."""
        system, name = self._system, self._chance.choice(_OWN_NAMES)
        for line in system.ask(system.master, "CLIENT", "LIST").splitlines():
            words = dict(word.split(b"=", 1) for word in line.split() if b"=" in word)
            if words.get(b"name") == name:
                system.ask(system.master, "CLIENT", "KILL", "ID", words[b"id"])

    def _flush_scripts(self) -> None:
        self._system.ask(self._system.master, "SCRIPT", "FLUSH")

    def _jump(self) -> None:
        far_ms = self._chance.choice([100, 1000, 5000, 20_000, 20_000, 3_600_000])
        by_ms = round(self._chance.choice([-1, 1]) * far_ms * self._chance.uniform(0.5, 1.0))
        if by_ms < 0:  # Redis ends a pause by its clock: a jump back would prolong it
            left_ms = self._paused_until_ms + _CAUGHT_UP_MS - machine_ms()
            threading.Event().wait(left_ms / 1000)
        begun_ms = machine_ms()
        self._system.jump(by_ms)
        if by_ms > 0:
            self._system.excuses.set_forward(begun_ms, machine_ms() + SEEN_MS)
        self._system.log("jumped", by_ms=by_ms)

    def _change_rules(self) -> None:
        self._rules.change()

    def _run_short(self) -> None:
        """Where a rule cannot be carried out, its key does not expire: so there is none."""
        self._rules.clear()
        begun_ms = machine_ms()
        count = run_short(self._system, self._system.master, self._chance)
        self._late(begun_ms, machine_ms() + _CAUGHT_UP_MS)
        self.counts["keys evicted"] += count
        self._system.log("evicted", keys=count)

    def _move_proxy(self) -> None:
        """Each connection of a proxy gets a delay of its own, each way."""
        relay = self._chance.choice(self._system.relays)
        most_ms = self._chance.choice([0, 0.2, 1, 5, _FAR_MS])
        least_ms = self._chance.choice([0, most_ms])
        relay.delay(least_ms / 1000, most_ms / 1000)
        self._system.log("moved", port=relay.port, least_ms=least_ms, most_ms=most_ms)

    def _cut_way(self) -> None:
        """What one proxy and Redis say to each other is held up for a while, as by lost packets."""
        relay = self._chance.choice(self._system.relays)
        begun_ms = machine_ms()
        relay.delay(0, 0.5)
        self._sleep(self._chance.choice([0.1, 1.0]))
        relay.delay(0, 0)
        self._late(begun_ms, machine_ms() + 500 + _CAUGHT_UP_MS)

    def _reset_connections(self) -> None:
        part = self._chance.choice([0.2, 1.0])
        self._system.log("reset", connections=self._system.switch.reset(part, self._chance))


_ALL: Final[list[Callable[[Troubles], None]]] = [
    Troubles._pause_writes,
    Troubles._pause_writes,
    Troubles._pause_all,
    Troubles._stop_server,
    Troubles._stop_replica,
    Troubles._stop_proxy,
    Troubles._fail_over,
    Troubles._fail_over,
    Troubles._kill_server,
    Troubles._kill_proxy,
    Troubles._kill_all_clients,
    Troubles._kill_normal_clients,
    Troubles._kill_subscribers,
    Troubles._kill_own_connections,
    Troubles._flush_scripts,
    Troubles._jump,
    Troubles._jump,
    Troubles._jump,
    Troubles._reset_connections,
    Troubles._move_proxy,
    Troubles._move_proxy,
    Troubles._move_proxy,
    Troubles._cut_way,
    Troubles._change_rules,
    Troubles._change_rules,
    Troubles._change_rules,
    Troubles._run_short,
    Troubles._run_short,
]


def _name(trouble: Callable[[Troubles], None]) -> str:
    return trouble.__name__.strip("_")


def names() -> list[str]:
    """The names of all troubles."""
    return sorted(set(map(_name, _ALL)))
