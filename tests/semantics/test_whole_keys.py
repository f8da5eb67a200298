"""Commands that replace, copy or move whole keys, and what all types have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.containers import AnyServer
from tests.support.conversation import Talk, hold
from tests.support.error_texts import WRONGTYPE
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.redis_content import noted_ms, until_swept
from ttlproxy.core.keys import Keys

REPLACING = """
    SET k v                                 -> OK
    SET k v XX                              -> OK
    SET k v EX 100                          -> OK
    SET k v KEEPTTL                         -> OK
    SETEX k 100 v                           -> OK
    PSETEX k 100000 v                       -> OK
    MSET new 1 k v                          -> OK
    BITOP OR k text nokey                   -> 4
    BITOP OR k nokey nokey                  -> 0
    SINTERSTORE k nokey other               -> 0
    SUNIONSTORE k other                     -> 2
    SDIFFSTORE k other other                -> 0
    ZUNIONSTORE k 1 other                   -> 2
    ZINTERSTORE k 1 nokey                   -> 0
    ZDIFFSTORE k 2 other nokey              -> 2
    ZRANGESTORE k nokey 0 -1                -> 0
    ZRANGESTORE k geo 0 -1                  -> 1
    SORT other ALPHA STORE k                -> 2
    SORT nokey STORE k                      -> 0
    GEOSEARCHSTORE k geo FROMLONLAT 15 37 BYRADIUS 200 km -> 1
    GEORADIUS geo 15 37 200 km STORE k      -> 1
    GEORADIUS geo 16 37 1 m STOREDIST k     -> 0
    GEORADIUSBYMEMBER geo m 200 km STORE k  -> 1
"""
NOT_REPLACING = f"""
    SET k v NX                              -> nil
    SET k v EX x                            -> ERR value is not an integer or out of range
    SET k v SOON                            -> ERR syntax error
    SET k v GET                             -> {WRONGTYPE}
    SET k v XX GET                          -> {WRONGTYPE}
    SETEX k 0 v                             -> ERR invalid expire time*
    GETSET k v                              -> {WRONGTYPE}
    SETNX k v                               -> 0
    MSETNX new 1 k v                        -> 0
    MSET new 1 k                            -> ERR wrong number of arguments for*
    BITOP NOT k text text          -> ERR BITOP NOT must be called with a single source key.
    BITOP AND k hash                        -> {WRONGTYPE}
    PFMERGE k text                          -> WRONGTYPE*
    PFMERGE k nokey                         -> WRONGTYPE*
    RESTORE k 0 x                           -> BUSYKEY Target key name already exists.
    RESTORE k 0 x REPLACE                   -> ERR DUMP payload version or checksum are wrong
    SINTERSTORE k text                      -> {WRONGTYPE}
    SUNIONSTORE k text k                    -> {WRONGTYPE}
    ZUNIONSTORE k 0 x                       -> ERR at least 1 input key is needed*
    ZUNIONSTORE k 1 text                    -> {WRONGTYPE}
    ZRANGESTORE k text 0 -1                 -> {WRONGTYPE}
    SORT text STORE k                       -> {WRONGTYPE}
    SORT words STORE k             -> ERR One or more scores can't be converted into double
    GEORADIUS text 1 2 3 km STORE k         -> {WRONGTYPE}
"""
SOURCES = """
    SET text text                           -> OK
    HSET hash f v                           -> 1
    SADD words x y                          -> 2
    SADD other a b                          -> 2
    GEOADD geo 15 37 m                      -> 1
"""


def _for_each(writes: str, before: str, after: str) -> str:
    """Each write with the lines before and after it, on a key of its own: k0, k1 and so on."""
    lines = filter(None, map(str.strip, writes.splitlines()))
    return SOURCES + "".join(
        re.sub(r"\bk\b", f"k{n}", f"{before}\n{line}\n{after}\n") for n, line in enumerate(lines)
    )


BEFORE = """
    ADD k a b                               -> 2
    HEXPIREFIELD k a 100                    -> 1
