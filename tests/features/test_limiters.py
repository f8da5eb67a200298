"""CL.THROTTLE and INCREX: buckets and counters in plain string keys, exact in every digit."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from fractions import Fraction

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.conversation import Talk
from tests.support.error_texts import NOT_AN_INTEGER, WRONGTYPE
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import SHARED
from ttlproxy.commands import Native, Router
from ttlproxy.commands.features.limiters import VIRTUALS
from ttlproxy.commands.spec import FIRST
from ttlproxy.core.keys import Keys
from ttlproxy.scripts import Scripts
from ttlproxy.scripts.script_calls import ScriptCalls

# --- CL.THROTTLE


def test_a_bucket_that_is_full_again_leaves_nothing(client: Client, direct: Client) -> None:
    requests = [("CL.THROTTLE", "b", 0, 50, 1), ("PTTL", "b")]
    said, left_ms = client.ask_many(requests, transaction=True)
    assert said == [0, 1, 0, -1, 1]
    assert 0 <= left_ms <= 21  # rounded up to the next ms
    until_ms = direct.now_ms() + 22
    while direct.now_ms() < until_ms:
        pass
    assert direct.ask("EXISTS", "b") == 0


@dataclass
class _Bucket:
    """The algorithm in exact fractions of a second, like redis-cell's RateLimiter."""

    max_burst: int
    count: int
    period: int
    full: Fraction = Fraction(0)

    def take(self, now: Fraction, quantity: int) -> list[int]:
        interval = Fraction(self.period, self.count)
        burst, cost = interval * (self.max_burst + 1), interval * quantity
        full = max(self.full, now)
        wait = full + cost - burst - now
        if wait <= 0:
            full += cost
            self.full = full
        left = max(burst - (full - now), Fraction(0))
        retry = _seconds(wait) if wait > 0 and cost <= burst else -1
        return [int(wait > 0), self.max_burst + 1, left // interval, retry, _seconds(full - now)]


def _seconds(time: Fraction) -> int:
    return math.ceil(Fraction(math.floor(time * 1000), 1000))


class _Clocked:
    """CL.THROTTLE's script with a clock that the test sets."""

    def __init__(self, server: Client) -> None:
        scripts = Scripts(b"__ttl:")
        text = scripts["string_throttle"].text
        asks = b"redis.call('TIME')"
        assert text.count(asks) == 1
        self._server = server
        self._text = text.replace(asks, b"{ARGV[2], ARGV[3]}")
        self._script_calls = ScriptCalls(scripts, Keys(b"__ttl:"), lambda: b"")

    def words(self, now_us: int, words: list[bytes]) -> tuple[bytes | int, ...]:
        (row,) = (row for row in VIRTUALS if row.name == "CL.THROTTLE")
        _, _, *call = self._script_calls.words(row.plan(words), b"0")
        return (b"EVAL", self._text, *call, *divmod(now_us, 1_000_000))


YEAR_2100_US = 4_102_444_800_000_000


def test_ten_thousand_decisions_agree_with_exact_fractions(direct: Client) -> None:
    draw = random.Random(5)
    clocked = _Clocked(direct)
    now_us, requests, expected = YEAR_2100_US, [], []
    buckets = [_Bucket(*each) for each in RATES] + [
        _Bucket(draw.randrange(100), draw.randint(1, 10_000), draw.randint(1, 10_000))
        for _ in range(50)
    ]
    for _ in range(10_000):
        number = draw.randrange(len(buckets))
        bucket = buckets[number]
        interval_us = bucket.period * 1_000_000 / bucket.count
        now_us += draw.choice([0, 0, 1, draw.randrange(1000), int(draw.random() * interval_us)])
        quantity = draw.choice([0, 1, 1, 1, 2, bucket.max_burst, bucket.max_burst + 1])
        quantity += draw.randrange(50) == 0
        rate = (bucket.max_burst, bucket.count, bucket.period, quantity)
        words = [b"CL.THROTTLE", b"b%d" % number, *(b"%d" % each for each in rate)]
        requests.append(clocked.words(now_us, words))
        expected.append(bucket.take(Fraction(now_us, 1_000_000), quantity))
    for at, reply in enumerate(direct.ask_many(requests)):
        assert reply == expected[at], (at, requests[at][4:])
    assert sum(each[0] for each in expected) in range(1000, 9000)


RATES = [
    (0, 8000, 1),
    (100, 8000, 1),
    (15, 30, 60),
    (0, 3, 1),
    (6, 7, 1),
    (2**20, 999_983, 1),
    (999, 2**31 - 1, 86_400),
    (2**31 - 2, 2**31 - 1, 1),
    (7, 1, 31_536_000),
]


def test_a_bucket_of_another_rate_is_full_in_the_first_whole_microsecond(direct: Client) -> None:
    """5/7 s are 714,285.71 us; the other rate counts in whole ones."""
    clocked, now_us = _Clocked(direct), YEAR_2100_US
    direct.ask(*clocked.words(now_us, b"CL.THROTTLE b 9 7 1 5".split()))
    one = b"CL.THROTTLE b 0 1 1 1".split()
    replies = [
        direct.ask(*clocked.words(now_us + after_us, one)) for after_us in (714_285, 714_286)
    ]
    assert [limited for limited, *_ in replies] == [1, 0]


def test_a_token_is_not_there_a_moment_early_where_doubles_round_up(direct: Client) -> None:
    """After this time a quotient of doubles is whole, but a part of a token is missing."""
    count, period_s = 2**31 - 1, 86_400
    wait_us = -pow(count, -1, period_s * 1_000_000) % (period_s * 1_000_000)
    bucket, clocked = _Bucket(count - 1, count, period_s), _Clocked(direct)
    for now_us, quantity in ((YEAR_2100_US, count), (YEAR_2100_US + wait_us, 0)):
        words = b"CL.THROTTLE b %d %d %d %d" % (count - 1, count, period_s, quantity)
        reply = direct.ask(*clocked.words(now_us, words.split()))
        assert reply == bucket.take(Fraction(now_us, 1_000_000), quantity)


@pytest.mark.parametrize("name", ["CL.THROTTLE", "INCREX"])
def test_a_server_that_has_the_command_answers_itself(name: str) -> None:
    native = Native(name, -2, frozenset({"write"}), (FIRST,))
    rule = Router([native]).find(name.encode())
    assert rule.virtual is None
    assert rule.override
    assert rule.override.always is None
    assert Router().find(name.lower().encode()).virtual


# --- INCREX


def test_fractions_meet_their_bounds_as_decimals(client: Client) -> None:
    client.ask("SET", "f", "0.3")
    assert client.ask("INCREX", "f", "BYFLOAT", "0.6", "UBOUND", "0.9") == [b"0.9", b"0.6"]
    assert client.ask("INCREX", "f", "BYFLOAT", "0.1", "UBOUND", "0.9") == [b"0.9", b"0"]


def test_a_malformed_request_of_a_counter_is_refused_in_redis_8s_order(talk: Talk) -> None:
    late = "ERR invalid expire time in 'increx' command"
    bounds = "ERR LBOUND can't be greater than UBOUND"
    lines = f"""
        WORD                                -> ERR syntax error
        BYINT                               -> ERR syntax error
        BYINT x WORD                        -> ERR Increment is not an integer or out of range
        UBOUND x WORD                       -> ERR syntax error
        BYINT 1 BYINT 1                     -> ERR syntax error
        BYINT 1 BYFLOAT 1                   -> ERR syntax error
        SATURATE SATURATE                   -> ERR syntax error
        EX 1 PX 1                           -> ERR syntax error
        EX 1 PERSIST                        -> ERR syntax error
        PERSIST ENX                         -> ERR syntax error
        ENX PERSIST                         -> ERR syntax error
        UBOUND x BYINT x                    -> ERR Increment is not an integer or out of range
        BYINT 01                            -> ERR Increment is not an integer or out of range
        BYFLOAT x EX x                      -> ERR Increment is not a valid float
        BYFLOAT inf LBOUND x                -> ERR BYFLOAT increment cannot be Infinity
        EX x UBOUND x LBOUND 1.5            -> ERR LBOUND is not an integer or out of range
        UBOUND 9223372036854775808          -> ERR UBOUND is not an integer or out of range
        UBOUND nan BYFLOAT 1                -> ERR UBOUND is not a valid float
        LBOUND 2 UBOUND 1 EX x              -> {bounds}
        LBOUND inf BYFLOAT 1                -> {bounds}
        ENX LBOUND 2 UBOUND 1               -> {bounds}
        ENX                                 -> ERR ENX flag requires an expiration
        EX x                                -> {NOT_AN_INTEGER}
        EX 0                                -> {late}
        PXAT -1                             -> {late}
        EX 9223372036854775                 -> {late}
        PX 9223372036854775807              -> {late}
        EX 100 BYINT 1                      -> {WRONGTYPE}
    """
    said = "\n".join(f"INCREX s {line.strip()}" for line in lines.strip().splitlines())
    talk(f"""
        SADD s a                            -> 1
        {said}
        SCARD s                             -> 1
    """)


@pytest.mark.parametrize("text", ["text", "", " 5", "05", "+5", "1.5", "9223372036854775808", "-0"])
def test_what_holds_no_integer_is_not_counted(talk: Talk, text: str) -> None:
    talk(f"""
        SET n "{text}"                      -> OK
        INCREX n                            -> {NOT_AN_INTEGER}
        INCREX n UBOUND -7 EX 100           -> {NOT_AN_INTEGER}
        GET n                               -> "{text}"
        TTL n                               -> -1
    """)


@pytest.mark.parametrize("text", ["text", "", " 5", "nan"])
def test_what_holds_no_number_is_not_counted(talk: Talk, text: str) -> None:
    talk(f"""
        SET n "{text}"                      -> OK
        INCREX n BYFLOAT 1                  -> ERR value is not a valid float
        SET n inf                           -> OK
        INCREX n BYFLOAT 1                  -> ERR value cannot be Infinity
    """)


LEAST, MOST = -(2**63), 2**63 - 1


def test_a_counter_is_exact_to_the_last_of_64_bits(talk: Talk) -> None:
    """Lua has no odd integers beyond 2^53: the replies are bulk strings there."""
    talk(f"""
        SET n {MOST - 1}                    -> OK
        INCREX n                            -> ["{MOST}", 1]
        INCREX n                            -> ["{MOST}", 0]
        INCREX n SATURATE                   -> ["{MOST}", 0]
        INCREX n BYINT {LEAST}              -> [-1, {LEAST}]
        INCREX n BYINT {LEAST}              -> [-1, 0]
        INCREX n BYINT {LEAST} SATURATE     -> [{LEAST}, "-{MOST}"]
        INCREX n LBOUND 0 SATURATE          -> ERR applied increment would overflow
        INCREX n LBOUND -1 SATURATE EX 100  -> [-1, "{MOST}"]
        SET n 9007199254740992              -> OK
        INCREX n                            -> ["9007199254740993", 1]
        INCREX n UBOUND 9007199254740993    -> ["9007199254740993", 0]
        INCREX n UBOUND 9007199254740994    -> [9007199254740994, 1]
    """)


def _increx(value: int, by: int, low: int, high: int, saturates: bool) -> tuple[int, int] | None:
    """The value and the applied increment; None for an error."""
    wanted = min(max(value + by, low), high)
    if wanted != value + by and not saturates:
        return value, 0
    return (wanted, wanted - value) if LEAST <= wanted - value <= MOST else None


def test_ten_thousand_counts_agree_with_python(client: Client) -> None:
    draw = random.Random(7)
    edges = [0, 1, -1, 2**53, -(2**53), 10**7, -(10**14), MOST, LEAST]

    def near() -> int:
        return min(max(draw.choice(edges) + draw.randint(-2, 2), LEAST), MOST)

    requests: list[tuple[str | int, ...]] = []
    expected: list[tuple[int, int] | None] = []
    values = dict.fromkeys("abc", 0)
    for _ in range(10_000):
        key, by, (low, high) = draw.choice("abc"), near(), sorted((near(), near()))
        saturates = draw.random() < 0.5
        options = ["SATURATE"] if saturates else []
        requests.append(("INCREX", key, "BYINT", by, "LBOUND", low, "UBOUND", high, *options))
        outcome = _increx(values[key], by, low, high, saturates)
        expected.append(outcome)
        values[key] = outcome[0] if outcome else values[key]
    for request, reply, outcome in zip(requests, client.ask_many(requests), expected, strict=True):
        if outcome is None:
            assert str(reply) == "applied increment would overflow", request
        else:
            assert tuple(map(int, reply)) == outcome, request
    assert {key: int(client.ask("GET", key)) for key in values} == values


# As Redis writes numbers, and as only people do.
FRACTIONS = ["0", "-7", "10.5", "1e2", "+2.", "0x1p-3", "1e-17", "-1E+3", f"{MOST}", "00.10"]
NO_FRACTIONS = ["", " 5", "5 ", "x", "1.5x", "nan"]


def test_fractions_are_added_as_by_incrbyfloat(client: Client, direct: Client) -> None:
    draw = random.Random(11)

    def number(digits: int) -> str:
        if draw.random() < 0.3:
            return draw.choice(FRACTIONS)
        return f"{draw.uniform(-1, 1) * 10 ** draw.randint(-18, 18):.{draw.randint(0, digits)}f}"

    pairs = [(number(21), number(17)) for _ in range(2000)]
    pairs += [(text, "1.5") for text in NO_FRACTIONS]

    def replies(asked: Client, name: str, *option: str) -> list[object]:
        requests: list[tuple[str | int, ...]] = []
        for text, addend in pairs:
            requests += [("SET", "f", text, "EX", 100), (name, "f", *option, addend)]
            requests += [("GET", "f"), ("TTL", "f")]
        found = asked.ask_many(requests)
        found[3::4] = [left > 0 for left in found[3::4]]  # how much is left depends on the machine
        return [f"{each[0] if isinstance(each, list) else each!s}" for each in found]

    theirs, ours = replies(direct, "INCRBYFLOAT"), replies(client, "INCREX", "BYFLOAT")
    for at, pair in enumerate(pairs):
        one = slice(4 * at, 4 * at + 4)
        assert ours[one] == theirs[one], pair
    assert set(direct.ask("KEYS", "*")) - SHARED == {b"f"}


def test_a_fraction_is_replicated_as_its_key_and_value_alone(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    replica = start_server("--replicaof", "127.0.0.1", str(server.port))
    with Connection(start_proxy(server.url).port) as app, Connection(replica.port) as monitor:
        wait_until(lambda: b"master_link_status:up" in monitor.ask("INFO"), "the replica connected")
        monitor.ask("MONITOR")
        app.ask("INCREX", "f", "BYFLOAT", "0.5")
        app.ask("SET", "end", "x")
        seen: list[bytes] = []
        while b'"end"' not in b"".join(seen):
            seen.append(monitor.read().partition(b"] ")[2])
    written = [line for line in seen if line.startswith((b'"SET" ', b'"H', b'"DEL" '))]
    assert written == [b'"SET" "f" "0.5" "KEEPTTL"\r\n', b'"SET" "end" "x"\r\n']


@pytest.mark.parametrize("hello", [2, 3])
def test_fractions_are_doubles_under_resp3(app: Connection, hello: int) -> None:
    app.ask("HELLO", hello)
    reply = app.ask("INCREX", "f", "BYFLOAT", "0.5")
    assert reply == {2: b"*2\r\n$3\r\n0.5\r\n$3\r\n0.5\r\n", 3: b"*2\r\n,0.5\r\n,0.5\r\n"}[hello]


def test_a_refusal_writes_nothing(client: Client, direct: Client) -> None:
    client.ask("SET", "n", 5)
    client.ask("SET", "f", "0.5")
    before = _writes(direct)
    client.ask("INCREX", "n", "UBOUND", 5, "EX", 100)
    client.ask("INCREX", "f", "BYFLOAT", "0.5", "UBOUND", "0.75", "EX", 100)
    client.ask("CL.THROTTLE", "b", 5, 1, 60, 7)
    client.ask("CL.THROTTLE", "b", 5, 1, 60, 0)
    assert _writes(direct) == before


def _writes(server: Client) -> bytes:
    (line,) = (
        line
        for line in server.ask("INFO", "persistence").splitlines()
        if line.startswith(b"rdb_changes_since_last_save:")
    )
    return bytes(line)
