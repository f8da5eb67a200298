"""Several clients at once that share connections to Redis get the replies that they get from Redis
without a proxy, byte for byte, however their requests are cut and come between each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data_path.test_differential import LIMITS, empty, generated, masked
from tests.support.containers import AnyServer
from tests.support.raw_client import Connection, Framer, command
from tests.support.request_streams import Vocabulary, pieces, rows_for, stream
from tests.support.servers import Proxy

pytestmark = pytest.mark.long

USERS = {b"anne": b"a", b"bert": b"b"}
# What a client begins with.
BEGINNINGS = [
    b"",
    command("CLIENT", "SETNAME", "me"),
    command("AUTH", "anne", "a"),
    command("AUTH", "anne", "wrong"),
    command("HELLO", 2),
    command("HELLO", 3),
    command("HELLO", 3, "AUTH", "bert", "b"),
    command("HELLO", 3, "AUTH", "anne", "a", "SETNAME", "me") + command("CLIENT", "GETNAME"),
    command("HELLO", 3) + command("CLIENT", "SETNAME", "me") + command("SELECT", 1),
    command("HELLO", 2, "AUTH", "bert", "b") + command("SELECT", 3),
]
# Rows whose replies depend on other clients, or that are felt by them.
OF_ALL = (
    *("DBSIZE", "KEYS", "SCAN 0", "SWAPDB", "FLUSH", "SCRIPT", "FUNCTION", "ROLE", "FAILOVER"),
    *(
        "CONFIG",
        "ACL SETUSER",
        "ACL DELUSER",
        "PUBLISH",
        "SPUBLISH",
        "PUBSUB",
        "SLOWLOG",
        "LATENCY",
        "MEMORY",
    ),
    *("CLIENT UNPAUSE", "EVALSHA", "MIGRATE", "CLIENT PAUSE"),
)
SUBSCRIBED = ("PING", "PING {value}", "GET {string}", "SUBSCRIBE differential-1")
CLIENT = st.tuples(
    st.sampled_from(BEGINNINGS),
    st.lists(st.integers(0, (1 << 32) - 1), min_size=3, max_size=15),
    st.lists(st.floats(0, 1), max_size=6),
)


def rows_of_one_client(server: str) -> list[str]:
    return [row for row in rows_for(server) if not row.startswith(OF_ALL)]


@pytest.fixture
def users(plain: AnyServer, server: AnyServer) -> Iterator[None]:
    for each in (plain, server):
        with Connection(each.port) as direct:
            for user, word in USERS.items():
                direct.ask("ACL", "SETUSER", user, "on", b">" + word, "~*", "&*", "+@all")
    yield
    for each in (plain, server):
        with Connection(each.port) as direct:
            direct.ask("ACL", "DELUSER", *USERS)


def conversations(port: int, clients: list[list[bytes]], order: int) -> list[list[bytes]]:
    """The replies to each client, if their pieces are sent in this order."""
    chance, left = Random(order), [list(pieces) for pieces in clients]
    with ExitStack() as ends:
        connected = [ends.enter_context(Connection(port)) for _ in clients]
        while any(left):
            at = chance.choice([at for at, pieces in enumerate(left) if pieces])
            connected[at].send(left[at].pop(0))
        told = []
        for client in connected:
            framer = Framer()
            told.append([*framer.feed(masked(client.read_to_end())), framer.rest])
        return told


@generated
@given(clients=st.lists(CLIENT, min_size=2, max_size=4), order=st.integers(0, 1 << 32))
def test_clients_at_once_get_the_replies_of_redis(
    plain: AnyServer,
    server: AnyServer,
    sharing_proxy: Proxy,
    users: None,
    clients: list[tuple[bytes, list[int], list[float]]],
    order: int,
) -> None:
    """Each has keys of its own, so their order does not matter."""
    empty(plain, server)
    rows = rows_of_one_client(server.name)
    sent = []
    for number, (beginning, seeds, cuts) in enumerate(clients):
        named = (b"%d" % number).__add__
        vocabulary = Vocabulary(rows, named, subscribed=SUBSCRIBED)
        sent.append(pieces(beginning + stream(vocabulary, seeds), cuts))
    expected = conversations(plain.port, sent, order)
    for got, wanted in zip(conversations(sharing_proxy.port, sent, order), expected, strict=True):
        # What comes before a limit is as ever.
        limit = next((at for at, reply in enumerate(got) if LIMITS.match(reply)), None)
        assert got[:limit] == wanted[:limit]
