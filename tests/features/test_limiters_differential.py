"""INCREX has the same replies here as on a Redis 8 that the tester names.

All fractions are exact in binary: with others, rounding decides whether a sum reaches a bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data_path.test_differential import both_protocols, generated
from tests.support.containers import AnyServer
from tests.support.raw_client import Connection, command
from tests.support.requirements import absent
from tests.support.servers import Proxy, Server, find_binaries

SINCE = (8, 8)
LIMITS = [str(limit + by) for limit in (-(2**63), 2**63 - 1, 2**53) for by in (-1, 0, 1)]
INTEGERS = st.sampled_from(["0", "1", "-1", "5", "-7", "100", *LIMITS])
FLOATS = st.sampled_from(
    ["0", "-0.0", "0.5", "-0.75", "1e3", "0x10", "+2.", ".25", "1e-20", "-12345.0625", "3"]
)
BAD = st.sampled_from(["x", "", "01", " 1", "1.5", "nan", "1e5000", "inf", "-inf", "1e-5000"])
EXPIRIES = [
    *(["EX", "1000"], ["ex", "0"], ["PX", "1000000"], ["PX", "x"], ["EX", "-1"]),
    *(["EXAT", "4102444800"], ["EXAT", "1"], ["PXAT", "4102444800123"], ["PXAT", "0"]),
    *(["PXAT", str(2**63 - 1)], ["PX", str(2**63 - 1)], ["EX", "9223372036854776"]),
    *(["PERSIST"], ["persist"], ["EX"]),
]
PLAIN = ["DEL n", "GET n", "GET f", "DEL f", "EXISTS n f none", "PTTL n", "PTTL f", "SET n 5",
         "SET f 1.5", "SET f 1e2", "SET n 05", f"SET n {2**63 - 2}", "SET f x",
         "PERSIST n"]  # fmt: skip
# Times that depend on when the command ran.
RELATIVE = re.compile(rb":(99\d{4}|1000000|\d{13}|922337[01]\d{12})\r\n")
# Integers that Lua cannot hold are bulk strings; its doubles have all their digits.
LARGE = re.compile(rb"\$\d+\r\n(-?\d{16,19})\r\n")
DOUBLE = re.compile(rb",([^\r]*)\r\n")


@st.composite
def _request(draw: st.DrawFn) -> list[str]:
    if draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from(PLAIN)).split()
    is_float = draw(st.integers(0, 2)) == 0
    good = FLOATS if is_float else INTEGERS
    number = st.one_of(*[good] * 12, BAD)
    options = [["BYFLOAT" if is_float else draw(st.sampled_from(["BYINT", "byint"])), draw(number)]]
    if not is_float and draw(st.booleans()):
        options = []
    for chance, option in (
        (2, ["LBOUND", draw(number)]),
        (2, ["UBOUND", draw(number)]),
        (2, ["SATURATE"]),
        (2, draw(st.sampled_from(EXPIRIES))),
        (4, ["ENX"]),
        (20, ["WORD"]),
        (20, ["BYINT", "1"]),
        (20, draw(st.sampled_from(EXPIRIES))),
    ):
        if draw(st.integers(1, chance)) == 1:
            options.append(option)
    shuffled = draw(st.permutations(options))
    key = draw(st.sampled_from(["f" if is_float else "n"] * 6 + ["none", "set", "n", "f"]))
    return ["INCREX", key, *(word for option in shuffled for word in option)]


@pytest.fixture(scope="module")
def redis_8() -> Iterator[Server]:
    """A Redis that has the command, whatever server is behind the proxy."""
    named = [each for each in find_binaries().values() if each.name[0].isdigit()]
    fit = [each for each in named if tuple(map(int, each.name.split("."))) >= SINCE]
    if not fit:
        absent("redis-8", "no Redis from 8.8 on (TTLPROXY_TEST_REDIS can name one)")
    with Server(fit[0]) as server:
        yield server


def _said(port: int, hello: bytes, requests: list[list[str]]) -> list[bytes]:
    with Connection(port) as client:
        setup = [command("FLUSHALL"), command("SADD", "set", "x"), hello or command("PING")]
        client.send(b"".join([*setup, *(command(*words) for words in requests)]))
        return client.read_many(len(setup) + len(requests))[len(setup) :]


def _alike(reply: bytes) -> bytes:
    reply = RELATIVE.sub(b":N\r\n", LARGE.sub(rb":\1\r\n", reply))
    return DOUBLE.sub(lambda found: b",%r\r\n" % float(found[1]), reply)


@both_protocols
@generated
@given(requests=st.lists(_request(), max_size=25))
def test_increx_answers_as_redis_8(
    redis_8: Server, server: AnyServer, proxy: Proxy, hello: bytes, requests: list[list[str]]
) -> None:
    expected, got = (_said(port, hello, requests) for port in (redis_8.port, proxy.port))
    for words, theirs, ours in zip(requests, expected, got, strict=True):
        assert _alike(ours) == _alike(theirs), words
