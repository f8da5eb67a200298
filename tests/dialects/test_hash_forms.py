"""Redis 8's hash-field commands on servers that lack them, answered as Redis 8.10 does."""

from __future__ import annotations

import pytest
import redis

from tests.support.containers import AnyServer
from tests.support.conversation import Talk, hold
from tests.support.error_texts import NOT_AN_INTEGER, WRONGTYPE
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import SHARED
from ttlproxy.commands import dialects
from ttlproxy.core.keys import Keys
from ttlproxy.scripts import Scripts
from ttlproxy.scripts.script_calls import ScriptCalls

in_redis_8s_words = pytest.mark.usefixtures("redis_8s_words")

SETTERS = ["HEXPIRE", "HPEXPIRE", "HEXPIREAT", "HPEXPIREAT"]
QUERIES = ["HTTL", "HPTTL", "HEXPIRETIME", "HPEXPIRETIME", "HPERSIST", "HGETDEL"]


@in_redis_8s_words
def test_setters_find_mistakes_in_redis_8s_order(talk: Talk) -> None:
    for name in SETTERS:
        late = f"ERR invalid expire time in '{name.lower()}' command"
        talk(f"""
            SET s text                              -> OK
            {name} s x WORD 1 a b c                 -> {WRONGTYPE}
            {name} h x FIELDS 0 a                   -> {NOT_AN_INTEGER}
            {name} h -1 FIELDS 0 a                  -> ERR invalid expire time, must be >= 0
            {name} h 70368744177664 FIELDS 0 a      -> {late}
            {name} h 9 FIELDS 0 a                   -> ERR Parameter `numFields` should be greater*
            {name} h 9 FIELDS x a                   -> ERR Parameter `numFields` should be greater*
            {name} h 9 FIELDS 2147483648 a          -> ERR Parameter `numFields` should be greater*
            {name} h 9 FIELDS 2 a                   -> ERR wrong number of arguments
            {name} h 9 FIELDS 1 a b                 -> ERR unknown argument: b
            {name} h 9 WORD FIELDS 1 a              -> ERR unknown argument: WORD
            {name} h 9 NX XX GT                     -> ERR missing FIELDS argument
            {name} h 9 NX NX FIELDS a               -> ERR FIELDS requires at least numfields and*
            {name} h 9 FIELDS 1 a FIELDS 1 b        -> ERR FIELDS keyword specified multiple times
            {name} h 9 NX FIELDS 1 a GT             -> ERR Multiple condition flags specified
            {name} h 9 XX GT FIELDS 1 a             -> ERR Multiple condition flags specified
            EXISTS h                                -> 0
            DEL s                                   -> 1
        """)


@in_redis_8s_words
def test_queries_find_mistakes_in_redis_8s_order(talk: Talk) -> None:
    word = "ERR Mandatory argument FIELDS is missing or not at the right position"
    positive = "ERR Number of fields must be a positive integer"
    match = "ERR The `numfields` parameter must match the number of arguments"
    for name in QUERIES:
        talk(f"""
            SET s text                              -> OK
            {name} s WORD 0 a                       -> {WRONGTYPE}
            {name} h WORD 0 a                       -> {word}
            {name} h FIELDS 0 a                     -> {positive}
            {name} h FIELDS x a                     -> {positive}
            {name} h FIELDS 2 a                     -> {match}
            {name} h FIELDS 1 a b                   -> {match}
            {name} h fields 1 a                     -> [*
            DEL s                                   -> 1
        """)


def test_too_few_words_are_refused(talk_one_by_one: Talk) -> None:
    short = [f"{name} h 9 FIELDS 1" for name in SETTERS] + [
        f"{name} h FIELDS 1" for name in QUERIES
    ]
    for request in [*short, "HGETEX h FIELDS 1", "HGETEX", "HTTL h"]:
        name = request.split()[0].lower()
        talk_one_by_one(f"{request} -> ERR wrong number of arguments for '{name}' command")


# --- HGETEX and HGETDEL


@pytest.mark.parametrize(
    "expiry", ["EX 100", "PX 100000", "EXAT @+100s", "PXAT @+100000ms", "ex 100"]
)
def test_hgetex_gives_values_and_dates_what_is_there(talk: Talk, expiry: str) -> None:
    ask, at = ("HEXPIRETIME", "@+100s") if "@" in expiry else ("HTTL", "100")
    talk(f"""
        HSET h a 1 b 2 c 3                          -> 3
        HGETEX h {expiry} FIELDS 3 a zz b           -> ["1", nil, "2"]
        {ask} h FIELDS 4 a b c zz                   -> [{at}, {at}, -1, -2]
        HGETEX h FIELDS 2 c a                       -> ["3", "1"]
        {ask} h FIELDS 2 a c                        -> [{at}, -1]
        HGETEX h PERSIST FIELDS 2 a c               -> ["1", "3"]
        {ask} h FIELDS 2 a b                        -> [-1, {at}]
    """)


