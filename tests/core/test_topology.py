"""What CLUSTER NODES says about the node that was asked."""

from __future__ import annotations

import pytest

from ttlproxy.core.topology import Node, asked_node, cluster_nodes

A, B, C = (letter * 40 for letter in "abc")
REST = f"""\
{B} 10.0.0.2:7001@17001,b.example master - 0 1700000000000 2 connected 100-199 201-16383
{C} fd00::1:7003@17003,,tls-port=0,shard-id=e master,fail - 1 1700000000000 1 disconnected
"""


def _of(*, flags: str = "myself,master", master: str = "-", slots: str = "") -> str:
    return f"{REST}{A} 127.0.0.1:7000@17000 {flags} {master} 0 0 3 connected {slots}\n"


def test_slots_are_counted_and_those_on_their_way_apart() -> None:
    moving = f"[100->-{B}] [101-<-{B}]"
    assert asked_node(_of(slots=f"0-99 200 {moving}")) == Node("", 101, 2)
    assert asked_node(_of(slots="0-16383")) == Node("", 16384, 0)
    assert asked_node(_of(slots=moving)) == Node("", 0, 2)
    assert asked_node(_of()) == Node("", 0, 0)


def test_a_replica_has_a_master() -> None:
    assert asked_node(_of(flags="myself,slave", master=B)) == Node(B, 0, 0)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("junk", id="a word"),
        _of(slots="0-16384"),
        _of(slots="9-3"),
        _of(slots="some"),
    ],
)
def test_a_reply_that_is_no_topology_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="CLUSTER NODES"):
        asked_node(text)


def test_without_the_node_that_was_asked_there_is_no_answer() -> None:
    with pytest.raises(ValueError, match="names no node"):
        asked_node(REST)


def test_all_nodes_are_told_with_their_addresses() -> None:
    other, lost, asked = cluster_nodes(_of(slots=f"0-99 [100->-{B}]"))
    assert (other.host, other.port, other.hostname) == ("10.0.0.2", 7001, "b.example")
    assert other.slots == {*range(100, 200), *range(201, 16384)}
    assert (lost.host, lost.port, lost.hostname) == ("fd00::1", 7003, "")
    assert (lost.is_master, lost.is_there) == (False, False)
    assert (asked.myself, asked.is_master, asked.epoch, len(asked.slots)) == (True, True, 3, 100)


@pytest.mark.parametrize("place", [":0@0", ":0@0,", ":0@0,,shard-id=x"])
def test_a_node_may_not_know_its_own_address(place: str) -> None:
    (asked,) = cluster_nodes(f"{A} {place} myself,master - 0 0 1 connected \n")
    assert (asked.host, asked.port, asked.hostname, asked.slots) == ("", 0, "", frozenset())
