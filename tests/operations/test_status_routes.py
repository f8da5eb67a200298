"""What the status page gets over HTTP, and who may ask."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import FLAGS, Pages, pages
from tests.support.containers import AnyServer
from tests.support.deadlines import BOUNDED
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.servers import Proxy
from ttlproxy.admin.page import document

pytestmark = pytest.mark.any_server

FAR_MS = 4_102_444_800_000


@pytest.fixture
def admin(watched: Proxy) -> Pages:
    return pages(watched)


def status(admin: Pages, **query: str) -> dict[str, Any]:
    return _json(admin, "/status.json", query)


def inspected(admin: Pages, **query: str) -> dict[str, Any]:
    return _json(admin, "/inspect.json", query)


def answered(admin: Pages, part: str) -> dict[str, Any]:
    """A part of the status, once Redis has answered."""
    wait_until(lambda: bool(status(admin)[part]), f"an answer about {part}")
    found: dict[str, Any] = status(admin)[part]
    return found


def surveyed(admin: Pages, keys: int) -> dict[str, Any]:
    """The first survey with so many keys: one is made every few seconds."""
    found: dict[str, Any] = {}

    def is_made() -> bool:
        found.update(status(admin)["survey"])
        return found.get("keys") == keys

    wait_until(is_made, f"a survey of {keys} keys")
    return found


def _json(admin: Pages, path: str, query: dict[str, str]) -> dict[str, Any]:
    page = admin.get(f"{path}?{urlencode(query)}")
    assert (page.status, page.headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    answer: dict[str, Any] = json.loads(page.text)
    return answer


# --- the page


def test_the_page_is_one_document_that_may_ask_nobody_else(admin: Pages) -> None:
    page = admin.get("/")
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    policy = page.headers["Content-Security-Policy"]
    assert policy == document().policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["X-Frame-Options"] == "DENY"
    assert "Access-Control-Allow-Origin" not in page.headers
    elsewhere = page.text.replace("http://www.w3.org/", "")  # names of namespaces
    assert "http:" not in elsewhere
    assert "https:" not in elsewhere
    assert "innerHTML" not in page.text


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:9380", "192.0.2.1", "localhost", "LocalHost.:80", "[::1]:9380", "[::1]"),
        *("[2001:DB8::1]:80", "[::ffff:192.0.2.1]"),
    ],
)
def test_this_machines_own_names_are_answered(admin: Pages, host: str) -> None:
    assert admin.ask("GET", "/status.json", {"Host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        *("[::1].example", "[::1]example:80", "[::1]:80.example", "[127.0.0.1]", "[]", "[::1"),
        *("127.0.0.1.example", "127.0.0.1:80.example", "localhost.example", "localhost..", "::1"),
    ],
)
def test_a_name_that_only_begins_like_this_machines_is_refused(admin: Pages, host: str) -> None:
    assert admin.ask("GET", "/status.json", {"Host": host}).status in (400, 421)


@pytest.mark.parametrize("path", ["/", "/status.json", "/inspect.json", "/metrics"])
def test_another_sites_name_for_this_machine_is_refused(admin: Pages, path: str) -> None:
    assert admin.ask("GET", path, {"Host": "evil.example:9380"}).status == 421


@pytest.mark.parametrize("path", ["/", "/status.json", "/inspect.json"])
def test_nothing_but_get_is_answered(admin: Pages, path: str) -> None:
    assert admin.ask("POST", path).status == 405


# --- the metrics


def test_samples_come_once_and_are_numbered(admin: Pages) -> None:
    wait_until(lambda: status(admin)["last"] >= 2, "two samples")
    first = status(admin)
    assert {len(values) for values in first["series"].values()} == {first["last"]}
    again = status(admin, life=first["life"], since=str(first["last"]))
    new = again["last"] - first["last"]
    assert {len(values) for values in again["series"].values()} == {new}
    assert len(status(admin, life="another", since="1")["series"]["clients"]) >= 2


def test_rules_of_onwrite_are_beside_those_of_onexpire(watched: Proxy, admin: Pages) -> None:
    with Connection(watched.port) as client:
        client.ask("ONEXPIRE", "a*", "KEEP")
        client.ask("ONWRITE", "b*", "TYPE", "set", "EX", 5)
    wait_until(lambda: status(admin)["rules"].get("all") == 2, "both rules")
    assert status(admin)["rules"]["rules"] == [
        {"db": 0, "pattern": "a*", "action": "KEEP"},
        {"db": 0, "pattern": "b*", "action": "ONWRITE TYPE set EX 5"},
    ]


def test_the_figures_are_those_of_the_proxy(watched: Proxy, admin: Pages) -> None:
    with Connection(watched.port) as client:
        client.ask("SADDEX", "s", 100, "a", "b")
        wait_until(lambda: _latest(admin, "clients") == 1, "the client is counted")
        wait_until(lambda: _latest(admin, "managed_keys") == 1, "its key as well")
        wait_until(lambda: (_latest(admin, "round_trip_ms") or 0) > 0, "a heartbeat")


def _latest(admin: Pages, name: str) -> float | None:
    values = status(admin)["series"][name]
    return values[-1] if values else None


def test_the_survey_counts_keys_and_elements_by_type_and_deadline(
    watched: Proxy, admin: Pages
) -> None:
    with Connection(watched.port) as client:
        client.ask("HSETEX", "h", *BOUNDED, "EX", 1800, "FIELDS", 2, "a", 1, "b", 2)
        client.ask("SADDEX", "s", 7000, "a", "b", "c")
        client.ask("SELECT", 3)
        client.ask("HSETEX", "h", *BOUNDED, "EX", 100_000, "FIELDS", 1, "a", 1)
    found = surveyed(admin, 3)
    assert (found["keys"], found["sampled"], found["elements"]) == (3, 3, 6)
    assert found["types"] == [
        {"type": "hash", "keys": 2, "elements": 3},
        {"type": "set", "keys": 1, "elements": 3},
    ]
    deadlines = found["deadlines"]
    assert sum(deadlines["minute"]["elements"]) == 0
    assert deadlines["hour"]["elements"].index(2) in (9, 10)
    assert sum(deadlines["hour"]["elements"]) == 2
    assert deadlines["day"]["elements"][:3] == [2, 3, 0]
    assert deadlines["day"]["keys"][:3] == [1, 1, 0]


def test_of_many_keys_some_are_looked_into_and_stand_for_all(watched: Proxy, admin: Pages) -> None:
    with Connection(watched.port) as client:
        for number in range(500):
            client.ask("SADDEX", f"s{number}", 100, "a", "b")
    found = surveyed(admin, 500)
    assert (found["keys"], found["sampled"], found["elements"]) == (500, 64, 1000)


def test_programs_are_listed_by_name_user_and_library(watched: Proxy, admin: Pages) -> None:
    with Connection(watched.port) as one, Connection(watched.port) as two:
        for client in (one, two):
            client.ask("CLIENT", "SETNAME", "shop")
        found: dict[str, Any] = {}

        def are_listed() -> bool:
            found.update(status(admin)["connected"])
            return "shop" in str(found)

        wait_until(are_listed, "both")
    (row,) = [row for row in found["programs"]["rows"] if row["name"] == "shop"]
    assert (row["user"], row["connections"], row["hosts"]) == ("default", 2, ["127.0.0.1"])
    assert not any(row["name"].startswith("ttlproxy") for row in found["programs"]["rows"])


def test_redis_away_is_said_and_passes(start_server: StartServer, start_proxy: StartProxy) -> None:
    server = start_server()
    admin = pages(start_proxy(server.url, *FLAGS))
    assert status(admin)["why_not"] == ""
    server.kill()
    wait_until(lambda: status(admin)["why_not"] != "", "the loss is seen")
    wait_until(lambda: status(admin)["why_not_s"] >= 1, "since when is told")
    wait_until(lambda: "error" in status(admin)["survey"], "the survey says so")
    assert "error" in inspected(admin, key="h")
    server.restart()
    wait_until(lambda: status(admin)["why_not"] == "", "the link is back")
    assert status(admin)["why_not_s"] == 0
    wait_until(lambda: status(admin)["survey"].get("keys") == 0, "the survey too")
    assert inspected(admin, key="h")["type"] == "none"


def test_slow_calls_are_named_by_their_script(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server("--slowlog-log-slower-than", "0")
    proxy = start_proxy(server.url, *FLAGS)
    admin = pages(proxy)
    with Connection(proxy.port) as client:

        def is_named() -> bool:
            client.ask("SADDEX", "secret-key", 100, "secret-member")
            calls = answered(admin, "slow")["calls"]
            return ("set_addex", "a client") in {(call["script"], call["by"]) for call in calls}

        wait_until(is_named, "the script is called by its SHA, as it is not at first")
    slow = answered(admin, "slow")
    assert slow["from_ms"] == 0
    assert "secret" not in admin.get("/status.json").text


# --- the inspector


def test_elements_are_shown_soonest_first(watched: Proxy, admin: Pages) -> None:
    with Connection(watched.port) as client:
        client.ask("HSET", "h", "a", 1, "b", 2, "c", 3)
        client.ask("HPEXPIREATFIELD", "h", FAR_MS + 1, "FIELDS", 1, "a")
        client.ask("HPEXPIREATFIELD", "h", FAR_MS, "FIELDS", 1, "c")
    answer = inspected(admin, key="h")
    assert (answer["type"], answer["size"], answer["timed"]) == ("hash", 3, 2)
    rows = [(row["name"], row["deadline_ms"]) for row in answer["elements"]]
    assert rows == [("c", FAR_MS), ("a", FAR_MS + 1)]
    assert answer["elements"][0]["ms_left"] < FAR_MS
    assert answer["key_ms_left"] is None


def test_a_large_key_comes_in_pages(watched: Proxy, admin: Pages) -> None:
    with Connection(watched.port) as client:
        for number in range(120):
            client.ask("ZADD", "z", 1, f"{number:03}")
            client.ask("ZPEXPIREATMEMBER", "z", f"{number:03}", FAR_MS + number)
    names = []
    for offset in (0, 50, 100):
        answer = inspected(admin, key="z", offset=str(offset))
        assert (answer["timed"], answer["size"]) == (120, 120)
        names += [row["name"] for row in answer["elements"]]
    assert names == [f"{number:03}" for number in range(120)]


def test_any_bytes_can_be_typed_and_are_shown_escaped(watched: Proxy, admin: Pages) -> None:
    with Connection(watched.port) as client:
        client.ask("SADDEX", b"k\x00\xff\\", 100, b"\n<b>", "é")
    answer = inspected(admin, key="k\\x00\\xff\\\\")
    assert {row["name"] for row in answer["elements"]} == {"\\x0a<b>", "é"}


def test_a_long_element_is_cut_by_redis(watched: Proxy, admin: Pages) -> None:
    with Connection(watched.port) as client:
        client.ask("RPUSHEX", "l", "EX", 100, "ELEMENTS", 1, b"x" * 1_000_000)
    (row,) = inspected(admin, key="l")["elements"]
    assert (row["name"], row["cut"], row["length"]) == ("x" * 256, True, 1_000_000)


def test_without_a_key_the_keys_due_next_are_shown(watched: Proxy, admin: Pages) -> None:
    with Connection(watched.port) as client:
        client.ask("SELECT", 5)
        for number in (3, 1, 2):
            client.ask("SADDEX", f"s{number}", 1000 * number, "a")
    answer = inspected(admin, db="5")
    assert answer["managed"] == 3
    assert [row["name"] for row in answer["keys"]] == ["s1", "s2", "s3"]
    assert inspected(admin, db="4") == {"managed": 0, "keys": [], "next": None}


def test_keys_that_match_are_found_among_all(watched: Proxy, admin: Pages) -> None:
    with Connection(watched.port) as client:
        for number in range(520):
            client.ask("SADDEX", f"other:{number}", 1000 + number, "m")
        for number in range(60):
            client.ask("SADDEX", f"cart:{number:02}", 2000 + number, "m")
        client.ask("DEFER", "EX", 1000, "DEL", "cart:later")
    first = inspected(admin, match="cart:*")
    assert (first["managed"], len(first["keys"])) == (581, 50)
    then = inspected(admin, match="cart:*", offset=str(first["next"]))
    names = [row["name"] for row in first["keys"] + then["keys"]]
    assert names == [f"cart:{number:02}" for number in range(60)]
    assert then["next"] is None
    assert inspected(admin, match="nothing*")["keys"] == []


def test_deferred_commands_have_the_name_of_their_key(watched: Proxy, admin: Pages) -> None:
    with Connection(watched.port) as client:
        client.ask("DEFER", "EX", 1000, "DEL", "jobs")
    (row,) = inspected(admin)["keys"]
    assert (row["name"], row["is_deferred"], row["length"]) == ("jobs", True, 4)


def test_values_are_shown_only_if_the_operator_says_so(
    watched: Proxy, server: AnyServer, start_proxy: StartProxy
) -> None:
    showing = pages(start_proxy(server.url, *FLAGS, "--inspector-values", "yes"))
    with Connection(watched.port) as client:
        client.ask("SELECT", 2)
        fields = ("f", "v" * 300, "x" * 300, "of a cut name")
        client.ask("HSETEX", "h", *BOUNDED, "EX", 1000, "FIELDS", 2, *fields)
        client.ask("ZADD", "z", "1.5", "m")
        client.ask("ZEXPIREMEMBER", "z", "m", 1000)
    rows = {row["name"]: row for row in inspected(showing, key="h", db="2")["elements"]}
    assert (rows["f"]["value"], rows["f"]["value_length"]) == ("v" * 256, 300)
    assert "value" not in rows["x" * 256]
    assert inspected(showing, key="z", db="2")["elements"][0]["value"] == "1.5"
    assert "value" not in str(inspected(pages(watched), key="h", db="2"))


def test_a_database_that_is_not_there_is_said(admin: Pages) -> None:
    assert "out of range" in inspected(admin, key="k", db="9999")["error"]


@pytest.mark.parametrize("query", ["db=-1", "db=x", "offset=-5", "db=1e3", "offset=99999999999"])
def test_what_is_no_number_is_refused(admin: Pages, query: str) -> None:
    assert admin.get(f"/inspect.json?key=k&{query}").status == 400


def test_the_inspector_writes_nothing(start_server: StartServer, start_proxy: StartProxy) -> None:
    """The proxy is alone: one of several writes from time to time that it walks for all."""
    server = start_server()
    proxy = start_proxy(server.url, "--admin", "127.0.0.1:0")
    admin = pages(proxy)
    with Connection(proxy.port) as client, Connection(server.port) as direct:
        client.ask("SADDEX", "s", 100, "a")
        before = direct.ask("INFO", "persistence")
        inspected(admin, key="s")
        inspected(admin)
        status(admin)
        after = direct.ask("INFO", "persistence")
    assert _changes(before) == _changes(after)


def _changes(info: bytes) -> bytes:
    return info.partition(b"rdb_changes_since_last_save:")[2].partition(b"\r\n")[0]


@pytest.mark.parametrize(
    ("listen", "setting", "status_code"),
    [
        ("127.0.0.1:0", "loopback", 200),
        ("0.0.0.0:0", "loopback", 403),
        ("0.0.0.0:0", "yes", 200),
        ("127.0.0.1:0", "no", 403),
    ],
)
def test_only_this_machine_inspects_unless_told_otherwise(
    server: AnyServer, start_proxy: StartProxy, listen: str, setting: str, status_code: int
) -> None:
    admin = pages(start_proxy(server.url, "--admin", listen, "--inspector", setting))
    assert admin.get("/inspect.json?key=k").status == status_code
    assert status(admin)["inspector"] is (status_code == 200)
