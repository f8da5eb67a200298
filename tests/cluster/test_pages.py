"""The status page and the inspector, in front of a Cluster of one master."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.operations.test_status_routes import inspected, status, surveyed
from tests.support.admin_pages import FLAGS, Pages, becomes, pages
from tests.support.cluster import Node
from tests.support.deadlines import BOUNDED
from tests.support.processes import wait_until
from tests.support.redis_client import Client, Word
from tests.support.servers import Proxy

FAR_S = 100_000


@pytest.fixture(scope="module")
def watched(node: Node) -> Iterator[Proxy]:
    proxy = Proxy(node.url, *FLAGS, forked=True).start()
    yield proxy
    proxy.remove()


@pytest.fixture
def admin(watched: Proxy) -> Pages:
    return pages(watched)


@pytest.fixture
def app(watched: Proxy) -> Iterator[Client]:
    client = Client(watched.port)
    assert client.ask("FLUSHALL") == b"OK"
    yield client
    client.close()


def _add(key: str, seconds: int) -> list[Word]:
    return ["HSETEX", key, *BOUNDED, "EX", seconds, "FIELDS", 1, "f", "v"]


@pytest.mark.parametrize("keys", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_all_slots_are_counted(app: Client, admin: Pages, keys: int) -> None:
    app.ask_many([_add(f"h:{number}", 90) for number in range(keys)])
    app.ask("HSETEX", "later", *BOUNDED, "EX", FAR_S, "FIELDS", 2, "f", "v", "g", "w")
    survey = surveyed(admin, keys + 1)
    assert (survey["elements"], survey["sampled"]) == (keys + 2, keys + 1)
    assert survey["types"] == [{"type": "hash", "keys": keys + 1, "elements": keys + 2}]
    assert sum(survey["deadlines"]["hour"]["keys"]) == keys


@pytest.mark.slow
def test_of_many_slots_some_are_drawn(app: Client, admin: Pages) -> None:
    app.ask_many([_add(f"h:{number}", 90) for number in range(2000)])
    app.ask_many([_add(f"{{tag}}{number}", 7200) for number in range(2000)])
    survey = surveyed(admin, 4000)
    assert 0 < survey["sampled"] <= 64  # less where a drawn slot had keys in a former test only
    # The estimate is off by more than this once in a million times.
    assert abs(sum(survey["deadlines"]["hour"]["keys"]) - 2000) < 1300


def test_the_keys_that_are_due_next_come_from_all_slots(app: Client, admin: Pages) -> None:
    seconds = random.sample(range(1000, 9000), 300)
    app.ask_many([_add(f"h:{each}", each) for each in seconds])
    app.ask_many([_add(f"{{tag}}{each}", 500 + each) for each in range(100)])
    names = [f"{{tag}}{each}" for each in range(100)] + [f"h:{each}" for each in sorted(seconds)]
    found = []
    for offset in range(0, 400, 50):
        page = inspected(admin, offset=str(offset))
        assert page["managed"] == 400
        found += [row["name"] for row in page["keys"]]
    assert found == names
    assert inspected(admin, offset="400")["keys"] == []
    assert "only the first 2000" in inspected(admin, offset="1951")["error"]
    assert "database 0 only" in inspected(admin, db="1")["error"]


def test_a_key_is_looked_into(app: Client, admin: Pages) -> None:
    app.ask(*_add("h:1", FAR_S))
    found = inspected(admin, key="h:1")
    assert (found["type"], found["timed"], found["elements"][0]["name"]) == ("hash", 1, "f")
    assert inspected(admin, key="none")["type"] == "none"
    assert [row["name"] for row in inspected(admin, match="h:?")["keys"]] == ["h:1"]


def test_what_waits_is_counted_in_slots_without_deadlines_too(
    app: Client, admin: Pages, node: Node
) -> None:
    app.ask("ONEXPIRE", "cart:*", "KEEP")
    app.ask_many([["SADDEX", f"cart:{each}", "PX", 1, "MEMBERS", 1, "m"] for each in range(9)])
    app.ask_many([["DEFER", "EX", 900, "RPUSH", f"{{jobs}}:{each}", "j"] for each in range(60)])
    kept = "ttlproxy_node_kept_elements"
    becomes(admin, 9, kept, node=f"127.0.0.1:{node.port}")
    becomes(admin, 60, "ttlproxy_node_deferred_commands", node=f"127.0.0.1:{node.port}")
    wait_until(lambda: status(admin)["waiting"].get("kept", {}).get("count") == 9, "the page's")
    waiting = status(admin)["waiting"]
    assert (waiting["kept"]["keys"], waiting["kept"]["exact"]) == (9, True)
    assert (waiting["deferred"]["count"], waiting["deferred"]["exact"]) == (60, True)
    app.ask("ONEXPIRE", "cart:*", "NONE")


@pytest.mark.slow
def test_an_empty_cluster_has_nothing(app: Client, admin: Pages) -> None:
    assert surveyed(admin, 0)["elements"] == 0
    assert inspected(admin) == {"managed": 0, "keys": [], "next": None}
    assert status(admin)["rules"].get("rules", []) == []
