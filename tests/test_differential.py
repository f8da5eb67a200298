"""The same bytes sent to Redis and through the proxy bring the same bytes back. Knows commands only
as generated rows, and replies not at all."""

import os
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.containers import AnyServer
from tests.raw import Connection, Framer, command
from tests.servers import Proxy
from tests.streams import SEEDS, pieces, pipeline

EXAMPLES = int(os.environ.get("TTLPROXY_EXAMPLES", "100"))
CUTS = st.lists(st.floats(0, 1), max_size=12)
CLIENT_ID = re.compile(rb"(\$2\r\nid\r\n):\d+\r\n")
# A rewritten command that Redis refuses to a RESP2 subscriber is refused under the script's name.
REFUSED_NAME = re.compile(rb"(Can't execute )'\w+'")
FAR_MS = 4_102_444_800_000
PROTOCOLS = {"RESP2": b"", "RESP3": command("HELLO", "3")}

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


def _everything(port: int, parts: list[bytes]) -> bytes:
    """What comes back until the connection ends; HELLO's client id is another in every server."""
    with Connection(port) as client:
        for part in parts:
            client.send(part)
        return CLIENT_ID.sub(rb"\1:ID\r\n", client.read_to_end())


def _alike(plain: AnyServer, proxy: Proxy, parts: list[bytes]) -> None:
    expected, got = (
        REFUSED_NAME.sub(rb"\1", _everything(port, parts)) for port in (plain.port, proxy.port)
    )
    if got != expected:  # cut into replies, for a difference one can read
        framers = Framer(), Framer()
        replies = [framer.feed(each) for framer, each in zip(framers, (got, expected), strict=True)]
        assert [*replies[0], framers[0].rest] == [*replies[1], framers[1].rest]


def _empty(*servers: AnyServer) -> None:
    for server in servers:
        with Connection(server.port) as client:
            assert client.ask("FLUSHALL") == b"+OK\r\n"


@both_protocols
@generated
@given(seeds=SEEDS, cuts=CUTS)
def test_any_native_command_answers_as_without_the_proxy(
    plain: AnyServer,
    server: AnyServer,
    proxy: Proxy,
    hello: bytes,
    seeds: list[int],
    cuts: list[float],
) -> None:
    _empty(plain, server)
    _alike(plain, proxy, pieces(hello + pipeline(server.name, seeds), cuts))


@both_protocols
@generated
@given(seeds=SEEDS, cuts=CUTS)
def test_any_native_command_answers_alike_while_another_key_is_managed(
    plain: AnyServer,
    server: AnyServer,
    proxy: Proxy,
    hello: bytes,
    seeds: list[int],
    cuts: list[float],
) -> None:
    _empty(plain, server)
    _manage(proxy, "elsewhere-hash", "elsewhere-set")
    _alike(plain, proxy, pieces(hello + pipeline(server.name, seeds), cuts))


@both_protocols
@generated
@given(seeds=SEEDS, cuts=CUTS)
def test_a_deadline_far_away_changes_no_reply_of_a_native_command(
    plain: AnyServer,
    server: AnyServer,
    proxy: Proxy,
    hello: bytes,
    seeds: list[int],
    cuts: list[float],
) -> None:
    _empty(plain, server)
    for port in (plain.port, proxy.port):
        with Connection(port) as client:
            client.send(_filled("h1", "s1") + _filled("h2", "s2"))
            client.read_many(4)
    _manage(proxy, "h1", "s1")
    _manage(proxy, "h2", "s2")
    _alike(plain, proxy, pieces(hello + pipeline(server.name, seeds), cuts))


def _filled(hash_key: str, set_key: str) -> bytes:
    return command("HSET", hash_key, "f1", "1", "f2", "2.5", "f3", "three") + command(
        "SADD", set_key, 1, 2, 3
    )


def _manage(proxy: Proxy, hash_key: str, set_key: str) -> None:
    """Every second element of these two keys gets a deadline in the year 2100."""
    with Connection(proxy.port) as client:
        client.send(
            _filled(hash_key, set_key)
            + command("HPEXPIREATFIELD", hash_key, FAR_MS, "FIELDS", 2, "f1", "f3")
            + command("SPEXPIREATMEMBER", set_key, FAR_MS, "MEMBERS", 2, 1, 3)
        )
        assert client.read_many(4)[2:] == [b"*2\r\n:1\r\n:1\r\n"] * 2
