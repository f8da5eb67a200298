"""Where the master is: at one of several addresses in the URL, at a successor of which Valkey tells
its clients, who must not go there past the proxy; or the server takes another master's data, so
what was known of its own may all be wrong.

Then Redis pushes that any key may be gone, as for FLUSHALL, and announces nothing of what has come
instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.conftest import StartProxy, StartServer
from tests.faults.conftest import until_served_by
from tests.support.processes import free_port, wait_until
from tests.support.raw_client import Connection
from tests.support.sentinels import follow
from tests.support.server_queries import connections, info
from tests.support.servers import Binary, Server

SOON = ("--hold-max", "0.1")


def _url(*ports: int) -> str:
    return f"redis://{','.join(f'127.0.0.1:{port}' for port in ports)}"


def _promote(server: Server) -> None:
    with Connection(server.port) as direct:
        direct.ask("REPLICAOF", "NO", "ONE")


def test_the_master_among_several_is_served_and_its_successor_too(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    replica, master = start_server(), start_server()
    follow(replica, master)
    proxy = start_proxy(_url(free_port(), replica.port, master.port))
    with Connection(proxy.port) as client:
        assert client.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "a", 1) == b":1\r\n"
        sent = int(info(master.port, "replication")["master_repl_offset"])
        wait_until(
            lambda: int(info(replica.port, "replication")["slave_repl_offset"]) >= sent, "in step"
        )
        _promote(replica)
        assert client.ask("PING") == b"+PONG\r\n"  # its server is a master as before
        follow(master, replica)
        assert client.read_to_end() == b""
    until_served_by(replica, proxy)
    with Connection(proxy.port) as client:
        assert client.ask("HPERSISTFIELD", "h", "a") == b":1\r\n"
    wait_until(
        lambda: not any(each["name"].startswith("ttlproxy") for each in connections(master.port)),
        "nothing of ours at the old master",
    )
    replica.kill()
    _promote(master)
    until_served_by(master, proxy)


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


def _until_known(client: Connection, keys: int) -> None:
    """Returns when the client's proxy knows so many managed keys."""

    def are_known() -> bool:
        return b"managed_keys:%d\r\n" % keys in client.ask("INFO", "ttlproxy")

    wait_until(are_known, "all managed keys known")


def test_rules_that_came_with_the_data_fire_when_the_replica_is_promoted(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    other, master, replica = start_server(), start_server(), start_server()
    with Connection(other.port) as direct:
        assert direct.ask("SET", "k", "v") == b"+OK\r\n"
    follow(replica, other)
    proxy = start_proxy(replica.url)
    with Connection(proxy.port) as reader:
        assert reader.ask("EXISTS", "k", "h") == b":1\r\n"
        with Connection(start_proxy(master.url).port) as writer:
            assert writer.ask("ONEXPIRE", "h*", "RPUSH", "fired") == b"+OK\r\n"
            assert writer.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "a", 1) == b":1\r\n"
        follow(replica, master)
        _until_known(reader, 1)
        with Connection(replica.port) as direct:
            assert direct.ask("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
        wait_until(lambda: "is a master now" in proxy.stderr, "the proxy to notice")
        assert reader.ask("HPEXPIREATFIELD", "h", "a", 1).startswith(b":")
        wait_until(lambda: reader.ask("LLEN", "fired") == b":1\r\n", "what the rule does")
        assert reader.ask("EXISTS", "h") == b":0\r\n"
