"""DEFER, UNDEFER, DEFERRED: what is stored, and what happens when it is due."""

from __future__ import annotations

import re

import pytest

from tests.features.conftest import Limited
from tests.features.test_lease import REFUSED
from tests.support.containers import AnyServer
from tests.support.conversation import Talk
from tests.support.deadlines import has_ttl
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import SHARED
from ttlproxy.commands.features.defer import VIRTUALS
from ttlproxy.core.keys import Keys
from ttlproxy.scripts import Scripts
from ttlproxy.scripts.script_calls import ScriptCalls

KEYS = Keys()


def test_commands_wait_under_their_ids_the_soonest_first(talk: Talk) -> None:
    talk("""
        DEFER EX 300 ID b LPUSH q x y       -> "b"
        defer px 100000 id a rpush q z      -> "a"
        DEFER EX 200 ID c XADD q MAXLEN ~ 9 * f v -> "c"
        DEFER EXAT @+500s ID d DEL q        -> "d"
        DEFER PXAT @+400000ms ID "" unlink q -> ""
        DEFERRED q COUNT 2                  -> [["a", *
        DEFERRED q COUNT 1                  -> [["a", *
        DEFERRED none                       -> []
        UNDEFER q a c none a                -> 2
        UNDEFER none a                      -> 0
        UNDEFER q b "" d                    -> 3
        DEFERRED q                          -> []
        EXISTS q                            -> 0
        DBSIZE                              -> 0
        KEYS *                              -> []
    """)


def test_an_id_that_is_made_up_is_the_time_of_the_server(client: Client, direct: Client) -> None:
    before_ms = direct.now_ms()
    made = client.ask("DEFER", "EX", 300, "LPUSH", "q", "x").decode()
    assert re.fullmatch(r"\d{16}", made)
    assert before_ms * 1000 <= int(made) < (direct.now_ms() + 1) * 1000


def test_ids_that_are_made_up_are_new_and_in_the_order_of_arrival(direct: Client) -> None:
    """Also those of one microsecond. The clock is the test's: a machine may set its own back."""
    year_2100_us = 4_102_444_800_000_000
    scripts = Scripts(b"__ttl:")
    text, calls = scripts["deferred_set"].text, ScriptCalls(scripts, KEYS, bytes)
    (row,) = (row for row in VIRTUALS if row.name == "DEFER")
    ids: list[bytes] = []
    for number, after_us in enumerate((0, 0, 0, 1, 9)):
        time = b"{%d, %d}" % divmod(year_2100_us + after_us, 1_000_000)
        call = row.plan([*b"DEFER EX 300 LPUSH q".split(), b"%d" % number])
        _, _, *words = calls.words(call, b"0")
        ids.append(direct.ask("EVAL", text.replace(b"redis.call('TIME')", time), *words))
    assert [int(each) - year_2100_us for each in ids] == [0, 1, 2, 3, 9]
    assert direct.ask("ZRANGE", KEYS.index(KEYS.deferred(b"q")), 0, -1) == ids


def test_all_words_are_told_as_they_will_be_said(client: Client) -> None:
    binary = bytes(range(256))
    client.ask("DEFER", "EX", 100, "ID", binary, "lpush", "q", binary, "1e3", "")
    client.ask("DEFER", "EX", 200, "ID", "x", "xadd", "q", "maxlen", "~", 7, "*", "f", "v")
    reply = client.ask("DEFERRED", "q")
    assert [[id_, *words] for id_, _, *words in reply] == [
        [binary, b"LPUSH", b"q", binary, b"1e3", b""],
        [b"x", b"XADD", b"q", b"maxlen", b"~", b"7", b"*", b"f", b"v"],
    ]
    assert [
        left > most - 30_000 for (_, left, *_), most in zip(reply, (100_000, 200_000), strict=True)
    ]


def test_the_same_id_again_replaces_what_was_said(talk: Talk) -> None:
    talk("""
        DEFER EX 100 ID a LPUSH q x         -> "a"
        DEFER EX 900 ID a NX LPUSH q no     -> nil
        DEFER EX 900 ID b XX LPUSH q no     -> nil
        DEFER EX 50 ID a GT LPUSH q no      -> nil
        DEFER EX 900 ID a LT LPUSH q no     -> nil
        DEFER EX 200 ID a GT DEL q          -> "a"
        DEFER EX 150 ID a LT RPUSH q z      -> "a"
        DEFER XX EX 300 ID a DEL q          -> "a"
        DEFER EX 400 NX ID b DEL q          -> "b"
        DEFER GT EX 500 ID c DEL q          -> "c"
        DEFER LT EX 500 ID d DEL q          -> "d"
        UNDEFER q a b c d                   -> 4
        DEFERRED q                          -> []
        DEFER EXAT @+100s ID a DEL q        -> "a"
        DEFER EXAT @+100s ID a GT DEL q     -> nil
        DEFER EXAT @+100s ID a LT DEL q     -> nil
        UNDEFER q a                         -> 1
    """)