def test_null_replies_have_the_shape_of_the_clients_protocol(app: Connection) -> None:
    app.ask("HSET", "h", "a", "1")
    for name in ("HGETEX", "HGETDEL"):
        app.ask("HELLO", "2")
        assert app.ask(name, "h", "FIELDS", "2", "zz", "y") == b"*2\r\n$-1\r\n$-1\r\n"
        app.ask("HELLO", "3")
        assert app.ask(name, "h", "FIELDS", "2", "zz", "y") == b"*2\r\n_\r\n_\r\n"


# --- where the server has these commands itself


def test_of_two_deadlines_the_earlier_counts_and_ours_takes_the_servers_place(
    app: Connection, direct: Client
) -> None:
    direct.ask("HSET", "h", "a", "1", "b", "2")
    hold(app, direct, "HEXPIREFIELD h b 100 -> 1")
    if direct.ask("HEXPIRE", "h", 50, "FIELDS", 1, "a") != [1]:
        pytest.skip("this server has no deadlines for hash fields")
    hold(app, direct, """
        HTTL h FIELDS 2 a b                         -> [50, 100]
        HTTLFIELD h a                               -> 50
        HEXPIRE h 40 GT FIELDS 1 a                  -> [0]
        HEXPIREFIELD h a 60 GT                      -> 1
        HTTL h FIELDS 1 a                           -> [60]
    """)  # fmt: skip
    assert direct.ask("HTTL", "h", "FIELDS", 1, "a") == [-1]
    direct.ask("HEXPIRE", "h", 50, "FIELDS", 1, "a")
    hold(app, direct, """
        HSETEX h KEEPTTL FIELDS 2 a 3 b 3           -> 1
        HTTL h FIELDS 2 a b                         -> [50, 100]
        HPERSIST h FIELDS 1 a                       -> [1]
        HTTL h FIELDS 1 a                           -> [-1]
    """)  # fmt: skip
    assert direct.ask("HTTL", "h", "FIELDS", 1, "a") == [-1]
    direct.ask("HEXPIRE", "h", 50, "FIELDS", 1, "a")
    hold(app, direct, """
        HGETEX h EX 80 FIELDS 1 a                   -> ["3"]
        HTTL h FIELDS 1 a                           -> [80]
        HGETEX h PERSIST FIELDS 1 a                 -> ["3"]
        HPERSISTFIELD h a                           -> -1
    """)  # fmt: skip


# Each is sent for a hash with fields a and b; a has a deadline of the server's own.
ALIKE = """
HSETEX h NX EXAT 4102444900 FIELDS 1 a 2
HSETEX h XX EXAT 4102444900 FIELDS 1 a 2
HSETEX h XX FNX EXAT 4102444900 FIELDS 1 c 2
HSETEX h FXX XX EXAT 4102444900 FIELDS 2 a 2 c 2
HSETEX none XX EXAT 4102444900 FIELDS 1 a 2
HEXPIREAT h 4102443000 XX GT FIELDS 2 a b
HEXPIREAT h 4102443000 LT XX FIELDS 2 a b
HEXPIREAT h 4102444900 XX GT FIELDS 2 a b
HPEXPIREAT h 4102444800001 FIELDS 1 b
HPEXPIREAT h 4102444800499 FIELDS 1 b
HPEXPIREAT h 4102444800500 FIELDS 1 b
HPEXPIREAT h 4102444800999 FIELDS 1 b
HPEXPIRE h 100400 FIELDS 1 b
HPEXPIRE h 100600 FIELDS 1 b
"""