"""


def test_a_replaced_key_starts_clean(every: Talk) -> None:
    after = """
        DEL k                               -> *
        ADD k a                             -> 1
        HTTLFIELD k FIELDS 2 a b            -> [-1, -2]
    """
    every(_for_each(REPLACING, BEFORE, after))


def test_a_key_that_was_not_replaced_keeps_its_deadlines(every: Talk) -> None:
    every(_for_each(NOT_REPLACING, BEFORE, "HTTLFIELD k FIELDS 2 a b -> [100, -1]"))


def test_replacing_replies_have_the_shape_of_the_client_s_resp(app: Connection) -> None:
    app.ask("HELLO", 3)
    app.ask("HSET", "h", "f", "v")
    app.ask("HEXPIREFIELD", "h", "f", 100)
    assert app.ask("SET", "h", "v", "NX") == b"_\r\n"
    assert app.ask("MULTI") == b"+OK\r\n"
    for request in (["SET", "h", "v", "NX"], ["SET", "h", "v"], ["SET", "h", "w", "GET"],
                    ["SINTERSTORE", "h", "nokey"], ["SET", "h", "v", "GET"]):  # fmt: skip
        assert app.ask(*request) == b"+QUEUED\r\n"
    assert app.ask("EXEC") == b"*5\r\n_\r\n+OK\r\n$1\r\nv\r\n:0\r\n_\r\n"


def test_a_restored_key_starts_clean(app: Connection, direct: Client) -> None:
    app.ask("SADD", "s", "a", "b")
    payload = direct.ask("DUMP", "s")
    for restore in ("RESTORE", "RESTORE-ASKING"):
        hold(app, direct, "SEXPIREMEMBER s a 100 -> 1")
        assert app.ask(restore, "s", 0, payload) == b"-BUSYKEY Target key name already exists.\r\n"
        hold(app, direct, "STTLMEMBER s a -> 100")
        assert app.ask(restore, "s", 0, payload, "REPLACE") == b"+OK\r\n"
        hold(app, direct, "STTLMEMBER s MEMBERS 2 a b -> [-1, -1]")


def test_more_words_than_lua_can_hand_on(app: Connection, direct: Client) -> None:
    app.ask("SADDEX", "k", 100, "a")
    pairs = [word for n in range(5000) for word in (f"n{n}", "v")]
    assert app.ask("MSET", *pairs, "k", "v") == b"+OK\r\n"
    assert app.ask("MULTI") == b"+OK\r\n"
    assert app.ask("SUNIONSTORE", "stored", *pairs) == b"+QUEUED\r\n"
    assert app.ask("SADDEX", "l", 100, "a") == b"+QUEUED\r\n"
    assert app.ask("EXEC").startswith(b"*2\r\n-WRONGTYPE")
    hold(app, direct, 'GET k -> "v"\nDEL k -> 1\nSADD k a -> 1\nSTTLMEMBER k a -> -1')


@pytest.mark.parametrize("refused", ["MOVE k 99", "MOVE k -1", "MOVE k x", "MOVE k 99999999999",
                                     "COPY k new DB -1", "COPY k new DB 99999999999",
                                     "COPY k new DB 99"])  # fmt: skip
def test_a_database_that_is_not_there_is_refused_in_redis_own_words(
    app: Connection, server: AnyServer, direct: Client, refused: str
) -> None:
    app.ask("SADDEX", "k", 100, "a")
    with Connection(server.port) as native:
        assert app.ask(*refused.split()) == native.ask(*refused.split())
    hold(app, direct, "STTLMEMBER k a -> 100")


def test_a_migrated_key_leaves_its_deadlines_and_its_index_is_swept(
    app: Connection, plain: AnyServer, direct: Client
) -> None:
    hold(
        app,
        direct,
        f"""
        SADDEX s 100 a b                    -> 2
        SADDEX s PX 20 MEMBERS 1 c          -> 1
        wait 20
        MIGRATE 127.0.0.1 {plain.port} s 0 5000 -> OK
        EXISTS s                            -> 0
        SADD s a                            -> 1
        STTLMEMBER s a                      -> -1
    """,
    )
    there = Client(plain.port)
    assert sorted(there.ask("SMEMBERS", "s")) == [b"a", b"b"]
    assert there.ask("DBSIZE") == 1
    there.close()
    until_swept(direct)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("HSETEX k MAXLEN 2 EX 100 FIELDS 1 a 1", "HSETEX k EX 2000 FIELDS 1 b 1"),
        ("SADDEX k 100 a", "SADDEX k 2000 b"),
        ("ZADDEX k 100 1 a", "ZADDEX k 2000 2 b"),
        ("RPUSHEX k 100 a", "RPUSHEX k 2000 b"),
    ],
)
@pytest.mark.parametrize(("then", "left_ms"), [("PERSIST k", 0), ("EXPIRE k 5000", 2_000_000)])
def test_deadlines_last_as_long_as_a_key_whose_expiry_somebody_else_has_changed(
    app: Connection, direct: Client, first: str, second: str, then: str, left_ms: int
) -> None:
    """With the old expiry the deadlines would vanish, and their elements would stay for good."""
    app.ask(*first.split())
    assert app.ask("EXPIRE", "k", 1000) == b":1\r\n"
    assert noted_ms(direct, b"k")
    assert direct.ask(*then.split()) == 1
    assert not app.ask(*second.split()).startswith(b"-")
    ends_ms = noted_ms(direct, b"k")
    assert ends_ms and ends_ms > direct.now_ms() + left_ms if left_ms else ends_ms is None
    assert direct.ask("PTTL", Keys().index(b"k")) == -1


def test_an_error_inside_exec_stands_in_its_place(app: Connection) -> None:
    requests: list[list[str | int]] = [
        ["MULTI"], ["HSET", "h", "a", 1], ["HEXPIREFIELD", "h", "a", "x"],
        ["SEXPIREMEMBER", "h", "a", 100], ["HEXPIREFIELD", "h", "a", 100],
        ["HTTLFIELD", "h", "a"], ["EXEC"],
    ]  # fmt: skip
    app.send(b"".join(command(*words) for words in requests))
    assert app.read_many(7)[-1] == (
        b"*5\r\n:1\r\n-ERR value is not an integer or out of range\r\n"
        b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n:1\r\n:100\r\n"
    )


def test_replies_about_managed_keys_keep_their_resp3_types(app: Connection) -> None:
    app.ask("HELLO", 3)
    app.ask("HSET", "h", "a", 1)
    app.ask("HEXPIREFIELD", "h", "a", 100)
    app.ask("SADDEX", "s", 100, "a")
    assert app.ask("HGETALL", "h") == b"%1\r\n$1\r\na\r\n$1\r\n1\r\n"
    assert app.ask("HGET", "h", "zz") == b"_\r\n"
    assert app.ask("SMEMBERS", "s") == b"~1\r\n$1\r\na\r\n"
    assert app.ask("HINCRBYFLOAT", "h", "a", "0.5") == b"$3\r\n1.5\r\n"
    assert app.ask("SPOP", "s", 9) == b"~1\r\n$1\r\na\r\n"
    assert app.ask("SPOP", "s") == b"_\r\n"
    assert app.ask("HTTLFIELD", "h", "FIELDS", 2, "a", "zz") == b"*2\r\n:100\r\n:-2\r\n"


@pytest.fixture
def full(app: Connection, direct: Client) -> Iterator[None]:
    """A managed set in a server that has no memory left."""
    hold(app, direct, "SADDEX s 100 a b -> 2\nSADD other a -> 1\nSELECT 0 -> OK")
    direct.ask("CONFIG", "SET", "maxmemory", 1)
    yield
    direct.ask("CONFIG", "SET", "maxmemory", 0)


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("write", ["SET s v", "SUNIONSTORE s other", "COPY s new", "COPY s s DB 1",
                                   "COPY other s REPLACE", "SORT other ALPHA STORE s"])  # fmt: skip
def test_a_full_server_refuses_a_write_and_nothing_has_changed(
    app: Connection, direct: Client, write: str
) -> None:
    hold(
        app,
        direct,
        f"""
        {write}                             -> OOM command not allowed when used memory*
        STTLMEMBER s MEMBERS 2 a b          -> [100, 100]
        EXISTS new                          -> 0
    """,
    )


@pytest.mark.usefixtures("full")
def test_a_full_server_moves_keys_and_swaps_databases_as_ever(
    app: Connection, direct: Client
) -> None:
    hold(
        app,
        direct,
        """
        MOVE s 1                            -> 1
        SWAPDB 0 1                          -> OK
        STTLMEMBER s MEMBERS 2 a b          -> [100, 100]
        EXISTS other                        -> 0
    """,
    )
