"""Doctor, purge, readiness, metrics and the page in front of three masters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.operations.test_purge import purge
from tests.operations.test_status_routes import inspected, surveyed
from tests.support.admin_pages import FLAGS, Pages, pages
from tests.support.doctor import above_info, examine, of
from tests.support.masters import Masters
from tests.support.processes import wait_until
from tests.support.redis_client import Client
from tests.support.servers import Proxy
from ttlproxy.core.keys import slot

KEYS = [b"k:%d" % number for number in range(60)]


@pytest.fixture
def client(masters: Masters) -> Iterator[Client]:
    with closing(Client(masters.proxy.port)) as client:
        yield client


@pytest.fixture(scope="module")
def watched(shared_masters: Masters) -> Iterator[Proxy]:
    proxy = Proxy(shared_masters.nodes[1].url, *FLAGS, forked=True).start()
    yield proxy
    proxy.remove()


@pytest.fixture
def admin(watched: Proxy) -> Pages:
    return pages(watched)


def _fill(client: Client) -> None:
    client.ask_many([("HSETEX", key, "EX", 1000, "FIELDS", 1, "f", "v") for key in KEYS])


def test_the_doctor_examines_each_master(masters: Masters, client: Client) -> None:
    _fill(client)
    found = examine(masters.nodes[2].url)
    assert above_info(found) == []
    versions = [each.what for each in found if each.check == "version"]
    assert sorted(each.split(": ")[0] for each in versions) == sorted(
        f"127.0.0.1:{node.port}" for node in masters.nodes
    )
    assert of("slots", found).what == "all slots have a master; there are 3"
    assert of("coverage", found).what.startswith("cluster-require-full-coverage is on at 127.0.0.1")
    assert "differ by" in of("clocks", found).what


def test_the_doctor_tells_a_slot_on_its_way_and_which_node_has_it(masters: Masters) -> None:
    source, target = masters.nodes[:2]
    assert source.ask("CLUSTER", "SETSLOT", 7, "MIGRATING", target.id) == b"OK"
    try:
        found = [each for each in examine(target.url) if each.severity == 2]
        assert [(each.check, each.what) for each in found] == [
            ("cluster", f"127.0.0.1:{source.port}: 1 slot is on the way to another node")
        ]
    finally:
        assert source.ask("CLUSTER", "SETSLOT", 7, "STABLE") == b"OK"


@pytest.mark.slow
def test_the_doctor_mends_at_each_master(masters: Masters, client: Client) -> None:
    _fill(client)
    for node in masters.nodes:
        for name in node.ask("KEYS", "__ttl:schedule*"):
            assert node.ask("DEL", name) == 1
    mended = examine(masters.nodes[0].url, mend=True)
    assert above_info(mended) == []


def test_a_purge_reaches_each_master(masters: Masters, client: Client) -> None:
    _fill(client)
    done = purge("--upstream", masters.nodes[1].url, "--force")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 3
    left = sorted(name for node in masters.nodes for name in node.ask("KEYS", "*"))
    assert [name for name in left if b"ttl" not in name] == sorted(KEYS)


def test_the_page_counts_the_keys_of_all_masters(
    masters: Masters, watched: Proxy, admin: Pages
) -> None:
    with closing(Client(watched.port)) as client:
        _fill(client)
    survey = surveyed(admin, 60)
    assert survey["elements"] == 60
    page = inspected(admin)
    assert (page["managed"], len(page["keys"])) == (60, 50)
    for key in KEYS[:6]:
        assert inspected(admin, key=key.decode())["timed"] == 1


def test_metrics_tell_of_all_masters(masters: Masters, watched: Proxy, admin: Pages) -> None:
    with closing(Client(watched.port)) as client:
        _fill(client)
    wait_until(lambda: "ttlproxy_managed_keys 60.0" in admin.get("/metrics").text, "they are known")
    assert all(f"127.0.0.1:{node.port}" in admin.get("/metrics").text for node in masters.nodes)


def test_a_slot_without_a_master_is_not_ready(masters: Masters, admin: Pages) -> None:
    number = slot(b"nobody has it")
    owner = masters.nodes[number * 3 // 16384]
    admin.until("/readyz", 200)
    assert owner.ask("CLUSTER", "DELSLOTS", number) == b"OK"
    try:
        assert "1 slots are not served" in admin.until("/readyz", 503).text
    finally:
        assert owner.ask("CLUSTER", "ADDSLOTS", number) == b"OK"
    admin.until("/readyz", 200)
    wait_until(
        lambda: all(b"cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in masters.nodes),
        "the Cluster is well",
    )