def test_a_malformed_request_is_refused(talk: Talk) -> None:
    arity = "ERR wrong number of arguments for '%s' command"
    integer = "ERR value is not an integer or out of range"
    lines = f"""
        EX x DEL q                          -> {integer}
        EX -1 DEL q                         -> ERR invalid expire time, must be >= 0
        PXAT 70368744177664 DEL q           -> ERR invalid expire time in 'defer' command
        PX 70368744177663 DEL q             -> ERR invalid expire time in 'defer' command
        PX 70368744177663 SET q x           -> ERR invalid expire time in 'defer' command
        ID a DEL q                          -> ERR syntax error
        EX 1 PX 1 DEL q                     -> ERR syntax error
        EX 1 ID a ID b DEL q                -> ERR syntax error
        EX 1 NX GT DEL q                    -> ERR syntax error
        EX 1 ID a NX                        -> ERR syntax error
        EX 1 SET q x                        -> ERR syntax error
        EX 1 EVAL x 0                       -> ERR syntax error
        EX 1 EX 1 ID                        -> ERR syntax error
        EX 1 LPUSH q                        -> {arity % "lpush"}
        EX 1 NX rpush q                     -> {arity % "rpush"}
        EX 1 DEL q r                        -> {arity % "del"}
        EX 1 UNLINK q r                     -> {arity % "unlink"}
        EX 1 PUBLISH q                      -> {arity % "publish"}
        EX 1 SPUBLISH q a b                 -> {arity % "spublish"}
        EX 1 XADD q *                       -> {arity % "xadd"}
        EX 1 XADD q * f                     -> {arity % "xadd"}
        EX 1 XADD q * f v f                 -> {arity % "xadd"}
        EX 1 XADD q MAXLEN ~ 5 *            -> {arity % "xadd"}
        EX 1 XADD q 1-1 f v                 -> ERR syntax error
        EX 1 XADD q MAXLEN = 5 * f v        -> ERR syntax error
        EX 1 XADD q MAXLEN ~ x * f v        -> {integer}
        EX 1 XADD q MAXLEN ~ -1 * f v       -> ERR The MAXLEN argument must be >= 0.
        EX 1 XADD q NOMKSTREAM * f v        -> ERR syntax error
    """
    said = "\n".join(f"DEFER {line.strip()}" for line in lines.strip().splitlines())
    talk(f"""
        {said}
        DEFERRED q                          -> []
        DEFERRED q COUNT 0                  -> ERR count should be greater than 0
        DEFERRED q WORD 1                   -> ERR syntax error
    """)


def test_as_many_words_as_lua_can_hand_on_may_be_deferred(client: Client) -> None:
    values = list(range(7898))
    assert client.ask("DEFER", "PXAT", 1, "ID", "a", "RPUSH", "q", *values) == b"a"
    assert client.ask("DEFERRED", "q") == []
    assert client.ask("LLEN", "q") == len(values)
    reply = client.ask("DEFER", "PXAT", 1, "ID", "a", "RPUSH", "q", *values, "x")
    assert str(reply) == "the deferred command has more than 7900 words"


def test_a_key_may_be_any_bytes_and_no_internal_one(client: Client) -> None:
    for key in (b"\xff\x00\r\n", b"a{b}c", b"{}x", b"", b"}{"):
        assert client.ask("DEFER", "EX", 100, "ID", "i", "LPUSH", key, "x") == b"i"
        assert [each[3] for each in client.ask("DEFERRED", key)] == [key]
        client.ask("DEFER", "PXAT", 1, "ID", "i", "LPUSH", key, "x")
        assert client.ask("DEFERRED", key) == []
        assert client.ask("LLEN", key) == 1
    assert "belongs to ttlproxy" in str(client.ask("DEFER", "EX", 1, "DEL", "__ttl:schedule"))


# --- when the time has come


def _until(client: Client, *words: str, gives: object) -> None:
    wait_until(lambda: client.ask(*words) == gives, f"{words} giving {gives!r}")


def test_each_of_the_commands_is_carried_out(client: Client, direct: Client) -> None:
    client.ask("SET", "gone", "x")
    client.ask("SADDEX", "away", 100, "x")
    for line in (
        "PX 1 LPUSH l a b",
        "PX 2 RPUSH l c",
        "PX 1 XADD s MAXLEN ~ 1000 * f v g w",
        "PX 1 DEL gone",
        "PX 1 UNLINK away",
    ):
        client.ask("DEFER", *line.split())
    _until(client, "LRANGE", "l", "0", "-1", gives=[b"b", b"a", b"c"])
    wait_until(lambda: client.ask("XLEN", "s") == 1, "the entry")
    assert client.ask("XRANGE", "s", "-", "+")[0][1] == [b"f", b"v", b"g", b"w"]
    _until(client, "EXISTS", "gone", "away", gives=0)
    wait_until(lambda: not _left(direct), "nothing left")


