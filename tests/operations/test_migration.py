"""What version 0.1 has left in Redis still works under a proxy of this version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.processes import wait_until
from tests.support.redis_client import Client
from tests.support.redis_content import STATE
from tests.support.servers import Server
from tests.support.version_01 import leave_count, leave_deferred, leave_kept, leave_rule
from ttlproxy.core.keys import Keys

KEYS = Keys()
FAR_MS = 4_000_000_000_000


def _leave(direct: Client, other: Client) -> None:
    """Writes something of each kind, in two databases."""
    direct.ask("SET", "__ttl:layout", 1)
    direct.ask("SET", "__ttl:serial", 7)
    for db in (direct, other):
        leave_rule(db, "s:*", b"RPUSH - 0", b"late")
        leave_rule(db, "busy", b"RPUSH - 3", b"todo", b"dead")
        leave_rule(db, "kept", b"KEEP - 0", b"")
        for number in range(1200):
            words = ("LPUSH", "q", f"{number}")
            leave_deferred(db, b"q", f"{number:016}", FAR_MS, *words)
        leave_deferred(db, b"a{b}c", "x", FAR_MS, "DEL", "a{b}c")
        leave_kept(db, b"kept", "element", "value", 1_700_000_000_000)
        leave_count(db, b"busy", b"job\x00:1", 2)
        db.ask("SET", "k", "v")


@pytest.fixture
def old(start_server: StartServer) -> Iterator[tuple[Server, Client, Client]]:
    server = start_server()
    with closing(Client(server.port)) as direct, closing(Client(server.port, 3)) as other:
        _leave(direct, other)
        yield server, direct, other


@pytest.mark.parametrize("kills", [0, 3])
def test_rules_deferred_commands_and_counts_are_taken_over(
    old: tuple[Server, Client, Client], start_proxy: StartProxy, kills: int
) -> None:
    """Even if proxies are killed during it: what was done before a kill is not done again."""
    server, direct, other = old
    for _ in range(kills):
        with closing(Client(server.port)) as killer:
            killed = start_proxy(server.url)
            killer.ask("HDEL", STATE, "layout")  # as if it had been killed before that
            killed.kill()
    proxy = start_proxy(server.url)
    for db, past in ((0, direct), (3, other)):
        with closing(Client(proxy.port, db)) as app:
            assert [words[0] for words in app.ask("ONEXPIRE")] == [b"busy", b"kept", b"s:*"]
            assert app.ask("DBSIZE") == 1
            assert len(app.ask("DEFERRED", "q")) == 1200
            assert app.ask("DEFERRED", "a{b}c")[0][2:] == [b"DEL", b"a{b}c"]
            assert app.ask("TAKE", "kept") == [[b"element", b"value", 1_700_000_000_000]]
            app.ask("SADDEX", "s:1", "PX", 1, "MEMBERS", 1, "m")
            app.ask("SADDEX", "busy", "PX", 1, "MEMBERS", 1, "job\x00:1")
            wait_until(lambda: app.ask("LLEN", "late") == 1, "the rule in force")
            wait_until(lambda: app.ask("LLEN", "todo") == 1, "the third time")
            app.ask("SADDEX", "busy", "PX", 1, "MEMBERS", 1, "job\x00:1")
            wait_until(lambda: app.ask("LLEN", "dead") == 1, "the count goes on")
            later = KEYS.deferred(b"q")
            for number in range(1200):
                past.ask("ZADD", KEYS.index(later), 1 + number, f"{number:016}")
            announcement = KEYS.announcement(db, 1, later)
            past.ask("ZADD", KEYS.schedule, 1, later)
            past.ask_many([("SET", announcement, ""), ("DEL", announcement)])
            wait_until(lambda: app.ask("LLEN", "q") == 1200, "all carried out")
            assert app.ask("DEFERRED", "q") == []
            assert app.ask("LINDEX", "q", -1) == b"0"
        names = ("serial", "deferring", "keeping", "counts")
        assert past.ask("EXISTS", *(f"__ttl:{name}" for name in names)) == 0
    assert direct.ask("GET", "__ttl:layout") == b"2", "so that version 0.1 does not start"


def test_what_is_not_of_version_01_is_signed_by_nobody(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """On a server where clients have narrow rights, a client may write to the list of rules."""
    server = start_server()
    with closing(Client(server.port)) as direct:
        direct.ask("ACL", "SETUSER", "alice", "on", "nopass", "+@all", "~alice:*", "~__ttl:*")
        leave_rule(direct, "s:*", b"RPUSH - 0", b"late")
        with closing(Client(start_proxy(server.url).port)) as app:
            app.ask("SADDEX", "s:1", "PX", 1, "MEMBERS", 1, "m")
            wait_until(lambda: direct.ask("EXISTS", "s:1") == 0, "it deleted")
            assert direct.ask("EXISTS", "late", KEYS.rule(b"s:*")) == 0
