"""Several servers in one URL: the one that is the master is served."""

from __future__ import annotations

from tests.conftest import StartProxy, StartServer
from tests.faults.conftest import until_served_by
from tests.support.processes import free_port, wait_until
from tests.support.raw_client import Connection
from tests.support.sentinels import follow
from tests.support.server_queries import connections, info
from tests.support.servers import Server

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
