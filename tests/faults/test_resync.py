"""A server that takes another master's data: what was known of its own may all be wrong.

Redis pushes that any key may be gone, as for FLUSHALL, and announces nothing of what has come
instead.
"""

from __future__ import annotations

from tests.conftest import StartProxy, StartServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.sentinels import follow


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
