"""`ttlproxy doctor` on internal content that was damaged by hand, and its --apply."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.doctor import above_info, check, examine, of
from tests.support.redis_client import Client
from tests.support.redis_content import SCHEDULE, until_swept
from tests.support.servers import Proxy, Server
from ttlproxy.core.keys import KEY_EXPIRY, Keys
from ttlproxy.core.write_rules import name_of

FUTURE_MS = 4102444800000
KEYS = Keys()
INDEX = KEYS.index(b"k")
TYPES = {
    "hash": ("HSETEX k MAXLEN 9 EX 1000 FIELDS 2 a 1 b 2", "HDEL k a"),
    "set": ("SADDEX k 1000 a b", "SREM k a"),
    "zset": ("ZADDEX k 1000 1 a 2 b", "ZREM k a"),
    "list": ("RPUSHEX k 1000 a b", "LREM k 0 a"),
}


class World(NamedTuple):
    """A server and a proxy, a client of the server itself, and a client of the proxy."""

    server: Server
    proxy: Proxy
    direct: Client
    app: Client

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """The proxy sleeps meanwhile: otherwise it may fix what the doctor looks for."""
        os.kill(self.proxy.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.proxy.pid, signal.SIGCONT)


@pytest.fixture
def world(start_server: StartServer, start_proxy: StartProxy) -> Iterator[World]:
    server = start_server()
    proxy = start_proxy(server.url)
    with closing(Client(server.port)) as direct, closing(Client(proxy.port)) as app:
        yield World(server, proxy, direct, app)


def test_a_deadline_whose_element_is_gone_is_found_and_dropped(world: World) -> None:
    for timed, behind in TYPES.values():
        world.app.ask("DEL", "k")
        world.app.ask(*timed.split())
        with world.asleep():
            assert world.direct.ask(*behind.split()) == 1
            (found,) = examine(world.server.url, only=["content"])
        assert (found.check, str(found.severity), found.keys) == ("leftover", "warning", (b"k",))
        assert found.what == (
            "keys that have deadlines for elements that no longer exist: 1 of 1 (deadlines: 1 of 2)"
        )
        assert above_info(examine(world.server.url, fix=True)) == []
        assert world.direct.ask("ZRANGE", INDEX, 0, -1) == [b"b"]


class Damage(NamedTuple):
    """check: the name of the finding; done: damages a set with deadlines, without the proxy."""

    check: str
    severity: str
    done: Callable[[Client], object]


DAMAGES = (
    Damage("replaced", "warning", lambda direct: direct.ask("DEL", "k")),
    Damage("replaced", "warning", lambda direct: direct.ask("SET", "k", "text")),
    Damage("misplaced", "error", lambda direct: direct.ask("SET", INDEX, "text")),
    Damage("schedule", "error", lambda direct: direct.ask("DEL", SCHEDULE)),
    Damage("schedule", "error", lambda direct: direct.ask("ZADD", SCHEDULE, FUTURE_MS, "k")),
    Damage("stale", "warning", lambda direct: direct.ask("DEL", INDEX)),
    Damage("lifetime", "error", lambda direct: direct.ask("ZADD", INDEX, -FUTURE_MS, KEY_EXPIRY)),
)


def test_damage_is_found_and_fixed(world: World) -> None:
    for damage in DAMAGES:
        world.app.ask("FLUSHALL")
        world.app.ask("SADDEX", "k", 1000, "a", "b")
        world.app.ask("SADDEX", "healthy", 1000, "a", "b")
        with world.asleep():
            damage.done(world.direct)
            found = of(damage.check, examine(world.server.url, only=["content"]))
        assert (str(found.severity), b"k" in found.keys) == (damage.severity, True)
        assert check("content", world.server.url, fix=True).severity == 0
        until_swept(world.direct)


def test_proxies_learn_of_a_schedule_that_was_fixed(world: World) -> None:
    """A proxy that starts later knows a key as managed only if the schedule names it."""
    world.app.ask("SADDEX", "k", "PXAT", FUTURE_MS, "MEMBERS", 2, "a", "b")
    world.direct.ask("ZADD", INDEX, 1, "a")
    world.direct.ask("DEL", SCHEDULE)
    examine(world.server.url, fix=True)
    assert world.app.ask("SMEMBERS", "k") == [b"b"]


def test_a_sample_bounds_what_is_looked_at(world: World) -> None:
    world.app.ask_many([["SADDEX", f"k{number}", 1000, "a", "b"] for number in range(50)])
    said = check("content", world.server.url, sample=10).what
    keys, deadlines = (int(word) for word in said.split() if word.isdigit())
    assert 10 <= keys <= 20
    assert 10 <= deadlines <= 20


def test_all_is_fixed_beyond_any_sample(world: World) -> None:
    world.app.ask_many([["SADDEX", f"k{number}", 1000, *range(20)] for number in range(200)])
    world.app.ask("SADDEX", "large", 1000, *range(2000))
    world.direct.ask_many([["SREM", f"k{number}", *range(19)] for number in range(200)])
    world.direct.ask("SREM", "large", *range(1999))
    examine(world.server.url, sample=1, fix=True)
    assert check("content", world.server.url).severity == 0
    assert world.direct.ask("ZCARD", KEYS.index(b"large")) == 1


def test_a_rule_whose_destination_is_of_another_type_is_named(world: World) -> None:
    world.app.ask("ONEXPIRE", "cart:*", "XADD", "gone:%1")
    world.app.ask("ONEXPIRE", "tasks", "RPUSH", "queue")
    world.app.ask("SADDEX", "cart:7", 100, "a")
    assert check("overdue", world.server.url).severity == 0
    world.direct.ask("SET", "gone:7", "text")
    found = check("overdue", world.server.url)
    assert found.fix == "RENAMENX gone:7 gone:7:aside"
    assert (str(found.severity), found.keys) == ("error", (b"cart:7",))
    assert found.what.startswith("gone:7 in database 0 is a string")
    assert world.direct.ask(*found.fix.split()) == 1
    world.direct.ask("SADD", "queue", "a")
    assert check("overdue", world.server.url).keys == (b"tasks",)


def test_rules_of_onwrite_must_be_signed(world: World) -> None:
    world.app.ask("ONWRITE", "cart:*", "EX", 100)
    assert check("unsigned", world.server.url).severity == 0
    name = KEYS.rule(name_of(b"cart:*"))
    world.direct.ask("APPEND", name, "0")
    found = check("unsigned", world.server.url)
    assert (str(found.severity), found.keys) == ("error", (name_of(b"cart:*"),))


def test_deferred_commands_that_no_proxy_has_signed_are_counted(world: World) -> None:
    for key in ("q", "r"):
        for number in range(3):
            world.app.ask("DEFER", "EX", 1000, "ID", number, "LPUSH", key, "x")
    with world.asleep():
        assert check("unsigned", world.server.url).severity == 0
        signed = world.direct.ask("HGET", KEYS.deferred(b"q"), "0")
        forged = "return redis.call('HSET', KEYS[1], 'forged', cmsgpack.pack('', {'DEL', 'r'}))"
        assert world.direct.ask("EVAL", forged, 1, KEYS.deferred(b"r")) == 1
        assert world.direct.ask("HSET", KEYS.deferred(b"r"), "of q", signed, "junk", "x") == 2
        world.direct.ask("SET", KEYS.deferred(b"s"), "no hash")
        world.direct.ask("SADD", KEYS.others, KEYS.deferred(b"s"))
        found = check("unsigned", world.server.url)
    assert str(found.severity) == "error"
    assert found.what == "deferred commands in database 0 that no proxy has signed: 3"
    assert found.keys == (b"r",)
