"""The same bytes, sent to Redis and through the proxy, get the same replies. Knows commands only
as generated rows, and no replies."""

import os
import re
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.support.containers import AnyServer
from tests.support.native_commands import KEYS, POOLS
from tests.support.raw_client import Connection, Framer, command
from tests.support.request_streams import QUIT, SEEDS, pieces, pipeline
from tests.support.servers import Proxy
from ttlproxy import errors

pytestmark = pytest.mark.long

EXAMPLES = int(os.environ.get("TTLPROXY_EXAMPLES", "100"))
CUTS = st.lists(st.floats(0, 1), max_size=12)
CLIENT_ID = re.compile(rb"(\$2\r\nid\r\n):\d+\r\n")
OFFSET = re.compile(rb"(\$6\r\nmaster\r\n):\d+\r\n")
# It comes as soon as a key expires, and through the proxy also for a deadline.
INVALIDATION = re.compile(rb">2\r\n\$10\r\ninvalidate\r\n(?:_|\*1\r\n\$\d+\r\n[^\r]*)\r\n")
# WATCH as an array of bulks, or in a line.
WATCH = re.compile(rb"(?i)\$5\r\nwatch|\bwatch")
# If Redis refuses a rewritten command to a RESP2 subscriber, its error names the script.
REFUSED_NAME = re.compile(rb"(Can't execute )'[^']+'")
FAR_MS = 4_102_444_800_000
# What a client begins with.
PROTOCOLS = {"RESP2": b"", "RESP3": command("HELLO", "3")}
PROTOCOL = st.sampled_from([*PROTOCOLS.values()])

Connect = Callable[[], Connection]

generated = settings(
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)
both_protocols = pytest.mark.parametrize("hello", PROTOCOLS.values(), ids=PROTOCOLS.keys())


# Limits of docs/limits.md: where a rule of ONWRITE matches a hash; in a MULTI, before Redis 7.0.
LIMITS = re.compile(
    rb"-ERR (?:ttlproxy cannot do HINCRBY beyond 2\^53 where a rule of ONWRITE matches the key"
    rb"|unknown command `%s`, with args beginning with: )\r\n" % errors.UNCOUNTED_IN_MULTI
)


def masked(replies: bytes) -> bytes:
    """Replies without what differs between servers: the client's id in HELLO, the offset of
    replication in ROLE, the name of a command that was refused, and invalidations."""
    replies = INVALIDATION.sub(b"", replies)
    replies = CLIENT_ID.sub(rb"\1:ID\r\n", replies)
    replies = OFFSET.sub(rb"\1:OFFSET\r\n", replies)
    return REFUSED_NAME.sub(rb"\1", replies)


def everything(connect: Connect, parts: list[bytes]) -> bytes:
    """All bytes until the connection ends, masked."""
    with connect() as client:
        for part in parts:
            client.send(part)
        return masked(client.read_to_end())


def alike(plain: AnyServer, connect: Connect, parts: list[bytes]) -> bool:
    """Compares a Redis without a proxy with the proxy that `connect` reaches. Returns whether all
    was compared: behind one of LIMITS, both go on with other data."""
    expected, got = (everything(each, parts) for each in (partial(Connection, plain.port), connect))
    if limit := LIMITS.search(got):  # what comes before it is as ever
        got = got[: limit.start()]
        expected = expected[: len(got)]
    if got != expected:  # cut into replies, so that the difference can be read
        framers = Framer(), Framer()
        replies = [framer.feed(each) for framer, each in zip(framers, (got, expected), strict=True)]
        assert [*replies[0], framers[0].rest] == [*replies[1], framers[1].rest]
    return limit is None


def empty(*servers: AnyServer) -> None:
    """Empties the servers, and loads the script that streams call by its digest."""
    for server in servers:
        with Connection(server.port) as client:
            assert client.ask("FLUSHALL") == b"+OK\r\n"
            client.ask("FUNCTION", "FLUSH")
            client.ask("ACL", "DELUSER", "someone")  # a transaction makes it at one master
            client.ask("SCRIPT", "LOAD", "return(1)--d")


def _manage_elsewhere(plain: AnyServer, proxy: Proxy) -> None:
    alike(plain, partial(Connection, proxy.port), [command("SADD", "elsewhere", 1, 2) + QUIT])
    with Connection(proxy.port) as client:
        assert client.ask("SPEXPIREATMEMBER", "elsewhere", 1, FAR_MS) == b":1\r\n"


@generated
@given(managed=st.booleans(), hello=PROTOCOL, seeds=SEEDS, cuts=CUTS)
def test_any_native_command_answers_as_without_the_proxy(
    plain: AnyServer,
    server: AnyServer,
    proxy: Proxy,
    managed: bool,
    hello: bytes,
    seeds: list[int],
    cuts: list[float],
) -> None:
    empty(plain, server)
    if managed:
        _manage_elsewhere(plain, proxy)
    alike(
        plain, partial(Connection, proxy.port), pieces(hello + pipeline(server.name, seeds), cuts)
    )