@pytest.mark.parametrize("line", ALIKE.strip().splitlines())
def test_a_managed_key_is_treated_as_the_server_treats_its_own(
    app: Connection, plain: AnyServer, line: str
) -> None:
    look = ["HTTL h FIELDS 1 b"]
    if "AT" in line:
        look = [f"{name} h FIELDS 3 a b c" for name in ("HEXPIRETIME", "HPEXPIRETIME")]
    with Connection(plain.port) as direct:
        for client in (direct, app):
            client.ask("HSET", "h", "a", "1", "b", "1", "far", "1")
            if client.ask("HEXPIREAT", "h", "4102444000", "FIELDS", 1, "a") != b"*1\r\n:1\r\n":
                pytest.skip("this server has no deadlines for hash fields")
        app.ask("HEXPIREATFIELD", "h", "far", "4102444800")
        said = [words.split() for words in (line, *look)]
        replies = [[client.ask(*words) for words in said] for client in (direct, app)]
    if replies[0][0].startswith(b"-"):
        pytest.skip("this server refuses it")
    assert replies[1] == replies[0]


def test_where_valkey_rounds_a_time_it_is_the_nearest(direct: Client) -> None:
    """Any server runs the script, but only a Valkey is asked with it."""
    keys = Keys()
    script_calls = ScriptCalls(Scripts(keys.prefix), keys, lambda: b"")
    second_ms = 4_000_000_000_000
    direct.ask("HSET", "h", "past", 1, "down", 2, "up", 3, "none", 4)
    deadlines = (1, "past", second_ms + 499, "down", second_ms + 500, "up")
    direct.ask("ZADD", keys.index(b"h"), *deadlines)
    fields = [b"past", b"down", b"up", b"none", b"zz"]

    def ask(name: str) -> list[int]:
        words = [name.encode(), b"h", b"FIELDS", b"%d" % len(fields), *fields]
        reply: list[int] = direct.ask(*script_calls.words(dialects.VALKEY_FORMS[name](words), b"0"))
        return reply

    assert ask("HEXPIRETIME") == [0, second_ms // 1000, second_ms // 1000 + 1, -1, -2]
    assert ask("HPEXPIRETIME") == [1, second_ms + 499, second_ms + 500, -1, -2]
    assert [ask(name)[i] for name in ("HTTL", "HPTTL") for i in (0, 3, 4)] == [0, -1, -2] * 2


# --- redis-py's own methods


def test_an_application_that_uses_redis_py_for_redis_8_runs_unchanged(
    redis_py: redis.Redis,
) -> None:
    redis_py.hset("h", mapping={"a": "1", "b": "2", "c": "3"})
    assert redis_py.hexpire("h", 100, "a", "b", "zz") == [1, 1, -2]
    assert redis_py.hexpire("h", 200, "a", nx=True) == [0]
    assert redis_py.hpexpire("h", 300_000, "a", gt=True) == [1]
    assert redis_py.httl("h", "a", "b", "c", "zz") == [300, 100, -1, -2]
    assert redis_py.hexpireat("h", 4102444800, "a") == [1]
    assert redis_py.hexpiretime("h", "a", "c") == [4102444800, -1]
    assert redis_py.hpexpireat("h", 4102444800123, "a", xx=True) == [1]
    assert redis_py.hpexpiretime("h", "a") == [4102444800123]
    assert redis_py.hpersist("h", "a", "c", "zz") == [1, -1, -2]
    assert redis_py.hpttl("h", "a", "zz") == [-1, -2]
    assert redis_py.hgetex("h", "a", "zz", ex=100) == ["1", None]
    assert redis_py.hgetex("h", "a", persist=True) == ["1"]
    assert redis_py.hsetex("h", mapping={"a": "9", "d": "4"}, px=100_000) == 1
    assert redis_py.httl("h", "a", "d") == [100, 100]
    assert redis_py.hgetdel("h", "a", "zz") == ["9", None]
    assert redis_py.hexpire("h", 0, "b") == [2]
    assert redis_py.hgetall("h") == {"c": "3", "d": "4"}
    with pytest.raises(redis.ResponseError, match="must be >= 0"):
        redis_py.hexpire("h", -1, "c")
    with redis_py.pipeline(transaction=True) as pipeline:
        pipeline.hexpire("h", 100, "c")
        pipeline.httl("h", "c")
        pipeline.hgetdel("h", "c", "d")
        assert pipeline.execute() == [[1], [100], ["3", "4"]]
    assert not redis_py.exists("h")


def test_nothing_of_it_is_left_inside(redis_py: redis.Redis, server: AnyServer) -> None:
    redis_py.hsetex("h", mapping={"a": "1", "b": "2", "c": "3"}, ex=100)
    redis_py.hgetex("h", "a", persist=True)
    redis_py.hgetex("h", "b", pxat=1)
    redis_py.hgetdel("h", "c")
    with redis.Redis(port=server.port, decode_responses=True) as direct:
        inside = set(direct.keys()) - {name.decode() for name in SHARED}
        assert inside == {"h"}
