"""What the status page has for an operator on call: parked keys and the commands that fix them,
clients, why connections ended, and what waits in Redis."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import StartProxy
from tests.operations.test_status_routes import status
from tests.support.admin_pages import FLAGS, Pages, pages
from tests.support.containers import AnyServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.servers import Proxy
from ttlproxy.core.keys import Keys
from ttlproxy.operations.redis_cli import typed

pytestmark = pytest.mark.any_server

KEYS = Keys()


@pytest.fixture
def admin(watched: Proxy) -> Pages:
    return pages(watched)


def until(admin: Pages, what: str, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The first status for which it holds."""
    found: dict[str, Any] = {}

    def is_there() -> bool:
        found.update(status(admin))
        return bool(holds(found))

    wait_until(is_there, what)
    return found


# --- parked keys


def test_the_command_beside_a_parked_key_fixes_it(watched: Proxy, admin: Pages) -> None:
    """Its words are given to the proxy as a shell would give them to redis-cli."""
    with Connection(watched.port) as client:
        client.ask("SET", "it's taken", "a string")
        client.ask("ONEXPIRE", "bad", "RPUSH", "it's taken")
        client.ask("SADDEX", "bad", "PX", 1, "MEMBERS", 1, "m")
        parked = until(admin, "the key is parked", lambda now: now["parked"].get("all"))["parked"]
        (group,) = parked["groups"]
        assert (group["why"], parked["leads"]) == ("wrongtype", True)
        assert group["said"] == "WRONGTYPE the destination of a rule is a string, not a list"
        assert [(key["db"], key["name"]) for key in group["keys"]] == [(0, "bad")]
        cli, *words = shlex.split(group["fix"])
        assert cli == "redis-cli"
        assert words[:4] == ["-h", "127.0.0.1", "-p", "PORT"]
        assert words[4:] == ["RENAMENX", "it's taken", "it's taken:aside"]
        assert client.ask(*words[4:]) == b":1\r\n"
        wait_until(lambda: client.ask("LLEN", "it's taken") == b":1\r\n", "the element arrives")
        until(admin, "nothing is parked", lambda now: now["parked"]["all"] == 0)


def test_a_deferred_command_that_is_parked_is_named_by_its_key(
    watched: Proxy, admin: Pages
) -> None:
    with Connection(watched.port) as client:
        client.ask("SELECT", 3)
        client.ask("SET", "jobs", "a string")
        client.ask("DEFER", "PX", 1, "RPUSH", "jobs", "j")
        parked = until(admin, "it is parked", lambda now: now["parked"].get("all"))["parked"]
        (group,) = parked["groups"]
        (key,) = group["keys"]
        assert (key["name"], key["is_deferred"]) == ("jobs", True)
        assert group["fix"].endswith(" -n 3 RENAMENX jobs jobs:aside")
        client.ask("DEL", "jobs")
        until(admin, "nothing is parked", lambda now: now["parked"]["all"] == 0)


# --- clients


def test_clients_are_shown_with_what_they_do_and_what_is_kept_for_them(
    watched: Proxy, admin: Pages
) -> None:
    with (
        Connection(watched.port) as blocked,
        Connection(watched.port) as subscribed,
        Connection(watched.port) as sending,
    ):
        blocked.send(command("BLPOP", "nothing", 0))
        subscribed.ask("SUBSCRIBE", "news")
        sending.ask("SELECT", 2)
        sending.send(command("SADDEX", "s", 100, "m" * 5000)[:3000])
        found = until(
            admin,
            "all three",
            lambda now: (
                now["clients"].get("states") == {"blocked": 1, "subscribed": 1, "in a request": 1}
            ),
        )["clients"]
        rows = {row["state"]: row for row in found["rows"]}
        assert found["all"] == len(rows) == 3
        assert rows["in a request"]["db"] == 2
        assert rows["in a request"]["buffered"] >= 3000
        assert found["buffered"] == sum(row["buffered"] for row in rows.values())
        assert found["rows"][0]["state"] == "in a request", "the largest buffer comes first"
        address = "{}:{}".format(*blocked.socket.getsockname())
        assert rows["blocked"]["address"] == address


@pytest.mark.parametrize("flags", [(), ("--share-upstream", "1")])
def test_clients_are_shown_with_name_user_and_library(
    server: AnyServer, start_proxy: StartProxy, flags: tuple[str, ...]
) -> None:
    proxy = start_proxy(server.url, *FLAGS, *flags)
    with Connection(proxy.port) as client, Connection(proxy.port) as other:
        client.ask("ACL", "SETUSER", "shop", "on", ">secret", "~*", "&*", "+@all")
        client.ask("PING")
        client.ask("CLIENT", "SETINFO", "lib-name", "redis-py")
        client.ask("CLIENT", "SETINFO", "LIB-VER", "8.1")
        client.ask("HELLO", 2, "SETNAME", "cart")
        client.ask("AUTH", "shop", "secret")
        client.ask("AUTH", "shop", "wrong")
        other.ask("CLIENT", "SETNAME", "cart")
        other.ask("RESET")

        def are_shown(now: dict[str, Any]) -> bool:
            rows = now["clients"].get("rows", [])
            return [row["user"] for row in rows] == ["shop", "default"]

        found = until(pages(proxy), "both", are_shown)
        said = [(row["name"], row["library"]) for row in found["clients"]["rows"]]
        assert said == [("cart", "redis-py 8.1"), ("", "")]
        client.ask("ACL", "DELUSER", "shop")


