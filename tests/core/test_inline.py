"""Inline requests: they are split into words as Redis does it, and these words are checked."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.support.containers import AnyServer
from tests.support.raw_client import Connection
from tests.support.servers import Proxy
from ttlproxy.wire.scanner import split_inline

UNBALANCED = b"-ERR Protocol error: unbalanced quotes in request\r\n"
INTERNAL = (
    b"-ERR this key belongs to ttlproxy; clients may use it only if show_internal_keys is set\r\n"
)

PARTS = [b'"', b"'", b"\\", b" ", b"\t", b"\v", b"\f", b"\r", b"a", b"x", b"4", b"1", b"n", b"\xff"]
# For Valkey a word that is quoted may go on with these.
GOES_ON = re.compile(rb"[\"'][\v\f]")
LINES = st.lists(st.sampled_from([*PARTS, b'" ', b"' ", b"\\x41", b"\\'", b'\\"']), max_size=12)


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tail=LINES.map(b"".join))
def test_a_line_has_the_words_that_redis_finds_in_it(plain: AnyServer, tail: bytes) -> None:
    """Redis repeats the words in its error for an unknown command. Valkey 9 takes a line that goes
    on behind a closing quote; here it is refused as in Redis."""
    assume(not (plain.name.startswith("valkey") and (GOES_ON.search(tail) or b"\xff" in tail)))
    line = b"nosuch " + tail
    words = split_inline(line)
    with Connection(plain.port) as client:
        client.send(line + b"\n")
        received = client.read()
    if words is None:
        assert received == UNBALANCED or plain.name.startswith("valkey")
        return
    shown = [word.replace(b"\r", b" ").replace(b"\n", b" ") for word in words[1:]]
    listed = received.partition(b"beginning with: ")[2].removesuffix(b"\r\n")
    quote, between = (b"`", b", ") if b"`nosuch`" in received else (b"'", b" ")
    assert listed == b"".join(quote + word + quote + between for word in shown)


@pytest.mark.parametrize(
    "line",
    [
        b"GET __ttl:lease",
        b'GET __t"tl:lease"',
        b"GET __t'tl:lease'",
        b'GET "\\_\\_ttl:lease"',
        b'GET "\\x5f_ttl:lease"',
        b'DEL a "__tt\\l:x"',
        b"SADDEX '__ttl:x' 100 a",
        b"hset __ttl:x a 1",
    ],
)
def test_no_way_to_write_an_internal_key_s_name_gets_past(app: Connection, line: bytes) -> None:
    for before in (b"", b"PING\r\n" * 2, b"*1\r\n$4\r\nPING\r\n"):
        app.send(before + line + b"\r\n")
        assert app.read_many(1 + before.count(b"PING"))[-1] == INTERNAL


@pytest.mark.parametrize(
    "line",
    [b'DEL l "q""m1"', b"HSET h 'f'x 1", b'HTTLFIELD h "f"g', b'GET k "', b'SADDEX s 9 "a"b'],
)
def test_a_line_with_unbalanced_quotes_is_refused_and_ends_the_connection(
    proxy: Proxy, server: AnyServer, line: bytes
) -> None:
    with Connection(proxy.port) as client, Connection(proxy.port) as other:
        for words in (("SADDEX", "l", 100, "m1"), ("HSETEX", "h", "EX", 9, "FIELDS", 1, "f", "v")):
            assert client.ask(*words) == b":1\r\n"
        client.send(b"PING\r\n" + line + b"\r\nDEL l h\r\n")
        assert client.read_to_end() == b"+PONG\r\n" + UNBALANCED
        assert other.ask("EXISTS", "l", "h", "s") == b":2\r\n"
