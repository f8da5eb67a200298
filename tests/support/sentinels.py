"""A master with two replicas and three Sentinels, as real processes. Knows no proxy."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import redis

from tests.support.processes import START_TIMEOUT_S, Process, attempts, free_port, wait_until
from tests.support.raw_client import Connection
from tests.support.server_queries import info
from tests.support.servers import PORT_TAKEN, Binary, Server

NAME = "mymaster"
QUORUM = 2
_DOWN_AFTER_MS = 700
# It asks replicas every ten seconds, and during a failover every second.
_JUST_MS = 12_000
# Also half the time that has to pass between two failovers by the Sentinels themselves.
_FAILOVER_MS = 3000
_PATIENCE_S = 90.0
# A replica acknowledges once a second.
_IN_STEP_S = 10.0
# What a master says of a replica: ip=127.0.0.1,port=7001,state=online,offset=42,lag=0
_REPLICA = re.compile(r"port=(\d+),state=online,offset=(\d+)")


class Sentinel(Process):
    """One `redis-server --sentinel` on a free port of 127.0.0.1, which watches a master."""

    def __init__(self, binary: Binary, master_port: int, *config: str) -> None:
        """`config`: further lines of its configuration."""
        super().__init__()
        self.binary = binary
        self.folder = Path(tempfile.mkdtemp(prefix="ttlproxy-"))
        self.port = 0
        self._lines = [
            f"sentinel monitor {NAME} 127.0.0.1 {master_port} {QUORUM}",
            f"sentinel down-after-milliseconds {NAME} {_DOWN_AFTER_MS}",
            f"sentinel failover-timeout {NAME} {_FAILOVER_MS}",
            *config,
        ]

    def start(self) -> Sentinel:
        """Returns when it answers."""
        while True:
            self.port = free_port()
            if self._launch():
                return self

    def restart(self) -> None:
        """Answers again on the same port; it watches what it watched at its first start."""
        for _ in attempts(START_TIMEOUT_S, f"a Sentinel on port {self.port} again"):
            if self._launch():
                return

    def ask(self, *words: str) -> object:
        with redis.Redis(port=self.port, decode_responses=True) as client:
            return client.execute_command("SENTINEL", *words)

    def ask_to_fail_over(self) -> None:
        for _ in attempts(_PATIENCE_S, "a Sentinel that begins a failover"):
            with suppress(redis.ResponseError):  # another one is under way, or no replica is fit
                self.ask("FAILOVER", NAME)
                return

    def facts(self) -> dict[str, str | int]:
        """What it says about the master."""
        with redis.Redis(port=self.port, decode_responses=True) as client:
            return dict(client.sentinel_master(NAME))

    def knows(self, replica_port: int) -> bool:
        """Whether the replica has just told it about itself: only then can it be promoted."""
        with redis.Redis(port=self.port, decode_responses=True) as client:
            replicas = client.sentinel_slaves(NAME)
        return any(
            each["port"] == replica_port and each["runid"] and each["info-refresh"] < _JUST_MS
            for each in replicas
        )

    @property
    def is_failing_over(self) -> bool:
        """Whether a failover is under way; one for which no replica is fit ends soon."""
        return "failover_in_progress" in str(self.facts()["flags"])

    @property
    def tilts(self) -> int:
        """How often it got no processor for two seconds; then it does nothing for half a minute."""
        return (self.folder / "sentinel.log").read_text(errors="replace").count("+tilt")

    @property
    def master_port(self) -> int:
        with redis.Redis(port=self.port) as client:
            return int(client.sentinel_get_master_addr_by_name(NAME)[1])

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _launch(self) -> bool:
        """False when the port was taken."""
        log, file = self.folder / "sentinel.log", self.folder / "sentinel.conf"
        log.unlink(missing_ok=True)
        lines = [f"port {self.port}", "bind 127.0.0.1", f"dir {self.folder}", f"logfile {log}"]
        file.write_text("\n".join([*lines, *self._lines, ""]))
        self._child = subprocess.Popen(
            [self.binary.path, str(file), "--sentinel"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in attempts(START_TIMEOUT_S, "a Sentinel that answers"):
            if not self.running:
                text = log.read_text(errors="replace") if log.exists() else ""
                if PORT_TAKEN.search(text):
                    return False
                raise RuntimeError(f"the Sentinel ended at start:\n{text}")
            with suppress(OSError, EOFError), Connection(self.port) as client:
                if client.ask("PING").startswith((b"+PONG", b"-NOAUTH")):
                    break
        return True


class Replicated:
    """The servers and their Sentinels; `with Replicated(binary) as servers: ... servers.url`."""

    def __init__(self, binary: Binary) -> None:
        self._binary = binary
        self._owned = ExitStack()
        self.servers: list[Server] = []
        self.sentinels: list[Sentinel] = []

    def __enter__(self) -> Replicated:
        for _ in range(3):
            server = Server(self._binary, "--hz", "100")
            self._owned.callback(server.remove)
            self.servers.append(server.start())
        master = self.servers[0]
        for replica in self.servers[1:]:
            follow(replica, master)
        for _ in range(3):
            sentinel = Sentinel(self._binary, master.port)
            self._owned.callback(sentinel.remove)
            self.sentinels.append(sentinel.start())
        self.until_calm()
        return self

    def __exit__(self, *trouble: object) -> None:
        self._owned.close()

    @property
    def url(self) -> str:
        places = ",".join(f"127.0.0.1:{each.port}" for each in self.sentinels)
        return f"redis-sentinel://{places}/0#{NAME}"

    @property
    def master(self) -> Server:
        """The master, on which all Sentinels agree; see `until_calm`."""
        return self.at(self.sentinels[0].master_port)

    @property
    def tilts(self) -> int:
        return sum(sentinel.tilts for sentinel in self.sentinels)

    def at(self, port: int) -> Server:
        return next(server for server in self.servers if server.port == port)

    def fail_over(self, old: Server) -> Server:
        """Asks a Sentinel to promote a replica; returns the new master as soon as it is one.

        The old master lives on, as a master, until the Sentinels make it a replica. On a busy
        machine a Sentinel may give up: then it is asked again.
        """
        for _ in attempts(_PATIENCE_S, "a failover on demand"):
            self.sentinels[0].ask_to_fail_over()
            with suppress(TimeoutError):
                return self.until_promoted(old, 4 * _FAILOVER_MS / 1000)
        raise AssertionError  # attempts has raised

    def until_promoted(self, old: Server, limit_s: float = _PATIENCE_S) -> Server:
        """Returns the new master as soon as it is one."""
        found: list[Server] = []

        def is_promoted() -> bool:
            for server in self.servers:
                if server is not old and _replication(server).get("role") == "master":
                    found.append(server)
            return bool(found)

        wait_until(is_promoted, "a replica that is promoted", limit_s)
        return found[0]

    def until_named(self, master: Server) -> bool:
        """Returns when a Sentinel says that this is the master, or that it has given up on it.

        A Sentinel that is late gives up, and makes the promoted replica a replica again. Returns
        whether it is named.
        """
        for _ in attempts(_PATIENCE_S, "a Sentinel that names the new master"):
            if master.port in [each.master_port for each in self.sentinels]:
                return True
            if _replication(master).get("role") == "slave":
                return False
        raise AssertionError  # attempts has raised

    def until_calm(self) -> Server:
        """Returns the master when all follow it, and no Sentinel has anything left to do."""
        for server in self.servers:
            if not server.running:
                server.restart()
        for _ in attempts(_PATIENCE_S, "servers at rest"):
            wait_until(self._agree, "Sentinels that agree", _PATIENCE_S)
            master = self.master
            replicas = [server for server in self.servers if server is not master]
            for server in replicas:
                follow(server, master)
            wait_until(self._is_calm, "Sentinels that see all servers well", _PATIENCE_S)
            with suppress(TimeoutError):  # the Sentinels may fail over just now
                _until_in_step(master, replicas)
                break
        return master

    def _agree(self) -> bool:
        (port, *others) = {sentinel.master_port for sentinel in self.sentinels}
        return not others and _replication(self.at(port)).get("role") == "master"

    def _is_calm(self) -> bool:
        for sentinel in self.sentinels:
            facts = sentinel.facts()
            if facts["flags"] != "master" or int(facts["num-other-sentinels"]) != 2:
                return False
            with redis.Redis(port=sentinel.port, decode_responses=True) as client:
                replicas = client.sentinel_slaves(NAME)
            if [each["flags"] for each in replicas] != ["slave", "slave"]:
                return False
        return self._agree()


def follow(replica: Server, master: Server) -> None:
    """Makes it a replica, and returns when it has the master's data."""

    def is_told() -> bool:
        with suppress(OSError, EOFError), Connection(replica.port) as direct:
            return direct.ask("REPLICAOF", "127.0.0.1", master.port).startswith(b"+OK")
        return False

    def follows() -> bool:
        said = _replication(replica)
        return (said.get("master_port"), said.get("master_link_status")) == (
            str(master.port),
            "up",
        )

    wait_until(is_told, "a server that is made a replica", _PATIENCE_S)

    wait_until(follows, "a replica in step", _PATIENCE_S)


def _until_in_step(master: Server, replicas: Sequence[Server]) -> None:
    """Returns when the replicas have acknowledged what the master has done so far.

    Before its first acknowledgement, a replica that has just got a copy is sent nothing more
    (src/replication.c, repl_start_cmd_stream_on_ack).
    """
    done = int(_replication(master)["master_repl_offset"])

    def are_in_step() -> bool:
        said = _REPLICA.findall("\n".join(_replication(master).values()))
        acknowledged = {int(port): int(offset) for port, offset in said}
        return all(acknowledged.get(replica.port, -1) >= done for replica in replicas)

    wait_until(are_in_step, "replicas that have what the master has", _IN_STEP_S)


def _replication(server: Server) -> dict[str, str]:
    """What it says about replication; nothing if a Sentinel that changes its role closes all
    connections there just now (src/sentinel.c, sentinelSendSlaveOf)."""
    with suppress(OSError, EOFError):
        return info(server.port, "replication")
    return {}
