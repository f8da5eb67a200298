"""Several servers in one URL: the one that is the master is served."""

from __future__ import annotations

import signal
from contextlib import suppress

from tests.conftest import StartProxy, StartServer
from tests.support.processes import free_port, wait_until
from tests.support.raw_client import Connection
from tests.support.sentinels import follow
from tests.support.server_queries import connections, info
from tests.support.servers import Proxy, Server

SOON = ("--hold-max", "0.1")


def _url(*ports: int) -> str:
    return f"redis://{','.join(f'127.0.0.1:{port}' for port in ports)}"


def _promote(server: Server) -> None:
    with Connection(server.port) as direct:
        direct.ask("REPLICAOF", "NO", "ONE")


def _until_served_by(server: Server, proxy: Proxy) -> None:
    def is_served() -> bool:
        with suppress(OSError, EOFError), Connection(proxy.port) as client:
            return client.ask("INFO", "server").find(b"tcp_port:%d\r\n" % server.port) > 0
        return False

    wait_until(is_served, "a client that is served by it")


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
    _until_served_by(replica, proxy)
    with Connection(proxy.port) as client:
        assert client.ask("HPERSISTFIELD", "h", "a") == b":1\r\n"
    wait_until(
        lambda: not any(each["name"].startswith("ttlproxy") for each in connections(master.port)),
        "nothing of ours at the old master",
    )
    replica.kill()
    _promote(master)
    _until_served_by(master, proxy)


def test_replicas_only_is_an_error_that_names_each_until_one_is_promoted(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    one, other, master = start_server(), start_server(), start_server()
    follow(one, master)
    follow(other, master)
    proxy = start_proxy(_url(one.port, other.port), *SOON)
    with Connection(proxy.port) as client:
        assert client.read_to_end().startswith(b"-ERR ttlproxy has no connection")
    for server in (one, other):
        assert f"127.0.0.1:{server.port}: it is a replica" in proxy.stderr
    _promote(other)
    _until_served_by(other, proxy)


def test_a_wrong_password_at_one_of_three_is_an_error_that_names_it(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    locked, master = start_server("--requirepass", "other"), start_server("--requirepass", "p")
    urls = [
        _url(*ports).replace("://", "://:p@")
        for ports in ((locked.port, master.port), (locked.port, free_port()))
    ]
    with Connection(start_proxy(urls[0]).port) as client:
        assert client.ask("AUTH", "p") == b"+OK\r\n"
    proxy = start_proxy(urls[1], *SOON)
    with Connection(proxy.port) as client:
        assert client.read_to_end().startswith(b"-ERR ttlproxy has no connection")
    assert f"127.0.0.1:{locked.port}: Redis refuses the user or the password" in proxy.stderr


def test_a_server_that_hangs_does_not_keep_the_master_from_being_found(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    hanging, master = start_server(), start_server()
    hanging.child.send_signal(signal.SIGSTOP)
    try:
        _until_served_by(master, start_proxy(_url(hanging.port, master.port)))
    finally:
        hanging.child.send_signal(signal.SIGCONT)
