"""A name that points to another server after a while, also where nobody connects meanwhile."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import redis

from tests.conftest import StartProxy, StartServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection

# Read by Python at its start: names of hosts are looked up in a file. Linux has all of 127.0.0.0/8
# on its loopback device.
SITE = """
import os, socket
asked = socket.getaddrinfo
def getaddrinfo(host, *args, **options):
    with open(os.environ["HOSTS"]) as file:
        names = dict(line.split() for line in file)
    return asked(names.get(host, host), *args, **options)
socket.getaddrinfo = getaddrinfo
"""
NAME = "redis.example"

pytestmark = [
    pytest.mark.any_server,
    pytest.mark.parametrize("loop_name", ["asyncio"], indirect=True, scope="session"),
]


def test_sessions_end_and_the_new_server_is_served(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path
) -> None:
    old = start_server()
    start_server("--bind", "127.0.0.2", "--port", str(old.port))
    (tmp_path / "sitecustomize.py").write_text(SITE)
    hosts = tmp_path / "hosts"
    hosts.write_text(f"{NAME} 127.0.0.1\n")
    env = {"PYTHONPATH": str(tmp_path), "HOSTS": str(hosts)}
    proxy = start_proxy(f"redis://{NAME}:{old.port}", env=env, forked=False)
    with redis.Redis("127.0.0.2", old.port) as new, Connection(proxy.port) as client:
        assert client.ask("SET", "k", "old") == b"+OK\r\n"
        (tmp_path / "next").write_text(f"{NAME} 127.0.0.2\n")
        (tmp_path / "next").replace(hosts)
        assert client.read_to_end() == b""

        def is_served() -> bool:
            with suppress(OSError, EOFError), Connection(proxy.port) as client:
                return client.ask("SET", "k", "new") == b"+OK\r\n"
            return False

        wait_until(is_served, "clients that are served again")
        assert new.get("k") == b"new"
    with Connection(old.port) as direct:
        assert direct.ask("GET", "k") == b"$3\r\nold\r\n"
