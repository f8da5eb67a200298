"""Keys that expire by themselves, and ONEXPIRE: what is due before the end is handed on first."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis.exceptions import ResponseError

from tests.conftest import StartProxy, StartServer
from tests.support.command_line import ttlproxy
from tests.support.containers import AnyServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import LEASE, noted_ms, until_swept
from tests.support.servers import Proxy, Server
from ttlproxy.core.keys import KEPT_MS, KEY_EXPIRY, Keys

FAR_MS = 4_000_000_000_000
LATER_MS = FAR_MS + 50_000
INDEX = Keys().index(b"q")


@pytest.fixture
def rule(client: Client) -> None:
    assert client.ask("ONEXPIRE", "q*", "RPUSH", "out") == b"OK"


def _kept(client: Client, direct: Client) -> None:
    """A key that ends at FAR_MS, with an element to be handed on after that."""
    client.ask_many(
        [
            ["SADDEX", "q", "PXAT", str(LATER_MS), "MEMBERS", "1", "a"],
            ["PEXPIREAT", "q", str(FAR_MS)],
        ]
    )
    assert _real_ms(direct) == FAR_MS + KEPT_MS


def _move(direct: Client, ends_ms: int, *deadlines: int | str) -> None:
    """As if the time had come: the instants of the kept key are moved, not the clock.

    deadlines: ms, element, ...
    """
    direct.ask("ZADD", INDEX, -ends_ms, KEY_EXPIRY, *deadlines)
    direct.ask("PEXPIREAT", "q", ends_ms + KEPT_MS)


def _real_ms(direct: Client, key: str = "q") -> int:
    """When Redis would delete the key."""
    left_ms, now_ms = direct.ask_many([["PTTL", key], ["TIME"]])
    if left_ms < 0:
        return int(left_ms)
    ends_ms = int(left_ms) + int(now_ms[0]) * 1000 + int(now_ms[1]) // 1000
    return round(ends_ms / 10_000) * 10_000


@pytest.mark.usefixtures("rule")
@pytest.mark.parametrize("later_ms", [0, 1, 2])
@pytest.mark.parametrize("first", ["elements", "key"])
def test_elements_that_are_due_when_their_key_ends_are_handed_on(
    client: Client, direct: Client, first: str, later_ms: int
) -> None:
    keys = [f"q{number}" for number in range(40)]
    for key in keys:
        at_ms = direct.now_ms() + 150
        steps = [
            ["SADDEX", key, "PXAT", str(at_ms), "MEMBERS", "3", "a", "b", "c"],
            ["PEXPIREAT", key, str(at_ms + later_ms)],
        ]
        if first == "key":
            steps = [["SADD", key, "z"], *steps[::-1]]
        client.ask_many(steps)
    wait_until(lambda: not any(direct.ask("EXISTS", key) for key in keys), "the keys gone")
    assert sorted(direct.ask("LRANGE", "out", 0, -1)) == sorted([b"a", b"b", b"c"] * len(keys))
    assert direct.ask("EXISTS", *(Keys().index(key.encode()) for key in keys)) == 0


@pytest.mark.usefixtures("rule")
@pytest.mark.parametrize("begin", [[], [["MULTI"]], [["BLPOP", "none", "0.01"]]])
@pytest.mark.parametrize("conditions", ["", "NX", "LT"])
def test_an_expiry_in_the_past_deletes_nothing_that_is_due_and_not_handed_on(
    client: Client, direct: Client, begin: list[list[str]], conditions: str
) -> None:
    if not isinstance(client.ask("EXPIRE", "none", 1, *conditions.split()), int):  # before 7.0
        pytest.skip("this server has no such condition")
    steps = [
        *begin,
        ["SADDEX", "q", "PXAT", str(direct.now_ms() - 1), "MEMBERS", "1", "a"],
        ["SADD", "q", "z"],
        ["EXPIRE", "q", "-1", *conditions.split()],
    ]
    if begin == [["MULTI"]]:
        steps.append(["EXEC"])
    client.ask_many(steps)
    wait_until(lambda: direct.ask("EXISTS", "q", INDEX) == 0, "the key gone")
    assert direct.ask("LRANGE", "out", 0, -1) == [b"a"]
    until_swept(direct)


def test_a_rule_of_onwrite_and_an_expiry_of_the_same_time_go_together(
    client: Client, direct: Client
) -> None:
    client.ask("ONEXPIRE", "q*", "RPUSH", "out")
    client.ask("ONWRITE", "q*", "EX", 1)
    keys = [f"q{number}" for number in range(10)]
    for key in keys:
        client.ask("SADD", key, key)
        client.ask("EXPIRE", key, 1)
    wait_until(lambda: direct.ask("EXISTS", *keys) == 0, "the keys gone")
    assert sorted(direct.ask("LRANGE", "out", 0, -1)) == [key.encode() for key in keys]


@pytest.mark.parametrize("ask", [False, True])
def test_a_key_that_ends_through_another_proxy_is_handed_on_first(
    start_server: StartServer, start_proxy: StartProxy, ask: bool
) -> None:
    server = start_server()
    ports = [start_proxy(server.url, asks=ask).port for _ in range(2)]
    with Client(server.port) as direct, Client(ports[0]) as one, Client(ports[1]) as other:
        one.ask("ONEXPIRE", "q*", "RPUSH", "out")
        keys = [f"q{number}" for number in range(20)]
        for number, key in enumerate(keys):
            at_ms = direct.now_ms() + 300
            one.ask("SADDEX", key, "PXAT", at_ms, "MEMBERS", 1, key)
            other.ask("PEXPIREAT", key, at_ms + number % 3)
            assert other.ask("PTTL", key) <= 302
        wait_until(lambda: direct.ask("EXISTS", *keys) == 0, "the keys gone")
        assert sorted(direct.ask("LRANGE", "out", 0, -1)) == sorted(map(str.encode, keys))


@pytest.mark.usefixtures("rule")
def test_elements_whose_deadline_is_after_the_end_of_their_key_go_with_it(
    client: Client, direct: Client
) -> None:
    _kept(client, direct)
    at_ms = direct.now_ms() - 1000
    client.ask("SADDEX", "q", "PXAT", LATER_MS, "MEMBERS", 1, "b")
    _move(direct, at_ms, at_ms, "a", at_ms + 1, "b")
    direct.ask("ZADD", Keys().schedule, at_ms, "q")
    wait_until(lambda: direct.ask("EXISTS", "q", INDEX) == 0, "the key gone")
    assert direct.ask("LRANGE", "out", 0, -1) == [b"a"]
    assert direct.ask("ZSCORE", Keys().schedule, "q") is None


@pytest.mark.usefixtures("rule", "no_reaper")
@pytest.mark.parametrize(
    ("request_", "reply"),
    [("EXISTS q", 0), ("SCARD q", 0), ("PTTL q", -2), ("STTLMEMBER q b", -2), ("SADD q b", 1)],
)
def test_a_kept_key_is_gone_at_its_end_for_every_client(
    client: Client, direct: Client, proxy: Proxy, request_: str, reply: int
) -> None:
    with Client(proxy.port) as other:
        at_ms = direct.now_ms() + 30
        client.ask_many(
            [
                ["SADDEX", "q", "PXAT", str(FAR_MS), "MEMBERS", "1", "b"],
                ["PEXPIREAT", "q", str(at_ms)],
            ]
        )
        wait_until(lambda: direct.now_ms() > at_ms, "its end")
        assert other.ask(*request_.split()) == reply


@pytest.mark.usefixtures("rule", "no_reaper")
@pytest.mark.parametrize(
    ("write", "request_", "reply"),
    [
        ("HSETEX q PXAT {} FIELDS 1 a v", "HDEL q a", 1),
        ("HSETEX q PXAT {} FIELDS 1 a v", "HSET q a w", 0),
        ("SADDEX q PXAT {} MEMBERS 1 a", "SREM q a", 1),
        ("SADDEX q PXAT {} MEMBERS 1 a", "SPOP q", b"a"),
        ("ZADDEX q PXAT {} MEMBERS 1 1 a", "ZREM q a", 1),
        ("RPUSHEX q PXAT {} ELEMENTS 1 a", "LREM q 0 a", 1),
        ("RPUSHEX q PXAT {} ELEMENTS 1 a", "LPOP q", b"a"),
    ],
)
def test_a_request_that_redis_carries_out_after_the_end_of_its_kept_key_still_finds_the_element(
    client: Client, direct: Client, write: str, request_: str, reply: int | bytes
) -> None:
    """It came before that. Otherwise it replies that nothing was there, and nobody gets it."""
    at_ms = direct.now_ms() - 1000
    client.ask_many([write.format(FAR_MS).split(), ["PEXPIREAT", "q", str(FAR_MS)]])
    _move(direct, at_ms, at_ms, "a")
    direct.ask("ZADD", Keys().schedule, at_ms, "q")
    assert client.ask(*request_.split()) == reply
    assert _real_ms(direct) in (-2, round((at_ms + KEPT_MS) / 10_000) * 10_000), "or it was late"
    direct.ask("DEL", LEASE)
    announced = Keys().announcement_prefix + b"0:%d:%s" % (at_ms, INDEX)
    direct.ask_many([["SET", announced, ""], ["DEL", announced]])
    wait_until(lambda: direct.ask("EXISTS", "q", INDEX) == 0, "the key gone")


@pytest.mark.usefixtures("rule", "no_reaper")
@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (f"PEXPIREAT q {FAR_MS}", 1),
        (f"PEXPIREAT q {FAR_MS} GT", 1),
        (f"PEXPIREAT q {FAR_MS} LT", 0),
        (f"PEXPIREAT q {FAR_MS} NX", 0),
        ("PERSIST q", 1),
    ],
)
def test_a_script_does_not_let_a_kept_key_end_while_it_runs(
    client: Client, direct: Client, server: AnyServer, request_: str, reply: int
) -> None:
    """What is due there would go with it, and nobody would get it."""
    _kept(client, direct)
    if isinstance(direct.ask(*request_.split()), Exception):
        pytest.skip("before 7.0 EXPIRE has no conditions")

    def is_asked_before_the_end() -> bool:
        """The end is so near that a busy machine may be too late."""
        direct.ask("DEL", "q", INDEX)
        _kept(client, direct)
        at_ms = direct.now_ms() + 60_000
        _move(direct, at_ms, at_ms, "a")
        given: list[int] = []
        with Connection(server.port) as monitor:
            soon_ms = direct.now_ms() + 50
            monitor.ask("MONITOR")
            direct.ask("ZADD", INDEX, -soon_ms, KEY_EXPIRY)
            direct.ask("PEXPIREAT", "q", soon_ms + KEPT_MS)
            answer = client.ask(*request_.split())
            if direct.now_ms() >= soon_ms:
                return False
            direct.ask("ECHO", "the end")
            while b"the end" not in (line := monitor.read()):
                words = line.lower().split(b'"')[1::2]
                if words[:2] == [b"pexpireat", b"q"]:
                    given.append(int(words[2]))
        assert (answer, min(given) > soon_ms) == (reply, True)
        return True

    wait_until(is_asked_before_the_end, "a request in time")


@pytest.mark.usefixtures("rule")
@pytest.mark.parametrize(
    ("request_", "reply", "ends_ms"),
    [
        ("PEXPIRETIME q", FAR_MS, FAR_MS),
        ("EXPIRETIME q", FAR_MS // 1000, FAR_MS),
        (f"PEXPIREAT q {FAR_MS - 1000} GT", 0, FAR_MS),
        (f"PEXPIREAT q {FAR_MS + 30_000} LT", 0, FAR_MS),
        (f"PEXPIREAT q {FAR_MS + 30_000} GT", 1, FAR_MS + 30_000),
        (f"PEXPIREAT q {FAR_MS - 30_000} LT", 1, FAR_MS - 30_000),
        (f"PEXPIREAT q {FAR_MS + 30_000} NX", 0, FAR_MS),
        (f"PEXPIREAT q {FAR_MS + 30_000} XX", 1, FAR_MS + 30_000),
        (f"PEXPIREAT q {FAR_MS} GT", 0, FAR_MS),
        (
            f"PEXPIREAT q {FAR_MS + 1} GT LT",
            b"ERR GT and LT options at the same time are not compatible",
            FAR_MS,
        ),
        ("PEXPIREAT q x", b"ERR value is not an integer or out of range", FAR_MS),
    ],
)
def test_a_kept_key_answers_as_one_that_expires_by_itself(
    client: Client, app: Connection, direct: Client, request_: str, reply: int | bytes, ends_ms: int
) -> None:
    _kept(client, direct)
    name = request_.split()[0]
    if direct.ask("COMMAND", "INFO", name) == [None]:
        pytest.skip("this server has no such command")
    raw = app.ask(*request_.split())
    if b"Unsupported option" in raw or b"wrong number" in raw:  # before 7.0
        pytest.skip("this server has no such condition")
    assert raw == (b"-%b\r\n" % reply if isinstance(reply, bytes) else b":%d\r\n" % reply)
    assert noted_ms(direct, b"q") == ends_ms
    assert _real_ms(direct) == ends_ms + KEPT_MS
    assert client.ask("PTTL", "q") == pytest.approx(ends_ms - direct.now_ms(), abs=1000)


# Requests that are about when keys end, and what they answer.
_STEPS = """
PERSIST q|PTTL q|PERSIST q
EXPIRE q 500|TTL q|EXPIRE q 0|TTL q|EXISTS q
PEXPIREAT q 4000000000000|SADD q c|PTTL q|SREM q a|SCARD q|PTTL q
RENAME q other|TTL q|TTL other|RENAMENX other q|TTL q|EXPIRE q 77|TTL q
COPY q other|TTL other|PERSIST other|TTL other|TTL q|COPY q other REPLACE|TTL other
MOVE q 1|TTL q|SELECT 1|TTL q|EXPIRE q 90|TTL q|MOVE q 0|TTL q|SELECT 0|TTL q
SET q v KEEPTTL|TTL q|GETEX q EX 50|TTL q|GETEX q PERSIST|TTL q
SET q v|TTL q
SET q v EX 30|TTL q
SUNIONSTORE other q|TTL other|SUNIONSTORE q q|TTL q
SMOVE q other a|TTL q|TTL other|SMOVE q other z|TTL q
EXPIRE q x|EXPIRE q|EXPIRE q 9223372036854775807|TTL q|TTL|PTTL q q q
MULTI|EXPIRE q 60|TTL q|PERSIST q|TTL q|EXEC|TTL q
MULTI|PEXPIRE q 50|PEXPIRE q 90 GT|PEXPIRE q 95 LT|PEXPIRE q 80 NX|PEXPIRE q 80 XX|PERSIST q|EXEC
DEL q|TTL q|SADD q z|TTL q
""".strip()


@pytest.mark.usefixtures("rule")
@pytest.mark.parametrize("steps", _STEPS.splitlines())
def test_a_kept_key_answers_as_in_plain_redis(
    client: Client, start_server: StartServer, steps: str
) -> None:
    with Client(start_server().port) as plain:
        plain.ask_many([["SADD", "q", "a", "z"], ["PEXPIREAT", "q", str(FAR_MS)]])
        client.ask_many(
            [
                ["SADD", "q", "z"],
                ["SADDEX", "q", "PXAT", str(LATER_MS), "MEMBERS", "1", "a"],
                ["PEXPIREAT", "q", str(FAR_MS)],
            ]
        )
        for step in steps.split("|"):
            here, there = client.ask(*step.split()), plain.ask(*step.split())
            pairs = zip(here, there, strict=True) if isinstance(there, list) else [(here, there)]
            for ours, theirs in pairs:
                if isinstance(theirs, int) and theirs > 2:  # a TTL
                    assert ours == pytest.approx(theirs, abs=2000 if "PTTL" in step else 2), step
                else:
                    assert str(ours) == str(theirs), step


@pytest.mark.usefixtures("rule")
@pytest.mark.parametrize(
    "request_", ["EXPIRE q -0", "PEXPIRE q -007", "EXPIREAT q -9223372036854775808"]
)
def test_a_malformed_time_ends_no_key_with_a_due_element(
    client: Client, direct: Client, request_: str
) -> None:
    client.ask("SET", "out", "no list")  # so the due element stays
    client.ask("SADDEX", "q", "PXAT", "1", "MEMBERS", "1", "a")
    assert client.ask("PEXPIREAT", "q", str(FAR_MS)) == 1
    refusal, answer = direct.ask(*request_.split()), client.ask(*request_.split())
    assert isinstance(refusal, ResponseError)
    assert str(answer) == str(refusal)
    assert noted_ms(direct, b"q") == FAR_MS


# What becomes of a kept key -> where it is then, and when Redis would delete it.
ENDS = {
    "PERSIST q": ("q", -1),
    "SET q v KEEPTTL": ("q", FAR_MS),
    "SREM q a": ("q", FAR_MS),
    "SPOP q 2": ("q", -2),
    "SPERSISTMEMBER q a": ("q", FAR_MS),
    "RENAME q other": ("other", FAR_MS + KEPT_MS),
    "COPY q other": ("other", FAR_MS + KEPT_MS),
    "DEL q": ("q", -2),
    "ONEXPIRE q* DEL": ("q", FAR_MS),
    "EXPIRE q -1": ("q", -2),
}


@pytest.mark.usefixtures("rule")
@pytest.mark.parametrize("request_", ENDS)
def test_a_key_that_is_kept_no_more_has_its_own_expiry_again(
    client: Client, direct: Client, server: AnyServer, request_: str
) -> None:
    _kept(client, direct)
    client.ask("SADD", "q", "z")
    client.ask(*request_.split())
    name, real_ms = ENDS[request_]
    wait_until(lambda: _real_ms(direct, name) == real_ms, "its expiry")
    if real_ms > 0:
        assert client.ask("PTTL", name) == pytest.approx(FAR_MS - direct.now_ms(), abs=1000)
    client.ask("ONEXPIRE", "q*", "DEL")
    until_swept(direct)


def test_a_key_that_expires_before_there_is_a_rule_is_kept_soon_after(
    client: Client, direct: Client
) -> None:
    client.ask("SADDEX", "q", "PXAT", FAR_MS + 5, "MEMBERS", 1, "a")
    client.ask("PEXPIREAT", "q", FAR_MS)
    # Until the proxy notes that the rules of the last test are gone, it keeps keys.
    wait_until(lambda: _real_ms(direct) == FAR_MS, "its own expiry")
    client.ask("ONEXPIRE", "q*", "RPUSH", "out")
    wait_until(lambda: _real_ms(direct) == FAR_MS + KEPT_MS, "it kept")
    assert client.ask("PTTL", "q") == pytest.approx(FAR_MS - direct.now_ms(), abs=1000)


@pytest.mark.usefixtures("rule")
@pytest.mark.parametrize("renewed", [f"PEXPIREAT q {FAR_MS + 90_000}", "PERSIST q"])
def test_somebody_without_a_proxy_may_change_when_a_kept_key_ends(
    client: Client, direct: Client, renewed: str
) -> None:
    _kept(client, direct)
    direct.ask(*renewed.split())
    ends_ms = None if renewed == "PERSIST q" else FAR_MS + 90_000
    wait_until(lambda: noted_ms(direct, b"q") == ends_ms, "it noted")
    assert _real_ms(direct) == (ends_ms + KEPT_MS if ends_ms else -1)


@pytest.mark.usefixtures("rule")
@pytest.mark.parametrize("later_ms", [-500, 50, 30_000])
def test_a_kept_key_ends_as_before_when_migrate_has_changed_its_expiry(
    client: Client, direct: Client, later_ms: int
) -> None:
    """MIGRATE carries the time left, which counts from the arrival, by another server's clock."""
    _kept(client, direct)
    direct.ask("PEXPIREAT", "q", FAR_MS + KEPT_MS + later_ms)
    assert client.ask("PTTL", "q") == pytest.approx(FAR_MS - direct.now_ms(), abs=1000)
    at_ms = direct.now_ms() + 200
    client.ask("SADDEX", "q", "PXAT", at_ms, "MEMBERS", 1, "b")
    client.ask("PEXPIREAT", "q", at_ms)
    direct.ask("PEXPIREAT", "q", at_ms + KEPT_MS + later_ms)
    wait_until(lambda: direct.ask("EXISTS", "q", INDEX) == 0, "the key gone")
    assert direct.ask("LRANGE", "out", 0, -1) == [b"b"]


