"""ONWRITE in front of three masters: the rules are in one slot, and each master announces them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from tests.conftest import StartProxy
from tests.features.test_onwrite import FROM, SWEPT
from tests.support.cluster import Node
from tests.support.masters import Masters
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.server_queries import connections
from ttlproxy.core.keys import SLOTS, Keys, slot

KEYS = Keys(clustered=True)
# At least one key for each of the three masters.
PARTS = ["a", "b", "c", "d"]
PUSHES = "ttlproxy:pushes"


@pytest.fixture
def client(masters: Masters) -> Iterator[Client]:
    with closing(Client(masters.proxy.port)) as client:
        yield client
        client.ask("FLUSHALL")


def _owner(masters: Masters, name: bytes) -> Node:
    return masters.nodes[slot(name) * 3 // SLOTS]


def _ttls(client: Client, pattern: str = "k:{%s}", element: str = "a") -> list[int]:
    """What the element of a set has left, in a key of each part."""
    return [client.ask("STTLMEMBER", pattern % part, element) for part in PARTS]


def _added(client: Client, element: str) -> list[int]:
    """Adds an element to a set of each part; what it has left then."""
    for part in PARTS:
        assert client.ask("SADD", f"k:{{{part}}}", element) == 1
    return _ttls(client, element=element)


def test_the_parts_here_are_of_all_masters(masters: Masters) -> None:
    assert {id(_owner(masters, part.encode())) for part in PARTS} == {*map(id, masters.nodes)}


def test_rules_are_set_shown_and_removed(client: Client) -> None:
    assert client.ask("ONWRITE", "k:*", "EX", 100) == b"OK"
    assert client.ask("ONWRITE", "k:*", "type", "SET", "px", 5000, "jitter", 5, "refresh") == b"OK"
    own = [b"k:*", b"TYPE", b"set", b"PX", b"5000", b"JITTER", b"5", b"REFRESH"]
    assert client.ask("ONWRITE", "k:*") == [b"k:*", b"EX", b"100"]
    assert client.ask("ONWRITE") == [own, [b"k:*", b"EX", b"100"]]
    assert client.ask("ONWRITE", "k:*", "TYPE", "list") is None
    assert client.ask("ONEXPIRE") == []
    assert client.ask("DBSIZE") == 0
    assert client.ask("ONWRITE", "k:*", "TYPE", "set", "DEL") == b"OK"
    assert client.ask("ONWRITE", "k:*", "DEL") == b"OK"
    assert client.ask("ONWRITE") == []
    assert _added(client, "a") == [-1] * len(PARTS)


def test_every_proxy_knows_a_rule_at_every_master_once_ok_is_there(
    masters: Masters, client: Client, start_proxy: StartProxy
) -> None:
    other = start_proxy(masters.nodes[1].url)
    with closing(Client(other.port)) as second:
        assert _added(second, "before") == [-1] * len(PARTS)
        for number in range(1, 6):
            one, another = (client, second) if number % 2 else (second, client)
            assert one.ask("ONWRITE", "k:*", "EX", number * 100) == b"OK"
            assert _added(another, str(number)) == [number * 100] * len(PARTS)
            assert _ttls(one, element=str(number)) == [number * 100] * len(PARTS)
        assert client.ask("ONWRITE", "k:*", "DEL") == b"OK"
        assert _added(second, "after") == [-1] * len(PARTS)
        assert client.ask("ONWRITE", "k:*", "EX", 100) == b"OK"
        assert client.ask("FLUSHALL") == b"OK"
        assert _added(second, "flushed") == [-1] * len(PARTS)
        assert client.ask("ONWRITE") == []


def test_a_proxy_that_starts_knows_the_rules(
    masters: Masters, client: Client, start_proxy: StartProxy
) -> None:
    assert client.ask("ONWRITE", "k:*", "EX", 100) == b"OK"
    with closing(Client(start_proxy(masters.nodes[2].url).port)) as second:
        assert _added(second, "a") == [100] * len(PARTS)
