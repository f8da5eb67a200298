"""Network namespaces, one for each server, which can be cut off in silence. Needs root on Linux."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from random import randrange
from typing import Final

# Packets to a neighbour with this address reach nobody.
_NOBODY: Final = "02:00:00:00:00:fe"


class NoNetworkError(Exception):
    """There is no right to make namespaces, or no `ip`."""


class Network:
    """A bridge with so many places, each a namespace with an address. A context manager.

    hosts: their addresses
    """

    def __init__(self, places: int) -> None:
        """Raises NoNetworkError."""
        subnet = f"10.{randrange(128, 255)}.{randrange(255)}"
        self.hosts = [f"{subnet}.{at + 2}" for at in range(places)]
        self._name = f"ttl{os.getpid() % 100_000}"
        self._stack = ExitStack()
        if shutil.which("ip") is None:
            raise NoNetworkError("there is no command ip")
        with ExitStack() as failed:
            failed.callback(self._stack.close)
            self._make("link", "add", self._name, "type", "bridge")
            self._stack.callback(self._undo, "link", "del", self._name)
            self._make("addr", "add", f"{subnet}.1/24", "dev", self._name)
            self._make("link", "set", self._name, "up")
            for at, host in enumerate(self.hosts):
                self._add(at, host)
            failed.pop_all()

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *trouble: object) -> None:
        self._stack.close()

    def prefix(self, at: int) -> list[str]:
        """The words in front of a command that is to run at this place."""
        return ["ip", "netns", "exec", self._space(at)]

    @contextmanager
    def cut_off(self, at: int) -> Iterator[None]:
        """Nothing gets there, and nothing comes from there."""
        self._make("link", "set", self._space(at), "down")
        try:
            yield
        finally:
            self._make("link", "set", self._space(at), "up")

    @contextmanager
    def cut_from_others(self, at: int) -> Iterator[None]:
        """It reaches no other place, and the other way round; what is outside reaches all."""
        pairs = [(at, other) for other in range(len(self.hosts)) if other != at]
        pairs += [(other, at) for _, other in pairs]
        for place, other in pairs:
            lost = ("lladdr", _NOBODY, "nud", "permanent", "dev", "eth0")
            self._make("-n", self._space(place), "neigh", "replace", self.hosts[other], *lost)
        try:
            yield
        finally:
            for place, other in pairs:
                known = (self.hosts[other], "dev", "eth0")
                self._make("-n", self._space(place), "neigh", "del", *known)

    def _space(self, at: int) -> str:
        """The name of the namespace, and of the bridge's end of the wire to it."""
        return f"{self._name}n{at}"

    def _add(self, at: int, host: str) -> None:
        space = self._space(at)
        self._make("netns", "add", space)
        self._stack.callback(self._undo, "netns", "del", space)
        self._make("link", "add", space, "type", "veth", "peer", "name", "eth0", "netns", space)
        self._make("link", "set", space, "master", self._name, "up")
        self._make("-n", space, "addr", "add", f"{host}/24", "dev", "eth0")
        for name in ("lo", "eth0"):
            self._make("-n", space, "link", "set", name, "up")

    def _make(self, *words: str) -> None:
        done = _ip(words)
        if done.returncode:
            raise NoNetworkError(f"ip {' '.join(words)}: {done.stderr.strip()}")

    def _undo(self, *words: str) -> None:
        _ip(words)


def _ip(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
