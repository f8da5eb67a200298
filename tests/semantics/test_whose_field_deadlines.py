"""Where the server keeps deadlines of hash fields itself, new ones are its own as soon as the hash
has none of ttlproxy any more: after a flush, or when it was deleted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.requirements import absent
from tests.support.servers import Proxy, Server, moves_whole_slots
from ttlproxy.core.keys import Keys

pytestmark = pytest.mark.any_server


@pytest.fixture(scope="module")
def shared_native() -> Iterator[Server]:
    """A server that keeps deadlines of hash fields itself."""
    binary = moves_whole_slots()
    if binary is None:
        absent("valkey-9", "there is no server with deadlines of hash fields of its own")
    with Server(binary) as server:
        yield server


@pytest.fixture(scope="module")
def proxy(shared_native: Server) -> Iterator[Proxy]:
    with Proxy(shared_native.url, forked=True) as proxy:
        yield proxy


@pytest.fixture
def native(shared_native: Server) -> Server:
    """It is empty, and shared by the tests of this file."""
    with Connection(shared_native.port) as direct:
        direct.ask("FLUSHALL")
    return shared_native


SETTERS = [
    "HEXPIRE h 100 FIELDS 1 a",
    "HPEXPIRE h 100000 NX FIELDS 2 a none",
    "HEXPIREAT h {s} FIELDS 1 a",
    "HPEXPIREAT h {s}000 LT FIELDS 1 a",
    "HSETEX h EX 100 FIELDS 2 a 1 b 2",
    "HSETEX h FXX PX 100000 FIELDS 1 a 2",
    "HSETEX h PXAT {s}000 FIELDS 1 a 2",
    "HGETEX h EX 100 FIELDS 2 none a",
    "HGETEX h EXAT {s} FIELDS 1 a",
]
BEFORE = {
    "another key had some": "SADDEX s 100 a",
    "it had some of the proxy's": "HSETEX h MAXLEN 9 EX 100 FIELDS 1 a 1",
    "a rule was for it": "ONEXPIRE h RPUSH out",
}
FLUSHED_BY = ["itself", "another client", "a client of Redis"]


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("by", FLUSHED_BY)
def test_a_deadline_set_right_after_a_flush_is_the_servers(
    proxy: Proxy, native: Server, before: str, by: str
) -> None:
    """Whatever the proxy still believes of the key."""
    with Client(proxy.port) as app, Client(proxy.port) as other, Client(native.port) as direct:
        flushes = dict(zip(FLUSHED_BY, (app, other, direct), strict=True))[by]
        for setter in SETTERS:
            app.ask(*before.split())
            flushes.ask("FLUSHALL")
            app.ask("HSET", "h", "a", 1)
            before_ms = direct.now_ms()
            app.ask(*setter.format(s=before_ms // 1000 + 100).split())
            (at_ms,) = direct.ask("HPEXPIRETIME", "h", "FIELDS", 1, "a")
            assert before_ms - 1000 <= at_ms - 100_000 <= direct.now_ms(), setter
            assert direct.ask("EXISTS", Keys().index(b"h")) == 0, setter


@pytest.mark.parametrize("flush", ["FLUSHDB", "FLUSHALL ASYNC", "MULTI|FLUSHALL|EXEC"])
def test_so_is_one_in_the_same_pipeline(proxy: Proxy, native: Server, flush: str) -> None:
    lines = ["SADDEX s 100 a", *flush.split("|"), "HSET h a 1", "HEXPIRE h 100 FIELDS 1 a"]
    with Connection(proxy.port) as app, Connection(native.port) as direct:
        app.send(b"".join(command(*line.split()) for line in lines))
        assert app.read_many(len(lines))[-1] == b"*1\r\n:1\r\n"
        assert direct.ask("HTTL", "h", "FIELDS", 1, "a") == b"*1\r\n:100\r\n"


def test_keeping_and_removing_is_left_to_it_too(proxy: Proxy, native: Server) -> None:
    with Client(proxy.port) as app, Client(native.port) as direct:
        app.ask("HSETEX", "h", "MAXLEN", 9, "EX", 100, "FIELDS", 1, "a", 1)
        app.ask("FLUSHALL")
        assert app.ask("HSETEX", "h", "EX", 100, "FIELDS", 2, "a", 1, "b", 2) == 1
        assert app.ask("HSETEX", "h", "KEEPTTL", "FIELDS", 1, "a", 2) == 1
        assert app.ask("HGETEX", "h", "PERSIST", "FIELDS", 1, "b") == [b"2"]
        assert app.ask("HGETEX", "h", "FIELDS", 1, "a") == [b"2"]
        left, none = direct.ask("HTTL", "h", "FIELDS", 2, "a", "b")
        assert left > 0
        assert none == -1


@pytest.mark.parametrize("name", ["HEXPIRE", "HSETEX", "HGETEX"])
def test_a_user_without_the_right_gets_the_servers_error(
    proxy: Proxy, native: Server, name: str
) -> None:
    line = f"{name} h {'100' if name == 'HEXPIRE' else 'EX 100'} FIELDS 1 a"
    words = [*line.split(), *(["1"] if name == "HSETEX" else [])]
    with Connection(proxy.port) as app, Connection(native.port) as direct:
        direct.ask("ACL", "SETUSER", "u", "on", ">w", "~*", "&*", "+@all", f"-{name}")
        app.ask("HSETEX", "h", "MAXLEN", 9, "EX", 100, "FIELDS", 1, "a", 1)
        app.ask("DEL", "h")
        for client in (app, direct):
            client.ask("AUTH", "u", "w")
        assert app.ask(*words) == direct.ask(*words)


def test_a_rule_that_is_set_after_the_flush_counts(proxy: Proxy, native: Server) -> None:
    with Client(proxy.port) as app, Client(native.port) as direct:
        for _ in range(10):
            app.ask("FLUSHALL")
            app.ask("HSET", "h", "a", 1)
            app.ask("ONEXPIRE", "h", "RPUSH", "out")
            app.ask("HPEXPIRE", "h", 1, "FIELDS", 1, "a")
            wait_until(lambda: direct.ask("LRANGE", "out", 0, -1) == [b"1"], "it handed on")


@pytest.mark.parametrize(
    "end",
    [
        "DEL h",
        "UNLINK h",
        "HDEL h a",
        "HPERSISTFIELD h a",
        "HSET h a 2",
        "SET h x|DEL h",
        "RENAME h other",
        "HSET other f v|RENAME other h",
        "HSET other f v|COPY other h REPLACE",
        "MULTI|DEL h|EXEC",
        "PEXPIRE h 0",
    ],
)
def test_a_deadline_set_when_those_of_the_proxy_are_gone_is_the_servers(
    proxy: Proxy, native: Server, end: str
) -> None:
    with Client(proxy.port) as app, Client(proxy.port) as other, Client(native.port) as direct:
        app.ask("HSETEX", "h", "MAXLEN", 9, "EX", 100, "FIELDS", 1, "a", 1)
        for line in end.split("|"):
            app.ask(*line.split())
        other.ask("HSET", "h", "a", 1)
        assert other.ask("HEXPIRE", "h", 100, "FIELDS", 1, "a") == [1]
        assert direct.ask("HTTL", "h", "FIELDS", 1, "a")[0] > 0
        assert direct.ask("EXISTS", Keys().index(b"h")) == 0
