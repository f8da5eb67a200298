"""A key that has no deadlines any more becomes unmanaged long before they would have been due."""

import pytest

from tests.conftest import StartProxy
from tests.support.containers import AnyServer
from tests.support.deadlines import has_ttl
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client


def _managed(client: Connection) -> int:
    (line,) = [
        line
        for line in client.ask("INFO", "ttlproxy").split(b"\r\n")
        if line.startswith(b"managed_keys:")
    ]
    return int(line.partition(b":")[2])


@pytest.fixture
def emptied(app: Connection, direct: Client) -> Connection:
    """A client of a proxy that has just learnt that no key is managed, and will not check again."""
    app.ask("HSET", "h", "f", "v")
    assert app.ask("HEXPIREFIELD", "h", "f", 1000) == b":1\r\n"
    direct.ask("FLUSHALL")
    wait_until(lambda: _managed(app) == 0, "what was there forgotten")
    return app


# Requests on a key with a deadline, and the number of managed keys afterwards.
ENDS = {
    "DEL h": 0,
    "UNLINK none h": 0,
    "MULTI; DEL h; EXEC": 0,
    "SET h x": 0,
    "MSET none x h x": 0,
    "SINTERSTORE h none": 0,
    "SORT none STORE h": 0,
    "RENAME h other": 1,
    "RENAMENX h other": 1,
    "SET other x; RENAME other h": 0,
    "HSET other f v; COPY other h REPLACE": 0,
    "MOVE h 1": 1,
    "EVAL redis.call('del',KEYS[1]) 1 h": 0,
    "DEL h; DEL h": 0,
}


@pytest.mark.parametrize("ends", ENDS)
def test_a_key_that_has_no_deadlines_any_more_is_forgotten(emptied: Connection, ends: str) -> None:
    emptied.ask("HSET", "h", "f", "v")
    assert emptied.ask("HEXPIREFIELD", "h", "f", 1000) == b":1\r\n"
    wait_until(lambda: _managed(emptied) == 1, "it counted")
    for line in ends.split(";"):
        assert not emptied.ask(*line.split()).startswith(b"-"), line
    wait_until(lambda: _managed(emptied) == ENDS[ends], "it forgotten")


def test_deadlines_that_are_set_meanwhile_are_not_forgotten(
    emptied: Connection, direct: Client
) -> None:
    """A report that a key was deleted may be older than these deadlines."""
    keys = [f"h{number}" for number in range(50)]
    until_ms = direct.now_ms() + 1500  # several times as long as until the proxy checks
    while direct.now_ms() < until_ms:
        for key in keys:
            words = (("DEL", key), ("HSET", key, "f", "v"), ("HEXPIREFIELD", key, "f", 1000))
            emptied.send(b"".join(command(*each) for each in words))
        emptied.read_many(3 * len(keys))
        for key in keys:
            assert emptied.ask("HSET", key, "f", "anew") == b":0\r\n"
            assert emptied.ask("HTTLFIELD", key, "f") == b":-1\r\n"


def test_the_servers_own_deadlines_are_the_servers_again(
    emptied: Connection, direct: Client, server: AnyServer
) -> None:
    direct.ask("HSET", "h", "f", "v")
    if direct.ask("HPEXPIRE", "h", 100_000, "FIELDS", 1, "f") != [1]:
        pytest.skip("this server has no deadlines for hash fields")
    assert emptied.ask("HEXPIREFIELD", "h", "f", 100) == b":1\r\n"
    assert emptied.ask("DEL", "h") == b":1\r\n"
    wait_until(lambda: _managed(emptied) == 0, "it forgotten")
    assert emptied.ask("HSET", "h", "f", "v") == b":1\r\n"
    assert emptied.ask("HPEXPIRE", "h", 100_000, "FIELDS", 1, "f") == b"*1\r\n:1\r\n"
    assert has_ttl(direct.ask("HTTL", "h", "FIELDS", 1, "f")[0], 100)
    assert _managed(emptied) == 0


# Requests of others on a client's keys; each ends the key's deadlines.
ELSEWHERE = (
    ("DEL", "h1"),
    ("SET", "h2", "x"),
    ("RENAME", "h3", "other"),
    ("HDEL", "h4", "f"),
    ("UNLINK", "s1"),
)


@pytest.mark.parametrize("by", ["another proxy", "nobody's proxy"])
def test_what_others_delete_is_forgotten(
    emptied: Connection, server: AnyServer, start_proxy: StartProxy, by: str
) -> None:
    """If the server has deadlines of its own, it handles the key's fields again."""
    for name in ("h1", "h2", "h3", "h4", "stays"):
        emptied.ask("HSET", name, "f", "v")
        assert emptied.ask("HEXPIREFIELD", name, "f", 1000) == b":1\r\n"
    emptied.ask("SADDEX", "s1", 1000, "m")
    port = start_proxy(server.url).port if by == "another proxy" else server.port
    with Connection(port) as other:
        for words in ELSEWHERE:
            assert not other.ask(*words).startswith(b"-"), words
    # If a proxy renames the key, its deadlines go along.
    left = 2 if by == "another proxy" else 1
    wait_until(lambda: _managed(emptied) == left, "it forgotten")
    assert emptied.ask("HPERSISTFIELD", "stays", "f") == b":1\r\n"


def test_what_is_looked_at_again_a_page_at_a_time_is_all(
    emptied: Connection, server: AnyServer
) -> None:
    """There are more keys than fit on one page, in two databases."""
    keys = [(db, f"{db}:{number}") for db in (0, 1) for number in range(400)]
    for db in (0, 1):
        emptied.ask("SELECT", db)
        words = [("SADDEX", key, 1000, "m") for at, key in keys if at == db]
        emptied.send(b"".join(command(*each) for each in words))
        emptied.read_many(len(words))
    wait_until(lambda: _managed(emptied) == len(keys), "all counted")
    with Connection(server.port) as direct:
        for db in (0, 1):
            direct.ask("SELECT", db)
            direct.ask("DEL", *(key for at, key in keys if at == db))
    wait_until(lambda: _managed(emptied) == 0, "it forgotten")
