"""The embedded Cluster: six servers and a proxy that start and end together."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest
from redis.exceptions import RedisError

from tests.support.processes import wait_until
from tests.support.redis_client import Client
from tests.support.servers import Binary
from ttlproxy.process.embedded_cluster import free_ports

KEYS: Final = [b"k:%d" % number for number in range(30)]


@pytest.fixture(autouse=True)
def path(binary: Binary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is the whole PATH and contains one redis-server."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "redis-server").symlink_to(binary.path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@contextmanager
def _running(data_dir: Path) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """The proxy's port, and (port, pid) of each node; a Ctrl-C ends all of them."""
    words = ["--listen", "127.0.0.1:0", "--embedded", "cluster", "--data-dir", str(data_dir)]
    child = subprocess.Popen(
        [sys.executable, "-m", "ttlproxy", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout
    said = ""
    try:
        while "try:" not in said and "Redis is unavailable" not in said:
            line = child.stdout.readline()
            assert line, said + child.communicate()[1]
            said += line
        port = re.findall(r"listens on 127.0.0.1:(\d+)", said)[0]
        nodes = re.findall(r"node +127.0.0.1:(\d+) \(pid (\d+)\)", said)
        yield int(port), [(int(each), int(pid)) for each, pid in nodes]
    finally:
        child.send_signal(signal.SIGINT)
        child.communicate()
    assert child.returncode == 130
    for _, pid in nodes:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


@pytest.mark.long
def test_a_cluster_of_six_starts_ends_and_comes_back_with_its_data(tmp_path: Path) -> None:
    with _running(tmp_path) as (port, nodes), closing(Client(port)) as client:
        assert len(nodes) == 6
        for key in KEYS:
            assert client.ask("HSETEX", key, "EX", 1000, "FIELDS", 1, "f", key) == 1
        roles = [_role(node) for node, _ in nodes]
        assert roles == [b"master"] * 3 + [b"slave"] * 3
    with _running(tmp_path) as (port, again), closing(Client(port)) as client:
        assert [client.ask("HGET", key, "f") for key in KEYS] == KEYS
        assert all(client.ask("HTTLFIELD", key, "f") > 0 for key in KEYS)
        assert sorted(_role(node) for node, _ in again) == [b"master"] * 3 + [b"slave"] * 3


@pytest.mark.slow
@pytest.mark.any_server
def test_a_replica_takes_over_from_a_master_that_is_killed(tmp_path: Path) -> None:
    with _running(tmp_path) as (port, nodes):
        os.kill(nodes[0][1], signal.SIGKILL)
        wait_until(lambda: _writes(port), "all slots are served again", 90)


def test_a_port_is_free_with_that_of_its_bus() -> None:
    ports = free_ports(50)
    assert len({*ports}) == 50
    assert max(ports) + 10_000 < 65_536


def _role(port: int) -> bytes:
    with closing(Client(port)) as client:
        role: bytes = client.ask("ROLE")[0]
        return role


def _writes(port: int) -> bool:
    with closing(Client(port)) as client:
        try:
            return all(client.ask("SET", key, 1) == b"OK" for key in KEYS)
        except RedisError:
            return False
