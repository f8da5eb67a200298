"""The same bytes get the same replies from Redis and in front of three masters."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data_path.test_differential import (
    CUTS,
    FILL,
    PROTOCOL,
    empty,
    everything,
    generated,
    give_deadlines,
)
from tests.support.cluster import Cluster
from tests.support.containers import AnyServer
from tests.support.masters import TAG, Masters
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, Framer
from tests.support.redis_client import Client
from tests.support.request_streams import SEEDS, Vocabulary, keys_of, pieces, rows_for, stream
from tests.support.servers import Binary, Server
from ttlproxy.proxy.routed.routing_table import STEPS

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

MODE = re.compile(rb"\$4\r\nmode\r\n\$\d+\r\n\w+\r\n")
# The last number counts the channels at one master.
SHARDED = re.compile(rb"(\bs(?:un)?subscribe\r\n(?:\$-1|\$\d+\r\n[^\r]*|_)\r\n):\d+", re.IGNORECASE)
# They tell of one node, or change it, or give the proxy's own cursor: docs/cluster.md says which.
OF_A_NODE = ("CLUSTER", "SCAN 0", "ROLE", "FAILOVER", "REPLCONF", "PUBSUB SHARD")
OF_ANY_NODE = ("CLUSTER KEYSLOT", "CLUSTER HELP")
# A transaction cannot have them, or its master alone would do them.
NOT_IN_A_TRANSACTION = (
    *("AUTH", "HELLO", "CLIENT REPLY", "CLIENT SETNAME", "CLIENT TRACKING", "CLIENT NO-EVICT"),
    *("SUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "SPUBLISH", "FUNCTION"),
    *("FLUSH", "DBSIZE", "KEYS", "SCRIPT", "CONFIG", "OBJECT REFCOUNT nosuch"),
)


def of_one_slot(server: str) -> Vocabulary:
    rows = [
        row
        for row in rows_for(server)
        if row.startswith(OF_ANY_NODE) or not row.startswith(OF_A_NODE)
        # Inside of MULTI there may be others; and Redis takes an empty line for the next request.
        if row not in ("MULTI", "CLIENT REPLY SKIP")
        # Valkey 9 may have databases there, and refuses others in other words.
        if not (server.startswith("valkey") and ("{db}" in row or row.startswith("SELECT")))
    ]
    queued = [row for row in rows if not row.startswith(NOT_IN_A_TRANSACTION)]
    return Vocabulary(rows, TAG.__add__, queued)


def of_all_slots(server: str) -> Vocabulary:
    """Rows with one key, or that are split."""
    rows = [
        row
        for row in rows_for(server)
        if keys_of(row) == 1 or (keys_of(row) and row.split()[0] in STEPS)
        if "{db}" not in row and not row.startswith("CLUSTER")
    ]
    return Vocabulary(rows, connected=False)


def replies_of(port: int, parts: list[bytes]) -> list[bytes]:
    """All that comes back. Pushes are at the end: another master may be faster than the one of the
    replies around them."""
    framer = Framer()
    replies = [
        SHARDED.sub(rb"\1", each)
        for each in framer.feed(everything(partial(Connection, port), parts))
    ]
    pushes = [each for each in replies if each.startswith(b">")]
    others = [MODE.sub(b"", each) for each in replies if not each.startswith(b">")]
    return [*others, framer.rest, *pushes]


def _alike(plain: AnyServer, masters: Masters, parts: list[bytes]) -> None:
    """Compares a Redis without a proxy with three masters behind one."""
    assert replies_of(masters.proxy.port, parts) == replies_of(plain.port, parts)


def _begin(plain: AnyServer, masters: Masters) -> None:
    """The servers are empty, and no earlier client is subscribed any more."""
    empty(plain, *masters.nodes)
    with ExitStack() as stack:
        servers = (plain, *masters.nodes)
        asking = [stack.enter_context(Client(each.port)) for each in servers]
        wait_until(lambda: not any(map(_has_subscribers, asking)), "nobody is subscribed")


def _has_subscribers(server: Client) -> bool:
    listed, patterns = server.ask_many([("PUBSUB", "CHANNELS"), ("PUBSUB", "NUMPAT")])
    channels = [name for name in listed if not name.startswith((b"ttlproxy-", b"__ttl:"))]
    shards = server.ask("PUBSUB", "SHARDCHANNELS")  # an error before 7.0
    return bool(channels or patterns) or (isinstance(shards, list) and bool(shards))


@pytest.fixture(scope="module")
def lone_node(binary: Binary) -> Iterator[Server]:
    """A Cluster of one node, without a proxy."""
    with Cluster(binary, nodes=1) as cluster:
        yield cluster.nodes[0]


@generated
@given(hello=PROTOCOL, seeds=SEEDS, cuts=CUTS)
def test_keys_of_one_slot_are_as_in_a_cluster_of_one_node(
    lone_node: Server, masters: Masters, hello: bytes, seeds: list[int], cuts: list[float]
) -> None:
    _begin(lone_node, masters)
    sent = stream(of_one_slot(lone_node.name), seeds)
    _alike(lone_node, masters, pieces(hello + sent, cuts))


@generated
@given(managed=st.booleans(), hello=PROTOCOL, seeds=SEEDS, cuts=CUTS)
def test_keys_of_all_masters_are_as_in_one_redis(
    plain: AnyServer,
    masters: Masters,
    managed: bool,
    hello: bytes,
    seeds: list[int],
    cuts: list[float],
) -> None:
    """With deadlines that are far away, too."""
    _begin(plain, masters)
    if managed:
        _alike(plain, masters, [FILL])
        give_deadlines(masters.proxy, [b"0"])
    sent = stream(of_all_slots(plain.name), seeds)
    _alike(plain, masters, pieces(hello + sent, cuts))
