"""A Valkey that tells its clients where its successor is: they must not go there past the proxy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.conftest import StartProxy
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.server_queries import info
from tests.support.servers import Binary, Server

CAPA = ("CLIENT", "CAPA", "redirect")


@pytest.fixture
def pair(valkey_binary: Binary) -> Iterator[tuple[Server, Server]]:
    """A master and its replica."""
    with Server(valkey_binary) as master, Server(valkey_binary) as replica:
        with Connection(replica.port) as direct:
            assert direct.ask("REPLICAOF", "127.0.0.1", master.port) == b"+OK\r\n"
        wait_until(
            lambda: info(replica.port, "replication").get("master_link_status") == "up", "it"
        )
        yield master, replica


def test_a_failover_does_not_lead_a_client_past_the_proxy(
    pair: tuple[Server, Server], start_proxy: StartProxy
) -> None:
    master, replica = pair
    proxy = start_proxy(f"redis://127.0.0.1:{master.port}")
    with Connection(proxy.port) as app, Connection(master.port) as direct:
        assert app.ask(*CAPA) == direct.ask(*CAPA) == b"+OK\r\n"
        with Connection(master.port) as operator:
            assert operator.ask("FAILOVER") == b"+OK\r\n"
        said = b"+OK\r\n"
        with suppress(EOFError, ConnectionError):  # the proxy has noticed, and closes
            while not said.startswith(b"-"):
                said = app.ask("SET", "a", 1)
        assert not said.startswith(b"-REDIRECT")
        wait_until(lambda: info(replica.port, "replication")["role"] == "master", "it is a master")
        redirection = b"-REDIRECT 127.0.0.1:%d\r\n" % replica.port
        assert direct.ask("SET", "a", 1) == redirection
