"""The masters, and the slots, that are at each port."""

from __future__ import annotations

from ttlproxy.addresses import Address
from ttlproxy.core.cluster_view import ClusterView, Reached
from ttlproxy.core.keys import SLOTS
from ttlproxy.core.topology import ClusterNode

LISTEN = Address("proxy", 6380)


def _thirds(*masters: str) -> dict[int, str]:
    return {number: masters[number * len(masters) // SLOTS] for number in range(SLOTS)}


def _shown(view: ClusterView) -> list[bytes]:
    """Port and slots of each node."""
    return [node.split(b" ", 1)[1] for node in view.nodes(LISTEN).values()]


THIRDS = [b"6381 0-5461", b"6382 5462-10922", b"6383 10923-16383"]


def test_one_node_has_all_slots_whatever_the_masters_are() -> None:
    view = ClusterView(0)
    view.follow(_thirds("a", "b"))
    assert Reached(view, LISTEN, 0).words() == (b"proxy", b"1", b"- 6380 0-16383")


def test_a_promoted_replica_is_at_the_port_of_its_master() -> None:
    view = ClusterView(3)
    view.follow(_thirds("a", "b", "c"))
    assert _shown(view) == THIRDS
    view.follow({slot: name for slot, name in _thirds("a", "b", "c").items() if name != "b"})
    assert _shown(view) == THIRDS
    assert view.masters_at(2) == ["b"]
    view.follow(_thirds("a", "replica", "c"))
    assert _shown(view) == THIRDS
    assert view.masters_at(2) == ["replica"]


def test_all_proxies_say_the_same_whenever_they_began() -> None:
    one, later = ClusterView(4), ClusterView(4)
    one.follow(_thirds("a", "b", "c"))
    now = _thirds("a", "b", "c") | dict.fromkeys((*range(1000), *range(6000, 7000)), "d")
    one.follow(now)
    later.follow(now)
    assert one.nodes(LISTEN) == later.nodes(LISTEN)
    assert _shown(later) == [
        b"6381 1000-5461",
        b"6382 0-999 6000-6999",
        b"6383 5462-5999 7000-10922",
        b"6384 10923-16383",
    ]


def test_more_masters_than_ports_share_them() -> None:
    view = ClusterView(2)
    view.follow({0: "a", 1: "b", 2: "b", 3: "c"})
    assert _shown(view) == [b"6381 0 3", b"6382 1-2"]
    assert view.masters_at(1) == ["a", "c"]
    assert view.is_shared


def test_a_port_without_a_master_is_no_node() -> None:
    view = ClusterView(3)
    view.follow(dict.fromkeys(range(SLOTS), "a"))
    assert _shown(view) == [b"6381 0-16383"]
    for number in (0, 1, 2):
        assert Reached(view, LISTEN, number).words()[1] == b"1"
    assert view.masters_at(0) == view.masters_at(2) == []


def test_hearsay_counts_only_for_slots_whose_master_has_said_nothing() -> None:
    view = ClusterView(2)
    view.follow({0: "a"})
    flags = frozenset({"master"})
    view.set_nodes([ClusterNode("b", "h", 1, "", flags, 1, frozenset((0, 1)), "")])
    assert _shown(view) == [b"6381 0", b"6382 1"]


def test_an_id_depends_on_the_address_alone() -> None:
    views = [ClusterView(3), ClusterView(3)]
    views[0].follow(_thirds("a", "b", "c"))
    views[1].follow(_thirds("d", "e", "f"))
    ids = [[node.split()[0] for node in view.nodes(LISTEN).values()] for view in views]
    assert ids[0] == ids[1]
    assert {len(name) for name in ids[0]} == {40}
    assert len(set(ids[0])) == 3
    assert views[0].nodes(Address("other", 6380))[1].split()[0] not in ids[0]
