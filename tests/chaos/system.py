"""Two servers, one the replica of the other, behind an address that can move, and two proxies in
front of it. Knows how to ask each without the proxies; knows no trouble and no client."""

from __future__ import annotations

import json
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from tests.chaos.history import Excuses, ServersClock, Window
from tests.support.clock_shim import Clock
from tests.support.network_path import NetworkPath
from tests.support.processes import attempts
from tests.support.redis_client import Client, Word
from tests.support.servers import Binary, Proxy, Server

PROXIES = 2
# The servers' settings. What is written before a reply survives a kill of the process.
_CONFIG = (
    *("--appendonly", "yes", "--appendfsync", "no"),
    *("--repl-ping-replica-period", "1", "--hz", "100"),
)
_PATIENCE_S = 60.0


def machine_ms() -> float:
    """The machine's clock; the servers' clock is ahead of it by a known amount."""
    return time.clock_gettime(time.CLOCK_REALTIME) * 1000


class Log:
    """Events, one JSON object a line; without a file nothing is written."""

    def __init__(self, file: TextIO | None) -> None:
        self._file = file
        self._lock = threading.Lock()

    def __call__(self, event: str, **known: object) -> None:
        line = json.dumps({"at_ms": round(machine_ms()), "event": event, **known})
        with self._lock:
            if self._file is not None:
                self._file.write(line + "\n")
                self._file.flush()


class System:
    """The processes of a run. `with` starts and ends them.

    master: the server to which new connections lead; replica: the other one
    relays: between each proxy and that address
    clock: what the servers' clock showed; excuses: when they could not reply as they should
    """

    def __init__(self, binary: Binary, shim: Path, log: Log, *, forked: bool) -> None:
        """`shim`: the library of tests.support.clock_shim."""
        self._stack = ExitStack()
        self._shim_clock = Clock(shim)
        self._stack.callback(self._shim_clock.close)
        self.log = log
        self.clock = ServersClock()
        self.excuses = Excuses()
        self.master, self.replica = (
            Server(binary, *_CONFIG, env=self._shim_clock.env) for _ in range(2)
        )
        self._forked = forked
        self.proxies: list[Proxy] = []
        self.relays: list[NetworkPath] = []

    def __enter__(self) -> System:
        with ExitStack() as failed:
            failed.callback(self._stack.close)
            for server in (self.master, self.replica):
                self._stack.callback(server.remove)
                self._stack.callback(self.go_on, server)
                server.start()
            self.switch = self._stack.enter_context(NetworkPath(self.master.port))
            self.follow()
            for _ in range(PROXIES):
                relay = self._stack.enter_context(NetworkPath(self.switch.port))
                self.relays.append(relay)
                url = f"redis://127.0.0.1:{relay.port}"
                proxy = Proxy(url, "--drain-max", "1", forked=self._forked)
                self._stack.callback(proxy.remove)
                self._stack.callback(self.go_on, proxy)
                proxy.start()
                self.proxies.append(proxy)
            failed.pop_all()
        return self

    def __exit__(self, *trouble: object) -> None:
        self._stack.close()

    # The servers, without the proxies.

    def ask(self, server: Server, *words: Word) -> Any:
        """The reply; an error is returned as an exception. Raises redis-py's connection errors."""
        with Client(server.port) as client:
            return client.ask(*words)

    def at_redis(self, key: str, *words: Word) -> Any:
        """The reply of the server that has the key."""
        return self.ask(self.master, *words)

    def excuses_of(self, key: str) -> Excuses:
        """What the troubles explain about the key."""
        return self.excuses

    def info(self, server: Server, section: str) -> dict[str, str]:
        text = self.ask(server, "INFO", section).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def follow(self) -> None:
        """Makes the replica follow the master; after a start it may not."""
        self.ask(self.replica, "REPLICAOF", "127.0.0.1", self.master.port)

    def is_in_step(self) -> bool:
        """Whether the replica has all data, and no server is loading or rewriting its file."""
        for server in (self.master, self.replica):
            found = self.info(server, "persistence")
            rewrites = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "loading")
            if any(found.get(name) != "0" for name in rewrites):
                return False
        offset = int(self.info(self.master, "replication")["master_repl_offset"])
        found = self.info(self.replica, "replication")
        is_up = found.get("master_link_status") == "up"
        follows = found.get("master_port") == str(self.master.port)
        return is_up and follows and int(found["master_repl_offset"]) >= offset

    def until_in_step(self, patience_s: float = _PATIENCE_S) -> bool:
        """Whether the replica was in step within this time."""
        try:
            for _ in attempts(patience_s, "the replica in step"):
                if self.is_in_step():
                    return True
        except TimeoutError:
            pass
        return False

    # The clock.

    @property
    def evicting(self) -> list[Window]:
        """When a server lacked memory."""
        return self.excuses.evicting

    @property
    def now_ms(self) -> float:
        """What the servers' clock shows."""
        return machine_ms() + self._shim_clock.ahead_ms

    def jump(self, by_ms: int) -> None:
        begun_ms = machine_ms()
        self._shim_clock.jump(by_ms)
        self.clock.jumped(begun_ms, machine_ms(), self._shim_clock.ahead_ms)

    # Processes.

    def go_on(self, process: Server | Proxy) -> None:
        """Continues a process that was stopped."""
        if process.running:
            process.child.send_signal(signal.SIGCONT)