@generated
@given(hello=PROTOCOL, before=SEEDS, seeds=SEEDS, cuts=CUTS)
def test_a_deadline_far_away_changes_no_reply_of_a_native_command(
    plain: AnyServer,
    server: AnyServer,
    proxy: Proxy,
    hello: bytes,
    before: list[int],
    seeds: list[int],
    cuts: list[float],
) -> None:
    """The same streams go to Redis and to the proxy. After the first, half of the elements get
    deadlines, only behind the proxy. The second stream and a look at all data find no
    difference."""
    empty(plain, server)
    connect = partial(Connection, proxy.port)
    assume(alike(plain, connect, [pipeline(server.name, before)]))
    alike(plain, connect, [FILL])
    give_deadlines(proxy)
    assume(alike(plain, connect, pieces(hello + pipeline(server.name, seeds), cuts)))
    alike(plain, connect, [LOOK])


@generated
@given(mode=st.sampled_from(["NOLOOP", "OPTIN", "OPTOUT"]), hello=PROTOCOL, seeds=SEEDS, cuts=CUTS)
def test_a_client_that_caches_gets_the_same_replies(
    plain: AnyServer,
    server: AnyServer,
    proxy: Proxy,
    mode: str,
    hello: bytes,
    seeds: list[int],
    cuts: list[float],
) -> None:
    empty(plain, server)
    alike(plain, partial(Connection, proxy.port), [FILL])
    give_deadlines(proxy)
    stream = command("CLIENT", "TRACKING", "ON", mode) + pipeline(server.name, seeds)
    alike(plain, partial(Connection, proxy.port), pieces(hello + stream, cuts))


@generated
@given(refresh=st.sampled_from([[], ["REFRESH"]]), hello=PROTOCOL, seeds=SEEDS, cuts=CUTS)
def test_rules_of_onwrite_change_no_reply_of_a_native_command(
    plain: AnyServer,
    server: AnyServer,
    proxy: Proxy,
    refresh: list[str],
    hello: bytes,
    seeds: list[int],
    cuts: list[float],
) -> None:
    empty(plain, server)
    alike(plain, partial(Connection, proxy.port), [FILL])
    with Connection(proxy.port) as client:
        for db in POOLS["db"]:
            client.ask("SELECT", db)
            assert client.ask("ONWRITE", "*", "EX", 1_000_000, *refresh) == b"+OK\r\n"
    # WATCH notices a deadline that a rule gives soon after the write (docs/write-rules.md).
    stream = WATCH.sub(
        lambda found: b"$6\r\nEXISTS" if found[0].startswith(b"$") else b"EXISTS",
        pipeline(server.name, seeds),
    )
    assume(alike(plain, partial(Connection, proxy.port), pieces(hello + stream, cuts)))
    alike(plain, partial(Connection, proxy.port), [LOOK])


# For each type: the command that sets deadlines, its keyword, its keys, its elements.
DATED = [
    ("HPEXPIREATFIELD", "FIELDS", "hash", "field"),
    ("SPEXPIREATMEMBER", "MEMBERS", "set", "number"),
    ("ZPEXPIREATMEMBER", "MEMBERS", "zset", "field"),
    ("ZPEXPIREATMEMBER", "MEMBERS", "geo", "field"),
    ("LPEXPIREATELEMENT", "ELEMENTS", "list", "value"),
]
FILL = (
    command("DEL", "h1", "s1", "z1", "l1")
    + command("HSET", "h1", "f1", "1", "f2", "2.5", "f3", "three")
    + command("SADD", "s1", 0, 1, 2, 3)
    + command("ZADD", "z1", 1, "f1", "1.5", "f2", "inf", "f3")
    + command("RPUSH", "l1", "", "a", "value", "10", "a")
    + QUIT
)
LOOK = (
    b"".join(
        command("SELECT", db)
        + command("DBSIZE")
        + b"".join(
            command(*words)
            for key in sorted({*POOLS["any"], *(key for pool in KEYS for key in POOLS[pool])})
            for words in [
                ("TYPE", key),
                ("PEXPIRETIME", key),
                ("HGETALL", key),
                ("SMEMBERS", key),
                ("ZRANGE", key, 0, -1, "WITHSCORES"),
                ("LRANGE", key, 0, -1),
                ("GET", key),
            ]
        )
        for db in POOLS["db"]
    )
    + QUIT
)


def give_deadlines(proxy: Proxy, databases: Sequence[bytes] = POOLS["db"]) -> None:
    """In these databases every second element gets a deadline in the year 2100."""
    requests: list[tuple[bytes | str | int, ...]] = [
        (name, key, FAR_MS, keyword, len(POOLS[elements][::2]), *POOLS[elements][::2])
        for name, keyword, keys, elements in DATED
        for key in POOLS[keys]
    ]
    for db in databases:
        with Connection(proxy.port) as client:
            asked = [("SELECT", db), *requests]
            client.send(b"".join(command(*words) for words in asked))
            replies = dict(zip(asked, client.read_many(len(asked)), strict=True))
        if db == b"0":
            dated = {words[1] for words in requests if b":1\r\n" in replies[words]}
            assert dated >= {b"h1", b"s1", b"l1"}, replies
