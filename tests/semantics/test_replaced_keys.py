"""Commands that replace a key: what they write has no deadlines."""

from __future__ import annotations

import re

from tests.support.conversation import Talk, hold
from tests.support.error_texts import WRONGTYPE
from tests.support.raw_client import Connection
from tests.support.redis_client import Client

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