@pytest.mark.usefixtures("rule")
def test_the_walk_gives_a_kept_key_that_has_moved_its_exact_expiry_again(
    client: Client, direct: Client
) -> None:
    _kept(client, direct)
    direct.ask("PEXPIREAT", "q", FAR_MS + KEPT_MS + 30_000)
    wait_until(lambda: _real_ms(direct) == FAR_MS + KEPT_MS, "the exact expiry")
    assert noted_ms(direct, b"q") == FAR_MS


@pytest.fixture
def own(
    start_server: StartServer, start_proxy: StartProxy
) -> Iterator[tuple[Server, Proxy, Client]]:
    """A server that has a kept key, its proxy, and a client of the server."""
    server = start_server()
    proxy = start_proxy(server.url)
    with Client(server.port) as direct:
        with Client(proxy.port) as client:
            client.ask("ONEXPIRE", "q", "RPUSH", "out")
            _kept(client, direct)
        yield server, proxy, direct


def test_what_was_due_while_no_proxy_ran_is_handed_on(
    own: tuple[Server, Proxy, Client], start_proxy: StartProxy
) -> None:
    server, proxy, direct = own
    proxy.kill()
    now_ms = direct.now_ms()
    _move(direct, now_ms - 1000, now_ms - 2000, "a")
    direct.ask("ZADD", Keys().schedule, now_ms - 2000, "q")
    start_proxy(server.url)
    wait_until(lambda: direct.ask("EXISTS", "q", INDEX) == 0, "the key gone")
    assert direct.ask("LRANGE", "out", 0, -1) == [b"a"]