def _left(direct: Client) -> list[bytes]:
    return [name for name in direct.ask("KEYS", "__ttl:*") if name not in SHARED]


@pytest.mark.parametrize("verb", ["PUBLISH", "SPUBLISH"])
def test_a_message_is_published(
    app: Connection, client: Client, server: AnyServer, verb: str
) -> None:
    if verb == "SPUBLISH" and server.name == "6.2":
        assert "Unknown" in str(client.ask("DEFER", "EX", 1, "SPUBLISH", "news", "x"))
        return
    app.ask(verb.replace("PUBLISH", "SUBSCRIBE"), "news")
    client.ask("DEFER", "PX", 1, verb, "news", "soon")
    kind = verb.lower().replace("publish", "message").encode()
    assert app.read() == b"*3\r\n$%d\r\n%b\r\n$4\r\nnews\r\n$4\r\nsoon\r\n" % (len(kind), kind)


def test_what_is_due_already_is_carried_out_at_once(client: Client) -> None:
    assert client.ask("DEFER", "PXAT", 1, "ID", "a", "RPUSH", "q", "x") == b"a"
    assert client.ask("DEFERRED", "q") == []
    assert client.ask("LRANGE", "q", 0, -1) == [b"x"]
    assert client.ask("UNDEFER", "q", "a") == 0


def test_equal_times_are_carried_out_in_the_order_of_arrival(
    client: Client, direct: Client
) -> None:
    at_ms = direct.now_ms() + 700
    for number in range(0, 600, 100):
        client.ask_many(
            [("DEFER", "PXAT", at_ms, "RPUSH", "q", each) for each in range(number, number + 100)]
        )
    wait_until(lambda: client.ask("LLEN", "q") == 600, "all of them")
    assert client.ask("LRANGE", "q", 0, -1) == [b"%d" % number for number in range(600)]


@pytest.mark.slow
def test_nothing_is_carried_out_a_millisecond_early(client: Client, direct: Client) -> None:
    for _ in range(5):
        due_ms = (direct.now_ms() // 1000 + 1) * 1000 + 999
        client.ask("DEFER", "PXAT", due_ms, "LPUSH", "q", "x")
        while True:
            length, time = direct.ask_many([("LLEN", "q"), ("TIME",)], transaction=True)
            if length:
                break
        assert int(time[0]) * 1000 + int(time[1]) // 1000 > due_ms
        client.ask("DEL", "q")


def test_a_destination_of_the_wrong_type_parks_what_is_due_and_holds_up_nothing(
    client: Client,
) -> None:
    client.ask("SET", "q", "text")
    client.ask("DEFER", "PX", 1, "ID", "a", "LPUSH", "q", "x")
    client.ask("DEFER", "PX", 1, "ID", "b", "LPUSH", "other", "x")
    _until(client, "LLEN", "other", gives=1)
    assert [each[:2] for each in client.ask("DEFERRED", "q")] == [[b"a", 0]]
    assert client.ask("GET", "q") == b"text"
    client.ask("DEL", "q")
    _until(client, "LRANGE", "q", "0", "-1", gives=[b"x"])
    assert client.ask("DEFERRED", "q") == []


def test_what_is_refused_holds_up_no_other_command_for_its_key(client: Client) -> None:
    client.ask("SET", "q", "text")
    at_ms = client.now_ms() + 100
    client.ask("DEFER", "PXAT", at_ms, "ID", "a", "LPUSH", "q", "x")
    client.ask("DEFER", "PXAT", at_ms, "ID", "b", "DEL", "q")
    _until(client, "LRANGE", "q", "0", "-1", gives=[b"x"])


def test_deleting_the_key_cancels_nothing(client: Client) -> None:
    client.ask("RPUSH", "q", "x")
    client.ask_many([("DEFER", "PX", 100, "LPUSH", "q", "y"), ("DEL", "q")], transaction=True)
    _until(client, "LRANGE", "q", "0", "-1", gives=[b"y"])


def test_a_deferred_delete_takes_the_deadlines_along(client: Client, direct: Client) -> None:
    client.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "a", "1")
    client.ask("DEFER", "PX", 1, "DEL", "h")
    _until(client, "EXISTS", "h", gives=0)
    client.ask("HSET", "h", "a", "1")
    assert client.ask("HTTLFIELD", "h", "a") == -1
    wait_until(lambda: not _left(direct), "nothing left")


