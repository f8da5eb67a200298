"""Troubles between proxies and Redis that no client may notice: pauses, lost connections of the
proxies' own, and proxies that stand still; one after the other, at random.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from tests.support.redis_client import Client
from tests.support.server_queries import connections
from tests.support.servers import Proxy

_LONGEST_S: Final = 0.08
_BETWEEN_S: Final = 0.05
_WAITS: Final = 0.3  # how often it waits until all is served
_PUSHES: Final = "ttlproxy:pushes"


class LinkTroubles:
    """`with LinkTroubles(servers, proxies, seed) as troubles:` makes them all the time.

    made: how many there were of each kind
    """

    def __init__(
        self, servers: Sequence[int], proxies: Sequence[Proxy], keys: Sequence[str], seed: int
    ) -> None:
        """`servers`: the ports of Redis; `keys`: one of each master, for requests that must be
        answered now and then, because a busy machine may need long for what follows a trouble."""
        self.made = Counter[str]()
        self._keys = keys
        self._servers = servers
        self._proxies = proxies
        self._chance = Random(seed)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._keep_on)
        self._kinds: list[Callable[[], None]] = [
            self._pause_writes,
            self._pause_all,
            self._stop_a_proxy,
            self._lose_pushes,
            self._lose_all_pushes,
            self._lose_a_heartbeat,
            self._lose_pushes_while_a_proxy_stands_still,
        ]

    def __enter__(self) -> LinkTroubles:
        self._thread.start()
        return self

    def __exit__(self, *trouble: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _keep_on(self) -> None:
        while not self._is_over.wait(self._chance.uniform(0, _BETWEEN_S)):
            kind = self._chance.choice(self._kinds)
            kind()
            self.made[kind.__name__.strip("_")] += 1
            if self._chance.random() < _WAITS:
                self._until_served()

    def _until_served(self) -> None:
        for proxy in self._proxies:
            with Client(proxy.port) as client:
                for key in self._keys:
                    client.ask("EXISTS", key)

    def _ask(self, port: int, *words: str | int) -> None:
        with Client(port) as direct:
            direct.ask(*words)

    def _pause(self, mode: str) -> None:
        milliseconds = self._chance.randint(1, int(_LONGEST_S * 1000))
        self._ask(self._chance.choice(self._servers), "CLIENT", "PAUSE", milliseconds, mode)

    def _pause_writes(self) -> None:
        self._pause("WRITE")

    def _pause_all(self) -> None:
        self._pause("ALL")

    def _stop_a_proxy(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        child = self._chance.choice(self._proxies).child
        child.send_signal(signal.SIGSTOP)
        try:
            meanwhile()
            time.sleep(self._chance.uniform(0, _LONGEST_S))
        finally:
            child.send_signal(signal.SIGCONT)

    def _lose_one(self, port: int, name: str) -> None:
        found = [each["id"] for each in connections(port) if each["name"] == name]
        if found:
            self._ask(port, "CLIENT", "KILL", "ID", self._chance.choice(found))

    def _lose_pushes(self) -> None:
        self._lose_one(self._chance.choice(self._servers), _PUSHES)

    def _lose_all_pushes(self) -> None:
        for port in self._servers:
            for each in connections(port):
                if each["name"] == _PUSHES:
                    self._ask(port, "CLIENT", "KILL", "ID", each["id"])

    def _lose_a_heartbeat(self) -> None:
        self._lose_one(self._chance.choice(self._servers), "ttlproxy:link")

    def _lose_pushes_while_a_proxy_stands_still(self) -> None:
        def lose() -> None:
            for port in self._servers:
                self._lose_one(port, _PUSHES)

        self._stop_a_proxy(lose)
