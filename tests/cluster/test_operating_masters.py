"""Doctor, purge, readiness, metrics and the page in front of three masters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import StartProxy
from tests.operations.test_adopt import DAY_MS, Adopt
from tests.operations.test_purge import purge
from tests.operations.test_status_routes import inspected, status, surveyed
from tests.support.admin_pages import FLAGS, Pages, becomes, families, metric, pages
from tests.support.browser import PHONE, launched, visit
from tests.support.deadlines import BOUNDED
from tests.support.doctor import above_info, examine, of
from tests.support.masters import Masters
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.server_queries import info
from tests.support.servers import Proxy
from ttlproxy.core.keys import SLOTS, slot
from ttlproxy.operations.adopt import Wanted

KEYS = [b"k:%d" % number for number in range(60)]


@pytest.fixture(scope="module")
def watched(shared_masters: Masters) -> Iterator[Proxy]:
    proxy = Proxy(shared_masters.nodes[1].url, *FLAGS, forked=True).start()
    yield proxy
    proxy.remove()


@pytest.fixture
def admin(watched: Proxy) -> Pages:
    return pages(watched)


def _fill(client: Client) -> None:
    client.ask_many([("HSETEX", key, *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v") for key in KEYS])


def test_the_doctor_examines_each_master(masters: Masters, client: Client) -> None:
    _fill(client)
    found = examine(masters.nodes[2].url)
    assert above_info(found) == []
    versions = [each.what for each in found if each.check == "commands"]
    assert sorted(each.split(": ")[0] for each in versions) == sorted(
        f"127.0.0.1:{node.port}" for node in masters.nodes
    )
    assert of("slots", found).what == "all slots have a master; there are 3"
    assert of("coverage", found).what.startswith("cluster-require-full-coverage is on at 127.0.0.1")
    assert of("failover", found).what.startswith("no master has a replica: 127.0.0.1")


@pytest.mark.parametrize("flags", [(), ("--share-upstream", "1")])
def test_the_page_shows_clients_with_name_and_user(
    masters: Masters, start_proxy: StartProxy, flags: tuple[str, ...]
) -> None:
    proxy = start_proxy(masters.nodes[0].url, *FLAGS, *flags)
    with Connection(proxy.port) as client:
        client.ask("HELLO", 3, "SETNAME", "cart")

        def is_shown() -> bool:
            rows = status(pages(proxy))["clients"].get("rows", [])
            return [(row["name"], row["user"]) for row in rows] == [("cart", "default")]

        wait_until(is_shown, "the client's name")


def test_metrics_and_the_page_tell_of_rules_of_onwrite(
    masters: Masters, watched: Proxy, admin: Pages
) -> None:
    key = next(key for key in KEYS if slot(key) * 3 // SLOTS == 2)
    with Client(watched.port) as app:
        try:
            assert app.ask("ONWRITE", "k:*", "EX", 1000, "MAXLEN", 1) == b"OK"
            before = metric(admin, "ttlproxy_dated_elements_total")
            assert [app.ask("SADD", each, "a") for each in KEYS[:6]] == [1] * 6
            assert str(app.ask("SADD", key, "b", "c")).startswith("TTLMAXLEN")
            assert app.ask("EVAL", "redis.call('SADD', KEYS[1], 'b')", 1, key) is None
            becomes(admin, 7, "ttlproxy_writes_by_rule_total")
            becomes(admin, before + 1, "ttlproxy_dated_elements_total")
            node, refusals = masters.nodes[2], "ttlproxy_node_maxlen_refusals_total"
            stats = node.ask("INFO", "errorstats").decode()  # since the node was started
            (count,) = re.findall(r"errorstat_TTLMAXLEN:count=(\d+)", stats)
            becomes(admin, int(count), refusals, node=f"127.0.0.1:{node.port}")
            own = {"db": 0, "pattern": "k:*", "action": "ONWRITE EX 1000 MAXLEN 1"}
            wait_until(lambda: status(admin)["rules"].get("rules") == [own], "the page has it")
            info = app.ask("TTLPROXY", "INFO").splitlines()
            assert b"writes_by_rule:7" in info
        finally:
            assert app.ask("FLUSHALL") == b"OK"


def test_the_doctor_without_the_right_to_config_still_sees_the_slots(masters: Masters) -> None:
    for node in masters.nodes:
        node.ask("ACL", "SETUSER", "few", "on", ">word", "~*", "&*", "+@all", "-config")
    try:
        found = examine(f"redis://few:word@127.0.0.1:{masters.nodes[0].port}")
    finally:
        for node in masters.nodes:
            node.ask("ACL", "DELUSER", "few")
    assert of("slots", found).what == "all slots have a master; there are 3"
    assert [each for each in found if each.check == "coverage"] == []


def test_the_doctor_compares_the_bound_of_connections_with_maxclients(masters: Masters) -> None:
    found = examine(masters.nodes[0].url, max_clients=90_000, max_redis_connections=50_000)
    told = [each for each in found if each.check == "clients"]
    assert [each.severity for each in told] == [2, 2, 2]
    assert "but max_redis_connections of a proxy is 50000" in told[0].what
    assert told[0].fix.startswith("CONFIG SET maxclients 500")


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
def test_the_doctor_fixes_at_each_master_and_goes_on_where_it_was(
    masters: Masters, client: Client, tmp_path: Path
) -> None:
    _fill(client)
    for node in masters.nodes:
        for name in node.ask("KEYS", "__ttl:schedule*"):
            assert node.ask("DEL", name) == 1
    first, told = masters.nodes[0], list[str]()
    # One that was interrupted when it was done with the first master.
    state = tmp_path / "state"
    where = f"127.0.0.1:{first.port}, database 0"
    done = [info(first.port, "server")["run_id"], "0", 0, True], {"keys": 12345}
    job = {"upstream": first.url, "prefix": "__ttl:"}
    state.write_text(json.dumps({"job": job, "begun": {where: done}}))
    examine(first.url, fix=True, state=state, say=told.append)
    assert not state.exists()
    assert [line.startswith(f"{where}: checked 12345 keys,") for line in told] == [1, 0, 0]
    told.clear()
    assert above_info(examine(first.url, fix=True, say=told.append)) == []
    assert len(told) == len(masters.nodes)
    assert "12345" not in told[0]


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
    with Client(watched.port) as client:
        _fill(client)
    survey = surveyed(admin, 60)
    assert survey["elements"] == 60
    page = inspected(admin)
    assert (page["managed"], len(page["keys"])) == (60, 50)
    for key in KEYS[:6]:
        assert inspected(admin, key=key.decode())["timed"] == 1


@pytest.mark.any_server
def test_the_page_has_a_row_for_each_master(masters: Masters, watched: Proxy, admin: Pages) -> None:
    with Client(watched.port) as client, launched() as browser:
        _fill(client)
        with visit(browser, f"http://127.0.0.1:{admin.where}/", PHONE, "dark") as seen:
            rows = "[...document.querySelectorAll('#masters tbody tr')].map((row) => row.cells)"
            keys = f"{rows}.reduce((sum, cells) => sum + Number(cells[3].textContent), 0)"
            seen.until(f"{keys} === {len(KEYS)}")
            first = f"{rows}.map((cells) => `${{cells[0].textContent}} ${{cells[1].textContent}}`)"
            said = sorted(f"127.0.0.1:{node.port} served" for node in masters.nodes)
            assert seen.page.evaluate(first) == said
            assert seen.text("#state-text") == "serving"
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
            for name in ("keys", "types", "scripts"):
                seen.until(f"document.querySelector('#{name} tbody')")
            seen.until("document.querySelector('#looked').textContent.includes('ago')")
            # A busy machine has slow commands and findings, which this is not about.
            busy = "document.querySelectorAll('#slow-card, #findings-card')"
            hide = f"{busy}.forEach((card) => {{ card.hidden = true; }})"
            height = seen.page.evaluate(f"({hide}, document.documentElement.scrollHeight)")
            assert height <= 3 * PHONE[1]
            assert (seen.unnamed(), seen.wrongs) == ([], [])


def test_metrics_tell_of_all_masters_and_of_each(
    masters: Masters, watched: Proxy, admin: Pages
) -> None:
    names = [f"127.0.0.1:{node.port}" for node in masters.nodes]
    with Client(watched.port) as client:
        _fill(client)
        becomes(admin, 60, "ttlproxy_managed_keys")
        for number, name in enumerate(names):
            own = sum(slot(key) * 3 // SLOTS == number for key in KEYS)
            assert metric(admin, "ttlproxy_node_managed_keys", node=name) == own
            assert metric(admin, "ttlproxy_node_up", node=name) == 1
            assert metric(admin, "ttlproxy_node_connections", node=name) == 1
            assert metric(admin, "ttlproxy_node_slots", node=name) in (5461, 5462)
            assert 0 <= metric(admin, "ttlproxy_node_clock_ahead_seconds", node=name) < 1
        reaped = "ttlproxy_node_reaped_elements_total"
        before = [metric(admin, reaped, node=name) for name in names]
        first = next(key for key in KEYS if slot(key) * 3 < SLOTS)

        def is_reaped_here() -> bool:
            """Another proxy may have been faster."""
            client.ask("HSETEX", first, *BOUNDED, "PX", 1, "FIELDS", 1, "f", "v")
            client.ask_many([("HLEN", first)] * 99)
            return metric(admin, reaped, node=names[0]) > before[0]

        wait_until(is_reaped_here, "it is reaped here")
        assert metric(admin, "ttlproxy_node_reap_lag_seconds_total", node=names[0]) > 0
        assert [metric(admin, reaped, node=name) for name in names[1:]] == before[1:]


def test_metrics_tell_of_round_trips_scripts_and_commands_at_all_masters(
    masters: Masters, watched: Proxy, admin: Pages
) -> None:
    trips, calls = "ttlproxy_script_round_trips_total", "ttlproxy_script_calls_total"

    def of_script(series: str, script: str) -> float:
        family = families(admin)[series.removesuffix("_total")]
        return sum(each.value for each in family.samples if each.labels["script"] == script)

    before = of_script(calls, "hash_setex")
    with Client(watched.port) as client:
        _fill(client)
        assert of_script(calls, "hash_setex") == before + len(KEYS)

        def measured() -> bool:
            for key in KEYS:
                client.ask("HTTLFIELD", key, "f")
            return of_script(trips, "hash_ttl") > 0

        wait_until(measured, "a round trip")
    of_hashes = "ttlproxy_redis_calls_total"
    wait_until(lambda: metric(admin, of_hashes, family="hash") >= len(KEYS), "all masters' counts")


def test_a_slot_without_a_master_is_named_and_others_are_served(
    masters: Masters, admin: Pages
) -> None:
    number = slot(b"nobody has it")
    owner = masters.nodes[number * 3 // SLOTS]
    wait_until(lambda: admin.get("/readyz").text == "ready\n", "all are served")
    for node in masters.nodes:
        node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
    assert owner.ask("CLUSTER", "DELSLOTS", number) == b"OK"
    try:
        said = "ready\n1 slot is not served\n"
        wait_until(lambda: admin.get("/readyz").text == said, "it is named")
        assert admin.get("/readyz").status == 200
    finally:
        assert owner.ask("CLUSTER", "ADDSLOTS", number) == b"OK"
        for node in masters.nodes:
            node.ask("CONFIG", "SET", "cluster-require-full-coverage", "yes")
    wait_until(lambda: admin.get("/readyz").text == "ready\n", "all are served")
    assert admin.get(f"/readyz?node=127.0.0.1:{owner.port}").text == "ready\n"
    assert f"127.0.0.1:{owner.port}" in admin.until("/readyz?node=no.such:1", 404).text
    wait_until(
        lambda: all(b"cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in masters.nodes),
        "the Cluster is well",
    )


async def test_elements_of_all_masters_are_adopted(masters: Masters, client: Client) -> None:
    client.ask_many([("HSET", key, "f", "v") for key in KEYS])
    said = await Adopt(masters.proxy)(Wanted(b"k:*", DAY_MS))
    assert said == "database 0: 60 keys with 60 elements, of which 60 have got a deadline"
    ttls = client.ask_many([("HTTLFIELD", key, "f") for key in KEYS])
    assert set(ttls) <= {86_399, 86_400}