def test_a_pushed_value_has_no_deadline_unless_it_is_there_with_one(
    client: Client, direct: Client
) -> None:
    client.ask("RPUSHEX", "q", 100, "a", "b")
    direct.ask("LREM", "q", 0, "b")  # without the proxy: its deadline stays behind
    client.ask("DEFER", "PX", 1, "RPUSH", "q", "a", "b", "c")
    _until(client, "LLEN", "q", gives=4)
    first, *others = client.ask("LTTLELEMENT", "q", "ELEMENTS", 3, "a", "b", "c")
    assert (has_ttl(first, 100), others) == (True, [-1, -1])


def test_a_pushed_value_ends_a_deadline_that_was_left_behind(
    client: Client, direct: Client
) -> None:
    client.ask("RPUSHEX", "q", 100, "b")
    direct.ask("LREM", "q", 0, "b")
    client.ask("DEFER", "PX", 1, "RPUSH", "q", "b")
    _until(client, "LLEN", "q", gives=1)
    assert direct.ask("EXISTS", KEYS.index(b"q")) == 0
    assert direct.ask("ZSCORE", KEYS.schedule, "q") is None


# --- together with other commands


def test_what_is_deferred_is_hidden(client: Client) -> None:
    client.ask("DEFER", "EX", 100, "ID", "a", "LPUSH", "q", "x")
    client.ask("SET", "k", "x")
    assert client.ask("KEYS", "*") == [b"k"]
    assert client.ask("DBSIZE") == 1
    assert client.ask("SCAN", 0, "COUNT", 1000) == [b"0", [b"k"]]
    assert client.ask("RANDOMKEY") == b"k"


def test_databases_are_swapped_and_flushed_with_what_is_deferred_in_them(client: Client) -> None:
    client.ask("DEFER", "PX", 300, "LPUSH", "q", "x")
    client.ask("SWAPDB", 0, 1)
    assert client.ask("DEFERRED", "q") == []
    client.ask("SELECT", 1)
    _until(client, "LLEN", "q", gives=1)
    client.ask("DEFER", "EX", 100, "LPUSH", "q", "x")
    client.ask("FLUSHDB")
    assert client.ask("DEFERRED", "q") == []
    client.ask("SELECT", 0)
    assert client.ask("DBSIZE") == 0


# --- who may, and a server that is full


@pytest.mark.parametrize(
    ("rules", "command"),
    [
        ("-lpush", "LPUSH q x"),
        ("-rpush", "RPUSH q x"),
        ("-xadd", "XADD q * f v"),
        ("-publish", "PUBLISH q x"),
        ("-del", "DEL q"),
        ("-unlink", "UNLINK q"),
        ("resetkeys ~a:* ~__ttl:*", "LPUSH q x"),
        ("resetkeys ~a:* ~__ttl:*", "XADD q * f v"),
        ("resetkeys ~a:* ~__ttl:*", "DEL q"),
        ("resetchannels &a:* &__ttl:*", "PUBLISH q x"),
        ("-hset", "LPUSH q x"),
        ("-zadd", "LPUSH q x"),
    ],
)
def test_who_may_not_do_it_now_may_not_have_it_done_later(
    limited: Limited, client: Client, direct: Client, rules: str, command: str
) -> None:
    client.ask("RPUSH", "q", "here")
    reply = limited(rules, f"DEFER PX 0 {command}")
    assert re.match(REFUSED, reply), reply
    assert client.ask("DEFERRED", "q") == []
    assert client.ask("LRANGE", "q", 0, -1) == [b"here"]


def test_who_may_not_name_the_key_may_not_cancel_or_see(limited: Limited, client: Client) -> None:
    client.ask("DEFER", "EX", 100, "ID", "a", "LPUSH", "q", "x")
    for line in ("UNDEFER q a", "DEFERRED q"):
        assert limited("resetkeys ~a:* ~__ttl:*", line).startswith(b"-NOPERM")
    assert client.ask("UNDEFER", "q", "a") == 1


def test_a_full_server_defers_nothing_and_carries_out_what_is_due(
    client: Client, direct: Client
) -> None:
    client.ask("DEFER", "PX", 200, "LPUSH", "q", "x")
    direct.ask("CONFIG", "SET", "maxmemory", 1)
    try:
        assert "maxmemory" in str(client.ask("DEFER", "PX", 200, "LPUSH", "q", "y"))
        wait_until(lambda: client.ask("LLEN", "q") == 1, "the push")
    finally:
        direct.ask("CONFIG", "SET", "maxmemory", 0)
    assert client.ask("LRANGE", "q", 0, -1) == [b"x"]
