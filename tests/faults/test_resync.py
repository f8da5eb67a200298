"""A server that takes another master's data: what was known of its own may all be wrong.

Redis pushes that any key may be gone, as for FLUSHALL, and announces nothing of what has come
instead.
"""

from __future__ import annotations

import signal

from tests.conftest import StartProxy, StartServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.sentinels import follow

KEYS = 300
# While it loads, Redis 6.2 answers every 2 MB of its file. The master sends that at once.
MASTER = ("--rdbcompression", "no", "--repl-diskless-sync-delay", "0")
VALUE = "x" * 100_000


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


def test_sessions_of_a_demoted_master_end_before_it_has_loaded_the_new_data(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server, master = start_server(), start_server(*MASTER)
    with Connection(master.port) as direct:
        direct.send(b"".join(command("SET", f"k{each}", VALUE) for each in range(KEYS)))
        assert direct.read_many(KEYS) == [b"+OK\r\n"] * KEYS
    proxy = start_proxy(server.url)
    with Connection(proxy.port) as client, Connection(server.port) as direct:
        assert client.ask("SET", "k", "v") == b"+OK\r\n"
        assert direct.ask("CONFIG", "SET", "key-load-delay", 200_000) == b"+OK\r\n"
        proxy.child.send_signal(signal.SIGSTOP)
        try:
            assert direct.ask("REPLICAOF", "127.0.0.1", master.port) == b"+OK\r\n"
            wait_until(lambda: _is_loading(direct), "the server loading")
        finally:
            proxy.child.send_signal(signal.SIGCONT)
        assert client.read_to_end() == b""
        assert _is_loading(direct)


def _is_loading(direct: Connection) -> bool:
    return b"loading:1\r\n" in direct.ask("INFO", "persistence")
