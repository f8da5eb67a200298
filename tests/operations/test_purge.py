"""`ttlproxy purge` on the command line: what is removed, what stays, and when it refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.conftest import StartProxy, StartServer
from tests.support.command_line import ttlproxy
from tests.support.processes import free_port, wait_until
from tests.support.redis_client import Client


def purge(*flags: str) -> subprocess.CompletedProcess[str]:
    return _purge("--apply", *flags)


def _purge(*flags: str) -> subprocess.CompletedProcess[str]:
    """Nobody is at a terminal."""
    return ttlproxy("purge", *flags)


def _names(port: int, db: int = 0) -> list[bytes]:
    client = Client(port, db)
    names = sorted(client.ask("KEYS", "*"))
    client.close()
    return names


def test_a_purge_removes_what_is_internal_and_nothing_else(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    for db in (0, 3):
        app = Client(proxy.port, db)
        app.ask_many([["SADDEX", f"s{number}", 100, "a"] for number in range(1200)])
        app.ask("SET", "my__ttl:key", "1")
        app.ask("HSET", "h", "a", 1)
        app.ask("HPEXPIREFIELD", "h", "a", 1)
        app.ask("DEFER", "EX", 100, "DEL", "h")
        app.close()
    wait_until(
        lambda: all(b"h" not in _names(server.port, db) for db in (0, 3)), "the reaper at work"
    )
    proxy.stop()
    done = purge("--upstream", server.url)
    assert (done.returncode, done.stderr) == (0, "")
    # 1,200 indexes, the schedule, two keys for deferred commands, and the set of these. In database
    # 0 also the state.
    assert done.stdout.splitlines() == [
        "database 0: 1205 internal keys removed",
        "database 3: 1204 internal keys removed",
    ]
    for db in (0, 3):
        names = _names(server.port, db)
        assert names == sorted([b"my__ttl:key", *(b"s%d" % number for number in range(1200))])
    again = purge("--upstream", server.url)
    assert (again.returncode, again.stdout.splitlines()[0]) == (
        0,
        "database 0: 0 internal keys removed",
    )


def test_a_purge_leaves_what_is_kept_unless_it_is_forced(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    app = Client(proxy.port)
    app.ask("ONEXPIRE", "s", "KEEP")
    app.ask("SADDEX", "s", "PX", 1, "MEMBERS", 2, "a", "b")
    wait_until(lambda: app.ask("EXISTS", "s") == 0, "both kept")
    app.close()
    proxy.stop()
    done = purge("--upstream", server.url)
    assert done.returncode == 0
    assert "elements of 1 key still wait for TAKE" in done.stdout
    proxy.start()
    app = Client(proxy.port)
    assert app.ask("DBSIZE") == 0
    assert [element for element, _, _ in app.ask("TAKE", "s", "COUNT", 1)] == [b"a"]
    app.close()
    proxy.stop()
    assert "TAKE" not in purge("--force", "--upstream", server.url).stdout
    assert _names(server.port) == []


def test_a_purge_refuses_while_a_proxy_is_attached(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url)
    app = Client(proxy.port)
    app.ask("SADDEX", "s", "EXAT", 4102444800, "MEMBERS", 1, "a")
    refused = purge("--upstream", server.url)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "--force" in refused.stderr
    assert app.ask("SEXPIRETIMEMEMBER", "s", "a") == 4102444800
    forced = purge("--force", "--upstream", server.url)
    assert (forced.returncode, forced.stderr) == (0, "")
    assert app.ask("SEXPIRETIMEMEMBER", "s", "a") == -1
    app.close()


def test_a_purge_knows_a_prefix_by_its_letters(start_server: StartServer) -> None:
    server = start_server()
    client = Client(server.port)
    client.ask("MSET", "a*[b]:schedule", 1, "ab:schedule", 2, "a?:x", 3)
    client.close()
    assert purge("--upstream", server.url, "--prefix", "a*[b]:").returncode == 0
    assert _names(server.port) == [b"a?:x", b"ab:schedule"]


def test_a_purge_of_a_redis_that_is_not_there_says_so() -> None:
    done = purge("--upstream", f"redis://127.0.0.1:{free_port()}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("ttlproxy: Redis at redis://127.0.0.1:")


def test_a_purge_with_a_wrong_setting_says_so() -> None:
    done = purge("--upstream", "redis://127.0.0.1:1", "--nosuch", "x")
    assert done.returncode == 2
    assert "--nosuch: unknown flag" in done.stderr


def test_a_purge_looks_first(start_server: StartServer) -> None:
    server = start_server()
    client = Client(server.port)
    client.ask("MSET", "__ttl:schedule", 1, "__ttl:x", 2, "mine", 3)
    at = ("--upstream", server.url)
    tried = _purge(*at)
    assert (tried.returncode, tried.stderr) == (0, "")
    assert tried.stdout.splitlines() == [
        "database 0: 2 internal keys would be removed",
        "nothing was changed; --apply does it",
    ]
    assert client.ask("DBSIZE") == 3
    assert purge(*at).stdout == "database 0: 2 internal keys removed\n"
    assert client.ask("KEYS", "*") == [b"mine"]
    client.ask("FLUSHALL")
    client.close()
    assert purge(*at).stdout == "there are no keys at all\n"


def test_a_purge_does_not_take_the_embedded_redis_unless_that_is_said(tmp_path: Path) -> None:
    unnamed = purge()
    assert (unnamed.returncode, unnamed.stdout) == (2, "")
    assert "name the Redis with --upstream" in unnamed.stderr
    assert purge("--data-dir", str(tmp_path)).stdout == "there are no keys at all\n"