@pytest.mark.usefixtures("rule")
def test_what_is_written_while_elements_cannot_be_handed_on_stays(
    client: Client, direct: Client
) -> None:
    direct.ask("SET", "out", "text")
    at_ms = direct.now_ms() + 50
    client.ask("SADDEX", "q", "PXAT", at_ms, "MEMBERS", 1, "a")
    client.ask("PEXPIREAT", "q", at_ms + 5)
    wait_until(lambda: _real_ms(direct) == -1, "it to outlive its end")
    assert client.ask("SADD", "q", "b") == 1
    told = b"parked_wrongtype:keys=1"
    wait_until(lambda: told in client.ask("INFO", "ttlproxy"), "somebody told")
    direct.ask("DEL", "out")
    wait_until(lambda: direct.ask("LRANGE", "out", 0, -1) == [b"a"], "the element handed on")
    assert client.ask("SMEMBERS", "q") == [b"b"]


def test_a_purge_gives_kept_keys_their_own_expiry_back(own: tuple[Server, Proxy, Client]) -> None:
    server, proxy, direct = own
    proxy.stop()
    purged = ttlproxy("purge", "--apply", "--force", "--upstream", server.url)
    assert purged.returncode == 0, purged.stderr
    assert _real_ms(direct) == FAR_MS


@pytest.mark.usefixtures("rule", "no_reaper")
@pytest.mark.parametrize("goes", ["RENAME q t", "RENAMENX q t", "COPY q t", "MOVE q 1"])
def test_a_kept_key_without_deadlines_goes_elsewhere_with_its_own_expiry(
    client: Client, server: AnyServer, goes: str
) -> None:
    """The last deadline went so shortly before the end of the key that Redis still kept it."""
    requests = ["SADD q b", "SADDEX q 100 a", "PEXPIRE q 60", "SREM q a", goes]
    client.ask_many([line.split() for line in requests])
    name, db = ("q", 1) if goes.startswith("MOVE") else ("t", 0)
    with Client(server.port, db) as there:
        assert there.ask("PTTL", name) <= 60
