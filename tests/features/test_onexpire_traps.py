"""What could go wrong when elements are handed on: each known trap has a test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.containers import AnyServer
from tests.support.conversation import Talk, let_pass
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from ttlproxy.core.keys import RULES_CHANGED, Keys

KEYS = Keys()


@pytest.fixture
def alone(start_server: StartServer) -> Iterator[tuple[str, Client]]:
    """The address of a Redis that the test may change, and a connection to it."""
    server = start_server()
    with Client(server.port) as direct:
        yield server.url, direct


def _info(client: Client) -> dict[str, str]:
    text = client.ask("INFO", "ttlproxy").decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


# --- where it cannot be delivered


def test_a_destination_of_the_wrong_type_loses_nothing_and_holds_up_nobody(
    alone: tuple[str, Client], start_proxy: StartProxy
) -> None:
    url, direct = alone
    proxy = start_proxy(url)
    with Client(proxy.port) as app:
        app.ask("ONEXPIRE", "bad", "RPUSH", "taken")
        app.ask("ONEXPIRE", "good", "RPUSH", "free")
        app.ask("SET", "taken", "a string")
        app.ask("HSETEX", "bad", "PX", 1, "FIELDS", 2, "a", 1, "b", 2)
        app.ask("HSETEX", "good", "PX", 1, "FIELDS", 1, "c", 3)
        wait_until(lambda: direct.ask("LRANGE", "free", 0, -1) == [b"3"], "the other key's")
        assert app.ask("HGETALL", "bad") == [b"a", b"1", b"b", b"2"], "it is still there"
        wait_until(lambda: _info(app).get("parked_wrongtype") == "keys=1", "the reason told")
        assert direct.ask("HGETALL", "bad") == [b"a", b"1", b"b", b"2"]
        app.ask("DEL", "taken")
        wait_until(lambda: direct.ask("LRANGE", "taken", 0, -1) == [b"1", b"2"], "it tried again")
        wait_until(lambda: _info(app)["parked_keys"] == "0", "the key no longer parked")
        assert direct.ask("EXISTS", "bad") == 0
    assert proxy.stderr.count("Redis refuses to reap in database 0: WRONGTYPE the destination") == 1
    assert "a client is closed" not in proxy.stderr


def test_what_was_handed_on_before_the_destination_refused_is_handed_on_once(
    alone: tuple[str, Client], start_proxy: StartProxy
) -> None:
    """Two more entries, and the stream has no id left."""
    url, direct = alone
    most = 2**64 - 1
    direct.ask("XADD", "out", f"{most}-{most - 2}", "first", "")
    with Client(start_proxy(url).port) as app:
        app.ask("ONEXPIRE", "h", "XADD", "out", "MAX", 3, "ELSE", "dead")
        app.ask("HSETEX", "h", "PX", 1, "FIELDS", 4, "a", 1, "b", 2, "c", 3, "d", 4)
        wait_until(lambda: _info(app).get("parked_keys") == "1", "that Redis refuses it is told")
        assert direct.ask("XLEN", "out") == 3
        assert direct.ask("HGETALL", "h") == [b"c", b"3", b"d", b"4"]
        assert direct.ask("ZRANGE", KEYS.index(b"h"), 0, -1) == [b"c", b"d"]
        direct.ask("DEL", "out")
        wait_until(lambda: direct.ask("XLEN", "out") == 2, "the others handed on")
        assert direct.ask("EXISTS", "h", "dead") == 0


@pytest.mark.parametrize("action", ["RPUSH list EVENT", "XADD stream", "KEEP"])
def test_a_full_server_still_hands_on(
    alone: tuple[str, Client], start_proxy: StartProxy, action: str
) -> None:
    url, direct = alone
    with Client(start_proxy(url).port) as app:
        app.ask("ONEXPIRE", "h", *action.split())
        app.ask("HSETEX", "h", "PX", 30, "FIELDS", 2, "a", 1, "b", 2)
        direct.ask("CONFIG", "SET", "maxmemory", 1)
        wait_until(lambda: direct.ask("EXISTS", "h") == 0, "the hash gone")
        if action == "KEEP":
            assert [entry[:2] for entry in app.ask("TAKE", "h")] == [[b"a", b"1"], [b"b", b"2"]]
        elif "PUSH" in action:
            assert direct.ask("LLEN", "list") == 2
        else:
            assert direct.ask("XLEN", "stream") == 2


def test_what_may_not_be_removed_is_not_handed_on(
    alone: tuple[str, Client], start_proxy: StartProxy
) -> None:
    url, direct = alone
    direct.ask("ACL", "SETUSER", "proxy", "on", ">word", "~*", "&*", "+@all")
    proxy = start_proxy(url.replace("redis://", "redis://proxy:word@"))
    with Client(proxy.port) as app:
        app.ask("ONEXPIRE", "h", "RPUSH", "late")
        direct.ask("ACL", "SETUSER", "proxy", "-hdel")
        app.ask("HSETEX", "h", "PX", 1, "FIELDS", 1, "a", 1)
        wait_until(lambda: _info(app).get("parked_noperm") == "keys=1", "the key parked")
        assert direct.ask("EXISTS", "late") == 0
        direct.ask("ACL", "SETUSER", "proxy", "+hdel")
        wait_until(lambda: direct.ask("LRANGE", "late", 0, -1) == [b"1"], "it delivered", 40)


def test_a_channel_may_have_the_name_of_any_key(app: Connection, other: Connection) -> None:
    for channel in ("room", "__ttl:schedule", "k"):
        app.ask("ONEXPIRE", "k", "PUBLISH", channel)
        app.ask("SET", "room", "a string")
        other.ask("SUBSCRIBE", channel)
        app.ask("SADDEX", "k", "PX", 20, "MEMBERS", 1, "gone")
        assert other.read().endswith(b"$4\r\ngone\r\n")


def test_each_change_of_a_rule_is_announced(app: Connection, server: AnyServer) -> None:
    prefix = KEYS.prefix + RULES_CHANGED
    with Connection(server.port) as listening:
        listening.ask("HELLO", 3)
        listening.ask("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", prefix)
        for action in (["RPUSH", "late"], ["RPUSH", "later"], ["DEL"]):
            assert app.ask("ONEXPIRE", "some:*", *action) == b"+OK\r\n"
            listening.send(command("PING"))
            assert b"some:*" in listening.read()
            assert listening.read() == b"+PONG\r\n"


# --- what is reported


@pytest.mark.usefixtures("no_reaper")
def test_nothing_goes_early_not_by_one_ms(app: Connection, direct: Client) -> None:
    """Deadlines around .999 of a second are tested too."""
    with Client(app.socket.getpeername()[1]) as client:
        client.ask("ONEXPIRE", "h", "XADD", "late")
        is_in_time = False
        while not is_in_time:  # else a deadline was past before its write
            client.ask("DEL", "h", "late")
            second = direct.now_ms() // 1000 + 2
            dated = {b"%d" % at: second * 1000 + at for at in (-1, 0, 1, 998, 999, 1000)}
            for field, at_ms in dated.items():
                client.ask("HSETEX", "h", "PXAT", at_ms, "FIELDS", 1, field, "v")
            is_in_time = direct.now_ms() < min(dated.values())
        wait_until(lambda: client.ask("EXISTS", "h") == 0, "all of them gone")
        entries = [
            (name, dict(zip(words[::2], words[1::2], strict=True)))
            for name, words in client.ask("XRANGE", "late", "-", "+")
        ]
    assert [entry[b"element"] for _, entry in entries] == list(dated)
    for name, entry in entries:
        due_ms = dated[entry[b"element"]]
        assert int(entry[b"due"]) == due_ms, "to the last of its digits"
        assert int(entry[b"fired"]) > due_ms
        assert int(name.split(b"-")[0]) > due_ms


@pytest.mark.usefixtures("no_reaper")
def test_numbers_of_more_than_14_digits_arrive_whole(talk: Talk, direct: Client) -> None:
    """Valkey writes a score with the fewest digits that tell it from others, Redis with 17."""
    direct.ask("ZADD", "z", "0.1", "b", "1e300", "c")
    tenth, huge = (direct.ask("ZSCORE", "z", member).decode() for member in "bc")
    direct.ask("DEL", "z")
    talk(f"""
        ONEXPIRE z RPUSH late VALUE                         -> OK
        ZADD z 9007199254740991 a 0.1 b 1e300 c             -> 3
        ZPEXPIREMEMBER z 20 MEMBERS 3 a b c                 -> [1, 1, 1]
        wait 20
        EXISTS z                                            -> 0
        LRANGE late 0 -1 -> ["9007199254740991", "{tenth}", "{huge}"]
    """)


NASTY = [
    b"",
    b"plain",
    'ü€𝄞 "quoted"\\'.encode(),
    b"\x00\x01\x1f\x7f\r\n\t",
    b"\x80\xff\xfe",
    b"\xc3",
    b"\xc0\xaf",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"a\xffb\xe2\x82",
    b'["not", "decoded"]',
    b"\\udc80",
    bytes(range(256)),
]


@pytest.mark.usefixtures("no_reaper")
@pytest.mark.parametrize("destination", ["list", "stream"])
def test_any_bytes_arrive_as_they_were(client: Client, direct: Client, destination: str) -> None:
    key = b"k\xff"
    words = ("RPUSH", destination, "EVENT") if destination == "list" else ("XADD", destination)
    client.ask("ONEXPIRE", "k*", *words)
    pairs = [word for number, nasty in enumerate(NASTY) for word in (b"%d" % number + nasty, nasty)]
    client.ask("HSETEX", key, "PX", 20, "FIELDS", len(NASTY), *pairs)
    let_pass(direct, 20)
    assert client.ask("EXISTS", key) == 0
    if destination == "list":
        events = [json.loads(event.decode()) for event in client.ask("LRANGE", "list", 0, -1)]
        events = [[word.encode("utf-8", "surrogateescape") for word in event] for event in events]
    else:
        events = [words[1::2] for _, words in client.ask("XRANGE", "stream", "-", "+")]
    assert sorted((event[0], event[2], event[3]) for event in events) == sorted(
        (key, b"%d" % number + nasty, nasty) for number, nasty in enumerate(NASTY)
    )
    assert {(event[1], event[6]) for event in events} == {(b"hash", b"expired")}


# The first and the last character of each kind of UTF-8 sequence, surrogates left out.
CORNERS = (
    *("\x80", "\u07ff", "\u0800", "\u0fff", "\u1000", "\ucfff", "\ud000", "\ud7ff"),
    *("\ue000", "\uffff"),
    *("\U00010000", "\U0003ffff", "\U00040000", "\U000fffff", "\U00100000", "\U0010ffff"),
)


@pytest.mark.usefixtures("no_reaper")
def test_what_is_utf_8_is_not_escaped(client: Client, direct: Client) -> None:
    """Escaped, it would arrive whole too, but nobody could read it."""
    members = [f"({character})".encode() for character in CORNERS]
    client.ask("ONEXPIRE", "k", "RPUSH", "list", "EVENT")
    client.ask("SADDEX", "k", "PX", 10, "MEMBERS", len(members), *members)
    let_pass(direct, 10)
    assert client.ask("EXISTS", "k") == 0
    events = b"".join(client.ask("LRANGE", "list", 0, -1))
    assert [member for member in members if b'"%b"' % member not in events] == []


@pytest.mark.usefixtures("no_reaper")
def test_what_had_to_make_room_is_said_to_be_evicted(client: Client) -> None:
    client.ask("ONEXPIRE", "s", "XADD", "out")
    client.ask("SADDEX", "s", "MAXLEN", 1, "EVICT", "EX", 100, "MEMBERS", 1, "a")
    client.ask("SADDEX", "s", "MAXLEN", 1, "EVICT", "EX", 100, "MEMBERS", 1, "b")
    assert client.ask("SCARD", "s") == 1
    ((_, words),) = client.ask("XRANGE", "out", "-", "+")
    entry = dict(zip(words[::2], words[1::2], strict=True))
    assert (entry[b"element"], entry[b"why"]) == (b"a", b"evicted")
    assert int(entry[b"due"]) < int(entry[b"fired"])


@pytest.mark.parametrize("reaper", ["reaper", "read"])
def test_a_read_that_reaps_says_the_same_as_the_reaper(
    client: Client, direct: Client, request: pytest.FixtureRequest, reaper: str
) -> None:
    if reaper == "read":
        request.getfixturevalue("no_reaper")
    client.ask("ONEXPIRE", "*", "RPUSH", "late", "EVENT")
    client.ask("HSETEX", "h", "PX", 20, "FIELDS", 1, "f", "v")
    client.ask("ZADDEX", "z", "PX", 20, "MEMBERS", 1, "1.5", "m")
    if reaper == "read":
        let_pass(direct, 20)
        assert client.ask("EXISTS", "h", "z") == 0
    wait_until(lambda: direct.ask("LLEN", "late") == 2, "both delivered")
    events = [json.loads(event) for event in direct.ask("LRANGE", "late", 0, -1)]
    assert sorted([*event[:4], event[6]] for event in events) == [
        ["h", "hash", "f", "v", "expired"],
        ["z", "zset", "m", "1.5", "expired"],
    ]
    assert all(event[4] < event[5] for event in events)


# --- many, and again


def test_more_equal_values_than_lua_can_unpack_are_all_handed_on(client: Client) -> None:
    client.ask("ONEXPIRE", "k", "RPUSH", "late")
    client.ask("RPUSH", "k", *["v"] * 9_000)
    client.ask("LPEXPIREELEMENT", "k", "v", 1)
    wait_until(lambda: client.ask("LLEN", "late") == 9_000, "all of them")
    assert client.ask("EXISTS", "k") == 0


@pytest.mark.parametrize("type_", ["hash", "zset"])
def test_ten_thousand_due_at_once_arrive_in_order_a_few_in_each_call(
    client: Client, server: AnyServer, direct: Client, type_: str
) -> None:
    """They arrive in the order of their deadlines; equal deadlines in the order of their bytes."""
    names = [b"%05d" % number for number in range(10_000)]
    client.ask("ONEXPIRE", "k", "RPUSH", "late", "ELEMENT")
    direct.ask("CONFIG", "RESETSTAT")
    if type_ == "hash":
        direct.ask("HSET", "k", *(word for name in names for word in (name, "v")))
    else:
        direct.ask("ZADD", "k", *(word for name in names for word in (0, name)))
    scores = [1000 + number // 7 for number in range(len(names))]
    dated = [w for score, name in zip(scores, names, strict=True) for w in (score, name)]
    direct.ask("ZADD", KEYS.index(b"k"), *dated)
    direct.ask("ZADD", KEYS.schedule, 1000, "k")
    client.ask("SADDEX", "other", "PX", 1, "MEMBERS", 1, "m")  # wakes the reaper
    wait_until(lambda: direct.ask("EXISTS", "k") == 0, "all gone")
    assert direct.ask("LRANGE", "late", 0, -1) == names
    assert calls(server.port, "rpush") >= len(names) / 250


@pytest.mark.usefixtures("no_reaper")
@pytest.mark.parametrize(
    ("add", "changes"),
    [
        ("HSETEX k PX 20 FIELDS 2 a a b b", ["HSET k c c", "HDEL k a"]),
        ("SADDEX k PX 20 MEMBERS 2 a b", ["SADD k c", "SREM k a"]),
        ("ZADDEX k PX 20 MEMBERS 2 1 a 2 b", ["ZADD k 3 c", "ZREM k a"]),
        ("RPUSHEX k PX 20 ELEMENTS 2 a b", ["RPUSH k c", "LPOP k"]),
    ],
)
def test_the_deadline_of_what_has_gone_goes_at_its_time(
    client: Client, direct: Client, add: str, changes: list[str]
) -> None:
    """Else the key would be due for ever. The proxy does not see the changes."""
    client.ask("ONEXPIRE", "k", "RPUSH", "late", "ELEMENT")
    client.ask(*add.split())
    for change in changes:
        assert direct.ask(*change.split())
    let_pass(direct, 20)
    assert client.ask("EXISTS", "k") == 1
    assert direct.ask("LRANGE", "late", 0, -1) == [b"b"]
    assert direct.ask("EXISTS", KEYS.index(b"k"), KEYS.schedule) == 0


@pytest.mark.usefixtures("no_reaper")
def test_what_comes_back_does_not_meet_the_deadline_it_left_there(
    client: Client, direct: Client
) -> None:
    """Nor does what is there lose its own: equal values share one deadline."""
    client.ask("ONEXPIRE", "held", "RPUSH", "stock")
    client.ask("SADDEX", "held", "PX", 20, "MEMBERS", 2, "i1", "i2")
    direct.ask("ZADD", KEYS.index(b"stock"), 4102444800000, "i1", 4102444800000, "i2")
    direct.ask("RPUSH", "stock", "i2")
    let_pass(direct, 20)
    assert client.ask("EXISTS", "held") == 0
    assert direct.ask("LRANGE", "stock", 0, -1) == [b"i2", b"i1", b"i2"]
    assert direct.ask("ZRANGE", KEYS.index(b"stock"), 0, -1) == [b"i2"]
    direct.ask("DEL", KEYS.index(b"stock"))


@pytest.mark.usefixtures("no_reaper")
def test_a_rule_that_changes_while_elements_are_pending_counts_at_once(
    alone: tuple[str, Client], start_proxy: StartProxy
) -> None:
    url, direct = alone
    direct.ask("SET", "__ttl:lease", "a test", "PX", 600_000)
    with Client(start_proxy(url).port) as one, Client(start_proxy(url).port) as other:
        for number in range(60):
            setter, reader = (one, other) if number % 2 else (other, one)
            reader.ask("SADDEX", "s", "PX", 1, "MEMBERS", 1, "m")
            assert setter.ask("ONEXPIRE", "s", "RPUSH", f"late:{number}") == b"OK"
            wait_until(lambda: reader.ask("EXISTS", "s") == 0, "it gone")  # noqa: B023
            assert direct.ask("LRANGE", f"late:{number}", 0, -1) == [b"m"], number


AN_HOUR_OFF = """
import time
_real = time.time
time.time = lambda: _real() {} 3600
"""


@pytest.mark.parametrize("sign", ["+", "-"])
def test_a_proxy_whose_clock_is_an_hour_off_delivers_in_time(
    alone: tuple[str, Client], start_proxy: StartProxy, tmp_path: Path, sign: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(AN_HOUR_OFF.format(sign))
    url, direct = alone
    proxy = start_proxy(url, env={"PYTHONPATH": str(tmp_path)})
    with Client(proxy.port) as app:
        app.ask("ONEXPIRE", "s", "XADD", "late")
        app.ask("SADDEX", "s", "EX", 1000, "MEMBERS", 1, "stays")
        app.ask("SADDEX", "s", "PX", 50, "MEMBERS", 1, "goes")
        wait_until(lambda: direct.ask("XLEN", "late") == 1, "one delivered")
        ((_, words),) = direct.ask("XRANGE", "late", "-", "+")
        entry = dict(zip(words[::2], words[1::2], strict=True))
        assert entry[b"element"] == b"goes"
        assert 0 < int(entry[b"fired"]) - int(entry[b"due"]) < 30_000
        assert app.ask("SMEMBERS", "s") == [b"stays"]
