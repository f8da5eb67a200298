"""Requests in a row that need the same script become one call: nobody sees that but Redis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.exceptions import ResponseError

from tests.conftest import StartProxy, StartServer
from tests.support.containers import AnyServer
from tests.support.deadlines import BOUNDED
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client, Word
from tests.support.server_queries import calls, monitored
from tests.support.servers import Proxy
from ttlproxy.core.keys import Keys
from ttlproxy.scripts import Scripts
from ttlproxy.scripts.direct_calls import MOST_TOGETHER

KEYS = Keys()
FAR_MS = 4_000_000_000_000
NAMES = ("hash", "set", "zset", "list")
# What each of two keys of a type has at first, and which of it has a deadline.
FILL = (
    ("HSETEX", "hash", *BOUNDED, "PXAT", FAR_MS, "FIELDS", 2, "a", 1, "b", 2),
    ("HSET", "hash", "c", 3),
    ("SADDEX", "set", "PXAT", FAR_MS, "MEMBERS", 2, "a", "b"),
    ("SADD", "set", "c"),
    ("ZADDEX", "zset", "PXAT", FAR_MS, "MEMBERS", 2, 1, "a", 2, "b"),
    ("ZADD", "zset", 3, "c"),
    ("RPUSHEX", "list", "PXAT", FAR_MS, "ELEMENTS", 2, "a", "b"),
    ("RPUSH", "list", "c"),
)
_element = st.sampled_from(["a", "b", "c", "d", ""])
_elements = st.lists(_element, min_size=1, max_size=3)
_pairs = st.lists(st.tuples(_element, st.sampled_from(["v", "w" * 70])), min_size=1, max_size=2)
_scores = st.lists(st.tuples(st.sampled_from(["1", "-2.5", "x"]), _element), min_size=1, max_size=2)


def _flat(pairs: list[tuple[str, str]]) -> list[str]:
    return [word for pair in pairs for word in pair]


_requests = st.one_of(
    st.tuples(st.sampled_from(["HSET", "hset", "HMSET"]), _pairs.map(_flat)),
    st.tuples(st.sampled_from(["SADD", "SREM", "HDEL", "ZREM", "RPUSH", "LPUSH"]), _elements),
    st.tuples(st.just("ZADD"), _scores.map(_flat)),
    st.tuples(st.just("HSET"), st.just(["a"])),
    st.tuples(st.just("HSETEX"), st.just(["PXAT", str(FAR_MS), "FIELDS", "1", "a", "v"])),
    st.tuples(st.just("SADDEX"), st.just(["PXAT", str(FAR_MS), "MEMBERS", "1", "d"])),
    st.tuples(st.sampled_from(["HLEN", "SCARD", "GET"]), st.just([])),
)
# Mostly the same command several times; also on a key of another type, or on one that is not there.
_runs = st.tuples(_requests, st.integers(1, 4)).map(lambda run: [run[0]] * run[1])
_keys = st.sampled_from([*NAMES, *NAMES, "none"])


@pytest.fixture
def own(start_server: StartServer) -> AnyServer:
    return start_server()


@pytest.fixture
def proxy(own: AnyServer, start_proxy: StartProxy) -> Proxy:
    return start_proxy(own.url)


@pytest.fixture
def client(own: AnyServer, proxy: Proxy) -> Iterator[Client]:
    """The scripts are called by their SHA: else no requests become one call."""
    with Client(proxy.port) as client:
        client.ask("HSETEX", "k:1", *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v")
        before = calls(own.port, "evalsha")

        def is_loaded() -> bool:
            client.ask("HSET", "k:1", "g", "v")
            return calls(own.port, "evalsha") > before

        wait_until(is_loaded, "the scripts are loaded")
        yield client


def _fill(client: Client, space: str) -> None:
    client.ask_many([("DEL", f"{space}{name}") for name in (*NAMES, "none")])
    client.ask_many([(words[0], f"{space}{words[1]}", *words[2:]) for words in FILL])


def _content(direct: Client, space: str) -> list[object]:
    """What the keys hold, and which deadlines their elements have."""
    found: list[object] = []
    for name in (*NAMES, "none"):
        key = f"{space}{name}"
        index = KEYS.index(key.encode())
        found += [direct.ask("TYPE", key), direct.ask("ZRANGE", index, 0, -1, "WITHSCORES")]
        found.append(repr(direct.ask("SORT", key, "ALPHA")))
    return [*found, sorted(direct.ask("HGETALL", f"{space}hash"))]


def test_in_one_pipeline_they_do_what_they_do_one_by_one(own: AnyServer, client: Client) -> None:
    """Also those that Redis refuses."""

    @given(st.lists(st.tuples(_keys, _runs), min_size=1, max_size=4))
    def alike(parts: list[tuple[str, list[tuple[str, list[str]]]]]) -> None:
        sent = [(name, request) for name, run in parts for request in run]
        for space in ("one:", "other:"):
            _fill(client, space)
        together, alone = (
            [(request[0], f"{space}{name}", *request[1]) for name, request in sent]
            for space in ("one:", "other:")
        )
        replies = list(map(repr, client.ask_many(together)))
        assert replies == [repr(client.ask(*words)) for words in alone]
        with Client(own.port) as direct:
            assert _content(direct, "one:") == _content(direct, "other:")

    alike()


def test_a_run_of_requests_is_one_call(own: AnyServer, client: Client) -> None:
    """Of no more than so many at once; others in between begin a new one."""
    writes = [("HSET", f"k:{number}", "f", "v") for number in range(MOST_TOGETHER + 1)]
    for chunk, count in (
        (writes[:40], 1),
        (writes, 2),
        ([*writes[:2], ("SADD", "k:set", "m"), *writes[:2]], 3),
        ([*writes[:2], ("HLEN", "k:1"), *writes[:2]], 2),
    ):
        with Connection(own.port) as monitor:
            monitor.ask("MONITOR")
            client.ask_many([*chunk, ("ECHO", "that was all")])
            seen = monitored(monitor, b'"ECHO"')
        assert sum(b'"EVALSHA"' in line and b'"k:' in line for line in seen) == count


def test_one_that_fails_stops_no_other(own: AnyServer) -> None:
    """Nor does one with more words than Lua can hand on at once."""
    scripts = Scripts(KEYS.prefix)
    members = [f"m{number}" for number in range(9000)]

    def call(script: str, keys: Sequence[bytes], *words: Word) -> list[object]:
        names = [name for key in keys for name in (key, KEYS.index(key))]
        text = scripts[script].text
        return list(direct.ask("EVAL", text, 1 + len(names), KEYS.schedule, *names, *words))

    with Client(own.port) as direct:
        direct.ask("SET", "b", "no set")
        first, refused, last = call(
            "set_add", [b"a", b"b", b"c"], 1, "m", 1, "m", len(members), *members
        )
        assert (first, last) == (1, len(members))
        assert str(refused).startswith("WRONGTYPE")
        broken, last = call("hash_setex", [b"d", b"e"], 0, 4, "0 hsetex", "0+100000", "f", "v")
        assert isinstance(broken, ResponseError)
        assert "user_script" in str(broken)
        assert last == 1


# Pipelines, each of a command that takes elements away: some find an element, and some find none.
POPS: tuple[tuple[tuple[str | int, ...], ...], ...] = (
    (("SPOP", "set", 9), ("SPOP", "set"), ("SPOP", "set", 9), ("SPOP", "none")),
    (("ZPOPMIN", "zset"), ("ZPOPMIN", "zset", 9), ("ZPOPMIN", "zset"), ("ZPOPMIN", "zset", 2)),
    (("LPOP", "list"), ("LPOP", "list", 9), ("LPOP", "list"), ("LPOP", "list", 2)),
)


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_replies_are_redis_s_own(
    own: AnyServer, proxy: Proxy, client: Client, protocol: int
) -> None:
    """Nulls, sets and pairs, too."""
    with Connection(own.port) as direct, Connection(proxy.port) as app:
        for each in (direct, app):
            each.ask("HELLO", protocol)
        _fill(client, "f:")
        assert app.ask("PING") == b"+PONG\r\n"
        for name in NAMES:
            direct.ask("COPY", f"f:{name}", f"plain:{name}")
        for pipeline in POPS:
            replies = []
            for space, each in (("f:", app), ("plain:", direct)):
                requests = [
                    command(words[0], f"{space}{words[1]}", *words[2:]) for words in pipeline
                ]
                each.send(b"".join(requests))
                replies.append(list(map(_ordered, each.read_many(len(pipeline)))))
            assert replies[0] == replies[1]


def _ordered(reply: bytes) -> list[bytes]:
    """Its lines, as those of a set come in any order."""
    return sorted(reply.split(b"\r\n")) if reply[:1] in b"~*" else [reply]


@pytest.mark.parametrize("protocol", [2, 3])
def test_each_gets_the_error_that_redis_has_for_all(
    own: AnyServer, proxy: Proxy, client: Client, protocol: int
) -> None:
    with Connection(proxy.port) as app, Connection(own.port) as direct:
        app.ask("HELLO", protocol)
        writes = [command("HSET", f"k:{number}", "f", "v") for number in range(3)]
        direct.ask("CONFIG", "SET", "maxmemory", 1)
        app.send(b"".join(writes) + command("HLEN", "k:1"))
        *refused, length = app.read_many(4)
        assert {reply.split()[0] for reply in refused} == {b"-OOM"}
        assert length == b":2\r\n"
        direct.ask("CONFIG", "SET", "maxmemory", 0)
        direct.ask("SCRIPT", "FLUSH")  # nobody has told the proxy
        app.send(b"".join(writes) + command("HLEN", "k:1"))
        *refused, length = app.read_many(4)
        assert {reply.split()[0] for reply in refused} == {b"-NOSCRIPT"}
        assert length == b":2\r\n"


def test_a_client_that_gets_no_replies_has_each_request_carried_out(
    own: AnyServer, proxy: Proxy, client: Client
) -> None:
    with Connection(proxy.port) as app, Client(own.port) as direct:
        app.send(command("CLIENT", "REPLY", "OFF"))
        writes = [command("HSET", "k:2", f"f{number}", "v") for number in range(5)]
        app.send(b"".join(writes))
        app.send(command("CLIENT", "REPLY", "ON"))
        assert app.read() == b"+OK\r\n"
        assert direct.ask("HLEN", "k:2") == 5
