"""Which node tells of the Cluster, where the URL names several. The nodes' words are made up."""

from __future__ import annotations

import pytest

from ttlproxy.addresses import Upstream
from ttlproxy.core.topology import ClusterNode, cluster_nodes
from ttlproxy.link.masters import seeds
from ttlproxy.link.masters.seeds import NodeAnswer, Seeds

A, B, C = (letter * 40 for letter in "abc")


def _told(*ids: str, slots: str = "0-99") -> str:
    return "".join(f"{name} 10.0.0.9:7000@1 master - 0 0 1 connected {slots}\n" for name in ids)


class World(dict[str, str]):
    """What each node says to CLUSTER NODES, by its address; other nodes are away."""

    async def told_by(self, server: Upstream, timeout_s: float) -> list[ClusterNode]:
        if server.address not in self:
            raise OSError("Connection refused")
        return cluster_nodes(self[server.address])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(seeds, "nodes_told_by", made.told_by)
    return made


@pytest.fixture
def both() -> Seeds:
    return Seeds(Upstream.parse("redis://10.0.0.1:7000,10.0.0.2:7000"), lambda: 1.0)


def _asked(told: NodeAnswer | None) -> str | None:
    return told.asked.address if told is not None else None


async def test_the_first_that_tells_is_believed(world: World, both: Seeds) -> None:
    assert await both.find(set()) is None
    assert both.trouble == ("10.0.0.1:7000: Connection refused; 10.0.0.2:7000: Connection refused")
    world["10.0.0.2:7000"] = _told(A, B)
    assert _asked(await both.find(set())) == "10.0.0.2:7000"
    assert both.trouble == ""
    world["10.0.0.1:7000"] = _told(A)
    assert _asked(await both.find(set())) == "10.0.0.1:7000"


async def test_a_node_without_slots_is_named_and_others_are_asked(
    world: World, both: Seeds
) -> None:
    world["10.0.0.1:7000"] = _told(C, slots="")
    assert await both.find(set()) is None
    assert "10.0.0.1:7000: it owns no slots" in both.trouble
    world["10.0.0.2:7000"] = _told(A)
    assert _asked(await both.find(set())) == "10.0.0.2:7000"


async def test_two_clusters_are_refused_until_they_are_one(world: World, both: Seeds) -> None:
    world.update({"10.0.0.1:7000": _told(A, B), "10.0.0.2:7000": _told(C)})
    assert await both.find(set()) is None
    named = "10.0.0.2:7000: it is a node of another Redis Cluster than 10.0.0.1:7000"
    assert named in both.trouble
    del world["10.0.0.1:7000"]
    assert await both.find(set()) is None
    assert named in both.trouble
    world["10.0.0.2:7000"] = _told(A, C)
    assert _asked(await both.find(set())) == "10.0.0.2:7000"


async def test_another_cluster_never_takes_the_place_of_the_served_one(
    world: World, both: Seeds
) -> None:
    world["10.0.0.1:7000"] = _told(A)
    assert _asked(await both.find(set())) == "10.0.0.1:7000"
    del world["10.0.0.1:7000"]
    world["10.0.0.2:7000"] = _told(C)
    assert await both.find({A}) is None
    assert "10.0.0.2:7000: it is a node of another Redis Cluster than the one" in both.trouble
    assert _asked(await both.find({A, C})) == "10.0.0.2:7000"


async def test_a_cluster_that_was_made_anew_at_its_addresses_is_followed(
    world: World, both: Seeds
) -> None:
    world["10.0.0.1:7000"] = _told(A)
    await both.find(set())
    world["10.0.0.1:7000"] = _told(B)
    found = await both.find({A})
    assert found is not None
    assert found.ids == {B}


async def test_nodes_that_were_told_of_are_asked_when_those_of_the_url_are_away(
    world: World, both: Seeds
) -> None:
    world["10.0.0.3:7000"] = _told(A)
    both.others = [Upstream.parse("redis://10.0.0.3:7000").addresses[0]]
    assert _asked(await both.find({A})) == "10.0.0.3:7000"


@pytest.mark.parametrize("known", [{A}, set()], ids=["served", "no master is known just now"])
async def test_a_node_that_joins_another_cluster_is_left_while_others_tell_of_the_served_one(
    world: World, both: Seeds, known: set[str]
) -> None:
    world["10.0.0.1:7000"] = world["10.0.0.3:7000"] = _told(A)
    both.others = [Upstream.parse("redis://10.0.0.3:7000").addresses[0]]
    await both.find(set())
    world["10.0.0.1:7000"] = _told(C)
    assert _asked(await both.find(known)) == "10.0.0.3:7000"
    del world["10.0.0.3:7000"]
    assert _asked(await both.find(known)) == "10.0.0.1:7000"
