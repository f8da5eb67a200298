"""A server on which nobody uses deadlines or rules has nothing of the proxy's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.cluster import Cluster
from tests.support.processes import wait_until
from tests.support.redis_client import Client
from tests.support.redis_content import STATE
from tests.support.server_queries import info, let_beat
from tests.support.servers import Binary, Server
from ttlproxy.core.keys import Keys
from ttlproxy.link import LAYOUT

# As many heartbeats as there are between two looks at all that seldom changes, and some.
MANY_BEATS = 25


@pytest.fixture
def own(start_server: StartServer) -> Iterator[tuple[Server, Client]]:
    server = start_server()
    with closing(Client(server.port)) as direct:
        yield server, direct


def _offset(master: Server, replica: Client) -> int:
    """How long the replication stream is, once the replica has all of it."""

    def offsets() -> tuple[str, str]:
        of_replica = dict(
            line.split(":", 1)
            for line in replica.ask("INFO", "replication").decode().splitlines()
            if ":" in line
        )
        return (
            info(master.port, "replication")["master_repl_offset"],
            of_replica.get("slave_repl_offset", ""),
        )

    wait_until(lambda: len({*offsets()}) == 1, "the replica up to date")
    return int(offsets()[0])


def _use(app: Client) -> list[object]:
    """What an application does that has no deadlines of elements."""
    return [
        app.ask(*line.split())
        for line in (
            "FLUSHALL",
            *("SET k v", "HSET h a 1", "EXPIRE k 100", "LPUSH l a b", "DBSIZE", "KEYS h*"),
            *("SCAN 0 MATCH k*", "HGETALL h", "DEL h", "SWAPDB 0 1", "SWAPDB 0 1"),
            *("FLUSHDB", "DBSIZE", "SET k v", "EVAL return(1) 0", "SCRIPT FLUSH", "FLUSHALL"),
        )
    ]


def test_what_a_server_has_and_replicates_is_as_without_a_proxy(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server("--repl-ping-replica-period", "3600")
    mirror = start_server("--replicaof", "127.0.0.1", str(server.port))
    with closing(Client(server.port)) as direct, closing(Client(mirror.port)) as replica:
        wait_until(lambda: b"master_link_status:up" in replica.ask("INFO"), "the replica connected")
        with closing(Client(server.port)) as app:
            _use(app)  # the first write is replicated with a SELECT
        found = []
        for port in (server.port, 0):
            begun = _offset(server, replica)
            proxy = None if port else start_proxy(server.url)
            with closing(Client(port or (proxy.port if proxy else 0))) as app:
                replies = _use(app)
                if proxy:
                    let_beat(server.port, MANY_BEATS)
            memory = info(server.port, "memory")["number_of_cached_scripts"]
            keyspace = direct.ask("INFO", "keyspace")
            size = direct.ask("DBSIZE")
            written = _offset(server, replica) - begun
            found.append((replies, memory, keyspace, size, written))
    assert found[0] == found[1]


def test_after_the_last_deadline_rule_and_deferred_command_nothing_is_left(
    own: tuple[Server, Client], start_proxy: StartProxy
) -> None:
    server, direct = own
    proxy = start_proxy(server.url)
    for db in (0, 3):
        with closing(Client(proxy.port, db)) as app:
            assert app.ask("SADDEX", "s", "EX", 100, "MEMBERS", 1, "m") == 1
            layout = direct.ask("HGET", STATE, "layout")
            assert layout == b"%d" % LAYOUT, "it was there before the deadline"
            app.ask("DEFER", "PX", 1, "DEL", "none")
            app.ask("ONEXPIRE", "k", "KEEP")
            app.ask("ONWRITE", "w", "EX", 100)
            app.ask("SADDEX", "k", "PX", 1, "MEMBERS", 1, "m")
            wait_until(lambda: app.ask("EXISTS", "k") == 0, "it kept")
            if db:
                let_beat(server.port, MANY_BEATS)
            assert direct.ask("EXISTS", STATE) == 1
            assert len(app.ask("TAKE", "k", "COUNT", 10)) == 1
            app.ask("ONEXPIRE", "k", "DEL")
            app.ask("ONWRITE", "w", "DEL")
            app.ask("SREM", "s", "m")
    wait_until(lambda: direct.ask("INFO", "keyspace").count(b"db") == 0, "nothing left")
    with closing(Client(proxy.port)) as app:
        assert app.ask("SADDEX", "s", "EX", 100, "MEMBERS", 1, "m") == 1
        assert direct.ask("HGET", STATE, "layout") == b"%d" % LAYOUT


@pytest.mark.parametrize("begins", [[], ["MULTI"]])
def test_what_is_signed_first_has_the_key_that_another_proxy_has_just_stored(
    own: tuple[Server, Client], start_proxy: StartProxy, begins: list[str]
) -> None:
    server, direct = own
    proxy = start_proxy(server.url)
    state = ("secret", "5" * 64, "layout", LAYOUT, "program", "another")
    with closing(Client(proxy.port)) as app:
        for words in (("ONWRITE", "k", "EX", 100), ("DEFER", "PX", 1, "RPUSH", "done", "m")):
            app.ask("FLUSHALL")
            wait_until(lambda: b"state" not in b"".join(direct.ask("KEYS", "*")), "none")
            direct.ask("HSET", STATE, *state)
            for word in begins:
                app.ask(word)
            app.ask(*words)
            if begins:
                app.ask("EXEC")
            if words[0] == "DEFER":
                wait_until(lambda: app.ask("EXISTS", "done") == 1, "it is carried out")
            else:
                app.ask("SADD", "k", "m")
                assert 0 < app.ask("STTLMEMBER", "k", "m") <= 100


def test_two_proxies_share_their_state_until_one_is_gone(
    own: tuple[Server, Client], start_proxy: StartProxy
) -> None:
    server, direct = own
    start_proxy(server.url)
    other = start_proxy(server.url)
    wait_until(lambda: direct.ask("HEXISTS", STATE, "commands"), "they share what they read")
    other.stop()
    wait_until(lambda: direct.ask("DBSIZE") == 0, "nothing left")


@pytest.mark.parametrize("masters", [1, 3])
def test_a_cluster_that_nobody_uses_has_nothing_either(
    binary: Binary, start_proxy: StartProxy, masters: int
) -> None:
    with Cluster(binary, nodes=masters, masters=masters) as cluster, ExitStack() as stack:
        nodes = [stack.enter_context(closing(Client(node.port))) for node in cluster.nodes]
        name = Keys(b"__ttl:", clustered=True).home(STATE)

        def keys() -> int:
            return sum(node.ask("DBSIZE") for node in nodes)

        proxy = start_proxy(cluster.nodes[0].url)
        for node in cluster.nodes:
            let_beat(node.port, 3, "role")
        assert keys() == 0
        app = stack.enter_context(closing(Client(proxy.port)))
        for key in ("a", "b", "c"):  # in front of three masters, of another one each
            assert app.ask("SADDEX", key, "EX", 100, "MEMBERS", 1, "m") == 1
            assert [node.ask("EXISTS", name) for node in nodes].count(1) == 1
        assert [app.ask("DEL", key) for key in ("a", "b", "c")] == [1, 1, 1]
        wait_until(lambda: keys() == 0, "nothing left")
