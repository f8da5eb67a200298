"""What CLUSTER NODES says, as a topology."""

from __future__ import annotations

import pytest

from ttlproxy.addresses import Address
from ttlproxy.core.topology import Topology

A, B, C, D = (letter * 40 for letter in "abcd")
TEXT = f"""\
{A} 127.0.0.1:7000@17000 myself,master - 0 0 3 connected 0-99 200 [100->-{B}] [101-<-{B}]
{B} 10.0.0.2:7001@17001,b.example master - 0 1700000000000 2 connected 100-199 201-16383
{C} 127.0.0.1:7002@17002 slave {A} 0 1700000000000 3 connected
{D} fd00::1:7003@17003,,tls-port=0,shard-id=e master,fail - 1 1700000000000 1 disconnected
"""


def test_each_node_has_its_place_and_its_slots() -> None:
    topology = Topology.parse(TEXT)
    a, b, c, d = (topology.nodes[name] for name in (A, B, C, D))
    assert topology.asked is a
    assert (a.address, a.master, a.epoch) == (Address("127.0.0.1", 7000), "", 3)
    assert (a.slots, a.size, a.moving) == ((range(100), range(200, 201)), 101, 2)
    assert (b.address, b.epoch, b.moving) == (Address("b.example", 7001), 2, 0)
    assert (c.master, c.slots, c.is_reachable) == (A, (), True)
    assert (d.address, d.is_reachable) == (Address("fd00::1", 7003), False)
    assert topology.masters == [a, b]
    assert topology.missing == 0
    owners = topology.owners()
    assert [owners[number] for number in (0, 99, 100, 199, 200, 201, 16383)] == [
        a,
        a,
        b,
        b,
        a,
        b,
        b,
    ]


def test_slots_that_nobody_owns_are_missing() -> None:
    topology = Topology.parse(f"{A} :7000@17000 myself,master - 0 0 0 connected 5-14\n")
    assert topology.asked.address == Address("", 7000)
    assert topology.missing == 16384 - 10
    assert topology.owners()[4] is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("junk", id="a word"),
        f"{A} 127.0.0.1:7000@17000 myself,master - 0 0 x connected",
        f"{A} 127.0.0.1:port@17000 myself,master - 0 0 0 connected",
        f"{A} 127.0.0.1:7000@17000 myself,master - 0 0 0 connected 0-16384",
        f"{A} 127.0.0.1:7000@17000 myself,master - 0 0 0 connected 9-3",
        f"{A} 127.0.0.1:7000@17000 myself,master - 0 0 0 connected some",
    ],
)
def test_what_is_no_topology_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"CLUSTER NODES|invalid literal"):
        Topology.parse(text)


def test_without_the_node_that_was_asked_there_is_no_answer() -> None:
    with pytest.raises(ValueError, match="names no node"):
        _ = Topology.parse(TEXT.replace("myself,", "")).asked