def test_scripts_are_shown_with_their_calls_and_a_sample_of_their_time(
    watched: Proxy, admin: Pages
) -> None:
    with Connection(watched.port) as client:
        client.ask("HSETEX", "h", "EX", 1000, "FIELDS", 1, "f", "v")

        def row(script: str) -> dict[str, Any]:
            return next(each for each in status(admin)["scripts"] if each["script"] == script)

        def is_measured() -> bool:
            for _ in range(20):
                client.ask("HTTLFIELD", "h", "f")
            return row("hash_ttl")["mean_ms"] is not None

        before = row("hash_setex")["calls"]
        client.ask("HSETEX", "h", "EX", 1000, "FIELDS", 1, "f", "v")
        assert row("hash_setex")["calls"] == before + 1
        wait_until(is_measured, "a round trip")
        assert row("hash_ttl")["mean_ms"] > 0
        counts = [each["calls"] for each in status(admin)["scripts"]]
        assert counts == sorted(counts, reverse=True)


# --- what waits


def test_deferred_commands_and_kept_elements_are_counted_and_the_next_shown(
    watched: Proxy, admin: Pages
) -> None:
    with Connection(watched.port) as client:
        client.ask("ONEXPIRE", "cart:*", "KEEP")
        client.ask("SADDEX", "cart:1", "PX", 1, "MEMBERS", 2, "a", "b")
        client.ask("DEFER", "EX", 1000, "ID", "late", "RPUSH", "jobs", "a secret", "b")
        client.ask("DEFER", "EX", 500, "ID", "soon", "PUBLISH", "news", "hello")

        def both(now: dict[str, Any]) -> list[int]:
            return [now["waiting"].get(kind, {}).get("count") for kind in ("kept", "deferred")]

        waiting = until(admin, "all four", lambda now: both(now) == [2, 2])["waiting"]
    kept, deferred = waiting["kept"], waiting["deferred"]
    assert (kept["keys"], kept["exact"]) == (1, True)
    assert [(row["key"], row["count"]) for row in kept["keys_shown"]] == [("cart:1", 2)]
    assert (deferred["keys"], deferred["count"], deferred["exact"]) == (2, 2, True)
    rows = [(row["id"], row["command"], row["key"], row["words"]) for row in deferred["next"]]
    assert rows == [("soon", "PUBLISH", "news", 3), ("late", "RPUSH", "jobs", 4)]
    assert "secret" not in admin.get("/status.json").text
    survey = until(admin, "the survey", lambda now: now["survey"].get("keys") == 2)["survey"]
    assert survey["types"] == [{"type": "deferred", "keys": 2, "elements": 2}]


def test_what_a_client_has_put_in_the_place_of_such_keys_is_left_out(
    watched: Proxy, server: AnyServer, admin: Pages
) -> None:
    with Connection(server.port) as direct, Connection(watched.port) as client:
        client.ask("DEFER", "EX", 1000, "DEL", "jobs")
        for name in (KEYS.kept(b"k"), KEYS.deferred(b"k")):
            direct.ask("SET", name, "a string")
            direct.ask("SADD", KEYS.others, name)
        waiting = until(
            admin, "it", lambda now: now["waiting"].get("deferred", {}).get("count") == 1
        )["waiting"]
    assert waiting["kept"]["count"] == 0


# --- who may see it


def test_without_the_inspector_there_are_counts_and_no_names(
    server: AnyServer, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(server.url, *FLAGS, "--inspector", "no")
    admin = pages(proxy)
    with Connection(proxy.port) as client:
        address = "{}:{}".format(*client.socket.getsockname())
        client.ask("DEFER", "EX", 1000, "RPUSH", "secret-jobs", "j")
        client.ask("SET", "secret-dest", "a string")
        client.ask("ONEXPIRE", "secret-*", "RPUSH", "secret-dest")
        client.ask("SADDEX", "secret-key", "PX", 1, "MEMBERS", 1, "m")
        found = until(
            admin,
            "all counts",
            lambda now: (
                now["parked"].get("all")
                and now["clients"].get("all")
                and now["findings"].get("findings")
                and now["waiting"].get("deferred", {}).get("count")
            ),
        )
    assert found["parked"]["groups"] == [
        {"why": "wrongtype", "count": 1, "said": "", "fix": "", "keys": []}
    ]
    assert found["clients"]["rows"] == found["waiting"]["deferred"]["next"] == []
    assert "a rule of ONEXPIRE needs a list" in str(found["findings"])
    assert "secret" not in str(found)
    assert address not in str(found)


@pytest.mark.slow
def test_clients_of_all_workers_are_shown(server: AnyServer, start_proxy: StartProxy) -> None:
    proxy = start_proxy(server.url, *FLAGS, "--workers", "2")
    admin = pages(proxy)
    with Connection(proxy.port) as one, Connection(proxy.port) as other:
        one.ask("PING")
        other.ask("PING")
        found = until(admin, "both", lambda now: now["clients"].get("all") == 2)["clients"]
        assert {row["worker"] for row in found["rows"]} == {
            worker["pid"] for worker in status(admin)["workers"]
        }
        assert found["states"] == {"open": 2}
        one.ask("ONEXPIRE", "bad", "RPUSH", "taken")
        one.ask("SET", "taken", "a string")
        one.ask("SADDEX", "bad", "PX", 1, "MEMBERS", 1, "m")
        until(admin, "the key is parked", lambda now: now["parked"].get("all") == 1)


# --- commands for a shell


@pytest.mark.parametrize(
    "word", [b"plain", b"it's", b'"$HOME" \\n *', "größe".encode(), b"\xff1\n'\\", b"-x", b""]
)
def test_a_shell_passes_on_the_words_as_they_are(word: bytes) -> None:
    line = typed(["printf", "%s."], 0, [word, b"end"])
    said = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
    assert said == word + b".end."
