"""A rolling restart under load: one proxy after the other is drained, and another takes its place.

`python -m tests.chaos.rolling --proxies 12 --seconds 60` restarts them again and again. Clients
write, read and come back to another proxy, while elements expire. With `--kill` proxies are killed
instead of drained, and `--beside 1000` attaches so many more, which nobody uses. With `--other
CHECKOUT/.venv/bin/python` every second proxy is of the build that this interpreter has. It prints
its numbers, for how long the last element was due, and has exit code 1 for a fault.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from itertools import cycle
from random import Random
from typing import Any, Final

from tests.bench.fleet import Fleet, Size
from tests.chaos.accounts import Account, parser
from tests.chaos.history import Excuses, ServersClock
from tests.chaos.system import machine_ms
from tests.chaos.trial import of_round, set_rules
from tests.chaos.writers import (
    Actor,
    Expirer,
    InDoubtError,
    Reader,
    Round,
    TaskWriter,
    Writer,
)
from tests.support.processes import wait_until
from tests.support.redis_client import Client, Word
from tests.support.servers import Proxy, Server, find_binaries
from ttlproxy.core.keys import Keys

_LOOK_S: Final = 0.01
# What is due is gone after so long, whichever proxy has just ended.
_LATE_MS: Final = 2000
# Of the proxies beside, so many are real links, the others replay what a real one sends.
_REAL: Final = 100
_START_S: Final = 10.0


class Tier:
    """Proxies in front of one server, of which clients take any. `with` ends them.

    proxies: those that new clients come to
    """

    def __init__(
        self, server: Server, count: int, *words: str, forked: bool, other: str = sys.executable
    ) -> None:
        """`words`: settings of the proxies, as on the command line; `other`: the interpreter of the
        build that every second one is of."""
        self.master = server
        self.clock, self.excuses = ServersClock(), Excuses()
        self.evicting = self.excuses.evicting
        self.proxies: list[Proxy] = []
        self._words = words
        self._forked = forked
        self._pythons = cycle((sys.executable, other))
        self._stack = ExitStack()
        with ExitStack() as failed:
            failed.callback(self._stack.close)
            for _ in range(count):
                self.proxies.append(self._started())
            failed.pop_all()

    def __enter__(self) -> Tier:
        return self

    def __exit__(self, *trouble: object) -> None:
        self._stack.close()

    @property
    def now_ms(self) -> float:
        return machine_ms()

    def at_redis(self, key: str, *words: Word) -> Any:
        with Client(self.master.port) as client:
            return client.ask(*words)

    def excuses_of(self, key: str) -> Excuses:
        return self.excuses

    def replace(self, number: int) -> list[str]:
        """Starts another proxy in the place of this one, and drains this one, as a Deployment
        does. Returns what it logged of exceptions."""
        old, self.proxies[number] = self.proxies[number], self._started()
        old.stop()
        return old.faults

    def kill(self, number: int) -> list[str]:
        """The same, but kills this one first."""
        old = self.proxies[number]
        old.kill()
        self.proxies[number] = self._started()
        return old.faults

    def _started(self) -> Proxy:
        python = next(self._pythons)
        proxy = Proxy(self.master.url, *self._words, forked=self._forked, python=python)
        self._stack.callback(proxy.remove)
        return proxy.start()


class Overdue(threading.Thread):
    """Looks at Redis all the time: how long something has been due that is still there.

    most_ms: the longest
    """

    def __init__(self, server: Server) -> None:
        super().__init__(name="overdue")
        self.most_ms = 0.0
        self._server = server
        self._over = threading.Event()

    def run(self) -> None:
        with Client(self._server.port) as direct:
            while not self._over.wait(_LOOK_S):
                (seconds, micros), first = direct.ask_many(
                    [("TIME",), ("ZRANGE", Keys().schedule, 0, 0, "WITHSCORES")], transaction=True
                )
                if first:
                    now_ms = int(seconds) * 1000 + int(micros) / 1000
                    self.most_ms = max(self.most_ms, now_ms - float(first[1]))

    def __enter__(self) -> Overdue:
        self.start()
        return self

    def __exit__(self, *trouble: object) -> None:
        self._over.set()
        self.join()


class _Unread(Actor):
    """Writes keys that nobody reads: only the reaper ends their elements."""

    def step(self) -> None:
        key, due_ms = f"{self._round.name}:unread:{self._name()}", self._round.due(self._chance)
        with suppress(InDoubtError):
            self._ask([("SADDEX", key, "PXAT", due_ms, "MEMBERS", 1, "m")])


class _Round(Round):
    """Deadlines are so near that many elements are due while a proxy is replaced."""

    near_ms = (150, 500)  # no less than the news of a deadline may need on a busy machine

    @property
    def has_rule(self) -> bool:
        return True

    kinds_of_clients = (Writer, Writer, Writer, Expirer, Reader, TaskWriter, _Unread)


def _left(tier: Tier, round_: Round) -> list[bytes]:
    """The keys that nobody reads, as Redis has them."""
    keys: list[bytes] = tier.at_redis("", "KEYS", f"{round_.name}:unread:*")
    return keys


def restart(tier: Tier, seed: int, seconds: float = 0.0, *, kills: bool = False) -> Account:
    """Replaces each proxy once, and goes on with that for so many seconds. `kills`: no proxy is
    drained."""
    replace = tier.kill if kills else tier.replace
    round_, chance, counts = _Round(tier, 0, seed), Random(seed), Counter[str]()
    set_rules(tier, round_)
    clients, faults, until_s = round_.clients(), list[str](), time.monotonic() + seconds
    with Overdue(tier.master) as overdue:
        for client in clients:
            client.start()
        try:
            while not counts["replaced"] or time.monotonic() < until_s:
                for number in chance.sample(range(len(tier.proxies)), len(tier.proxies)):
                    faults += replace(number)
                    counts["replaced"] += 1
        finally:
            round_.stop.set()
            for client in clients:
                client.join()
        if round_.failures:
            raise RuntimeError(f"a client has failed: {round_.failures}")
        faults += of_round(tier, round_)
    faults += [fault for proxy in tier.proxies for fault in proxy.faults]
    try:
        wait_until(lambda: not _left(tier, round_), "the reaper ends what nobody reads")
    except TimeoutError:
        faults.append(f"{len(_left(tier, round_))} keys that nobody reads are left")
    counts["late by ms"] = round(overdue.most_ms)
    return Account(counts + round_.counts, faults)


def _trial(options: argparse.Namespace) -> Account:
    server = Server(find_binaries()[options.redis], "--maxclients", "12000")
    with ExitStack() as stack:
        stack.callback(server.remove)
        server.start()
        words: Sequence[str] = options.words
        tier = stack.enter_context(
            Tier(server, options.proxies, *words, forked=True, other=options.other)
        )
        if options.beside:
            real = min(options.beside, _REAL)
            beside = Fleet(server, Size(real, options.beside - real), words)
            stack.callback(beside.close)
            beside.start(_START_S)
        account = restart(tier, options.seed, options.seconds, kills=options.kill)
    late_ms = account.counts["late by ms"]
    late = [f"something was due for {late_ms} ms"] if late_ms > _LATE_MS else []
    return Account(account.counts, [*account.faults, *late])


def main() -> int:
    flags = parser("tests.chaos.rolling", __doc__)
    flags.add_argument("--proxies", type=int, default=12)
    flags.add_argument("--seconds", type=float, default=60.0)
    flags.add_argument("--kill", action="store_true")
    flags.add_argument("--beside", type=int, default=0)
    flags.add_argument("--other", default=sys.executable, help="the python of another build")
    flags.add_argument("words", nargs="*", help="settings of the proxies, behind --")
    options = flags.parse_args()
    return _trial(options).report(options.seed)


if __name__ == "__main__":
    sys.exit(main())
