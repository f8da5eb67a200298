"""The commands of KeyDB, Dragonfly and Garnet, with the replies of these servers."""

from __future__ import annotations

import pytest

from tests.support.conversation import Talk
from tests.support.error_texts import NOT_AN_INTEGER, WRONGTYPE
from tests.support.raw_client import Connection

FILLED = {
    "hash": ("HSET k a 1 b 2 -> 2", "HTTLFIELD", "HLEN"),
    "set": ("SADD k a b -> 2", "STTLMEMBER", "SCARD"),
    "zset": ("ZADD k 1 a 2 b -> 2", "ZTTLMEMBER", "ZCARD"),
}
of_each_type = pytest.mark.parametrize("type_", FILLED)


# --- KeyDB


@of_each_type
def test_keydb_gives_one_member_of_three_types_its_deadline(talk: Talk, type_: str) -> None:
    fill, ttl, length = FILLED[type_]
    at = ttl.replace("TTL", "EXPIRETIME")
    talk(f"""
        {fill}
        EXPIREMEMBER k a 100                        -> 1
        TTL k a                                     -> 100
        {ttl} k a                                   -> 100
        EXPIREMEMBER k a 200 S                      -> 1
        TTL k a                                     -> 200
        expiremember k b 300000 ms                  -> 1
        ttl k b                                     -> 300
        EXPIREMEMBERAT k a @+100s                   -> 1
        PEXPIREMEMBERAT k b @+200000ms              -> 1
        {at} k a                                    -> @+100s
        {at} k b                                    -> @+200s
        TTL k                                       -> -1
        PTTL k                                      -> -1
        PERSIST k                                   -> 0
        PERSIST k a                                 -> 1
        PERSIST k a                                 -> 0
        TTL k a                                     -> -1
        PTTL k a                                    -> -1
        EXPIREMEMBER k zz 100                       -> 0
        PERSIST k zz                                -> 0
        TTL k zz                                    -> -1
        EXPIREMEMBER k a 0                          -> 1
        {length} k                                  -> 1
        EXPIREMEMBER k b -1                         -> 1
        EXISTS k                                    -> 0
    """)


def test_keydb_knows_no_members_of_other_types_and_of_no_key(talk: Talk) -> None:
    talk(f"""
        EXPIREMEMBER no a 100                       -> 0
        TTL no a                                    -> -2
        PTTL no a                                   -> -2
        PERSIST no a                                -> 0
        SET s text                                  -> OK
        RPUSH l a                                   -> 1
        EXPIREMEMBER s a 100                        -> ERR object type is unsupported
        PEXPIREMEMBERAT l a 1                       -> ERR object type is unsupported
        TTL s a                                     -> -1
        PTTL l a                                    -> -1
        PERSIST s a                                 -> 0
        EXPIREMEMBER s a x hours                    -> {NOT_AN_INTEGER}
        EXPIREMEMBER no a 100 hours                 -> ERR Invalid unit arg
        EXPIREMEMBERAT no a 01                      -> {NOT_AN_INTEGER}
        EXPIREMEMBER no a 70368744178 -> ERR invalid expire time in 'expiremember' command
        LRANGE l 0 -1                               -> ["a"]
    """)


def test_the_forms_of_redis_itself_stay_its_own(talk_one_by_one: Talk) -> None:
    talk_one_by_one("""
        SADD k a                                    -> 1
        EXPIRE k 100                                -> 1
        EXPIREMEMBER k a 50                         -> 1
        TTL k                                       -> 100
        TTL k a                                     -> 50
        PERSIST k                                   -> 1
        TTL k                                       -> -1
        TTL k a                                     -> 50
        TTL -> ERR wrong number of arguments for 'ttl' command
        TTL k a b -> ERR wrong number of arguments for 'ttl' command
        PTTL k a b -> ERR wrong number of arguments for 'pttl' command
        PERSIST k a b -> ERR wrong number of arguments for 'persist' command
        EXPIREMEMBER k a -> ERR wrong number of arguments for 'expiremember' command
        EXPIREMEMBER k a 1 s s -> ERR wrong number of arguments for 'expiremember' command
        EXPIREMEMBERAT k a 1 1 -> ERR wrong number of arguments for 'expirememberat' command
    """)


def test_two_words_of_ttl_are_about_the_key_where_its_elements_have_deadlines_too(
    app: Connection,
) -> None:
    app.ask("SADDEX", "k", "100", "a")
    for name in ("TTL", "PTTL"):
        assert app.ask(name, "k") == b":-1\r\n"
    app.ask("EXPIRE", "k", 1000)
    assert app.ask("TTL", "k") in (b":1000\r\n", b":999\r\n")


@of_each_type
def test_what_is_past_its_deadline_is_absent(talk: Talk, type_: str) -> None:
    fill, _, length = FILLED[type_]
    talk(f"""
        {fill}
        EXPIREMEMBER k a 20 ms                      -> 1
        wait 20
        TTL k a                                     -> -1
        EXPIREMEMBER k a 100                        -> 0
        {length} k                                  -> 1
    """)


# --- Dragonfly


@pytest.mark.parametrize("type_", ["hash", "set"])
def test_dragonfly_gives_fields_and_members_deadlines(talk: Talk, type_: str) -> None:
    fill, ttl, length = FILLED[type_]
    talk(f"""
        {fill}
        FIELDTTL k a                                -> -1
        FIELDEXPIRE k 100 a zz b                    -> [1, -2, 1]
        FIELDTTL k a                                -> 100
        {ttl} k b                                   -> 100
        FIELDTTL k zz                               -> -3
        FIELDEXPIRE k 0 a                           -> {NOT_AN_INTEGER}
        FIELDTTL k a                                -> 100
        {length} k                                  -> 2
        DEL k                                       -> 1
        FIELDTTL k b                                -> -2
    """)


def test_dragonfly_knows_no_fields_of_other_types_and_of_no_key(talk: Talk) -> None:
    talk(f"""
        FIELDEXPIRE no 100 a b                      -> [-2, -2]
        FIELDTTL no a                               -> -2
        SET s text                                  -> OK
        ZADD z 1 a                                  -> 1
        RPUSH l a                                   -> 1
        ZEXPIREMEMBER z a 1000                      -> 1
        FIELDEXPIRE s 100 a                         -> [-2]
        FIELDEXPIRE z 100 a b                       -> [-2, -2]
        FIELDEXPIRE l 100 a                         -> [-2]
        ZTTLMEMBER z a                              -> 1000
        FIELDTTL s a                                -> {WRONGTYPE}
        FIELDTTL z a                                -> {WRONGTYPE}
        FIELDEXPIRE s x a                           -> {NOT_AN_INTEGER}
        FIELDEXPIRE no -1 a                         -> {NOT_AN_INTEGER}
        FIELDEXPIRE no 70368744178 a -> ERR invalid expire time in 'fieldexpire' command
        ZCARD z                                     -> 1
    """)


def test_dragonflys_hsetex_says_how_many_fields_are_new(talk: Talk) -> None:
    talk("""
        HSETEX h 100 a 1 b 2                        -> 2
        HSETEX h 200 a 3 c 3 c 4                    -> 1
        HTTLFIELD h FIELDS 3 a b c                  -> [200, 100, 200]
        HMGET h a c                                 -> ["3", "4"]
        hsetex h nx 300 a 5 d 5 d 6                 -> 1
        HMGET h a d                                 -> ["3", "5"]
        HTTLFIELD h FIELDS 2 a d                    -> [200, 300]
        HSETEX h NX 300 a 5                         -> 0
        HSETEX h FNX 400 a 6 e 6                    -> 0
        HSETEX h FXX 400 a 6 e 6                    -> 0
        HEXISTS h e                                 -> 0
        HSETEX h FXX 400 a 6                        -> 0
        HSETEX h KEEPTTL 500 a 7 e 7                -> 1
        HSETEX h KEEPTTL FNX 500 f 7                -> 1
        HTTLFIELD h FIELDS 3 a e f                  -> [400, 500, 500]
        HGET h a                                    -> "7"
        HSETEX new 10 FIELDS 1                      -> 1
        HGETALL new                                 -> ["FIELDS", "1"]
        HSETEX new EX 20 FIELDS 1 FIELDS 2          -> 1
        HTTLFIELD new FIELDS                        -> 20
    """)


def test_dragonflys_hsetex_refuses_what_dragonfly_refuses(talk_one_by_one: Talk) -> None:
    arity = "ERR wrong number of arguments for 'hsetex' command"
    talk_one_by_one(f"""
        HSETEX h 0 a 1                              -> {NOT_AN_INTEGER}
        HSETEX h -1 a 1                             -> {NOT_AN_INTEGER}
        HSETEX h 10 a                               -> {arity}
        HSETEX h 10 a 1 b                           -> {arity}
        HSETEX h KEEPTTL NX 10                      -> {arity}
        HSETEX h NX FNX 10 a 1                      -> ERR syntax error
        HSETEX h KEEPTTL KEEPTTL 10 a 1             -> ERR syntax error
        SET s text                                  -> OK
        HSETEX s 10 a 1                             -> {WRONGTYPE}
        EXISTS h                                    -> 0
    """)


# --- Garnet


def test_garnet_gives_members_of_sorted_sets_deadlines(talk: Talk) -> None:
    talk("""
        ZADD z 1 a 2 b 3 c                          -> 3
        ZEXPIRE z 100 MEMBERS 3 a zz b              -> [1, -2, 1]
        ZTTL z MEMBERS 4 a b c zz                   -> [100, 100, -1, -2]
        ZEXPIRE z 200 NX members 2 a c              -> [0, 1]
        ZPEXPIRE z 300000 XX MEMBERS 1 a            -> [1]
        ZTTL z MEMBERS 2 a c                        -> [300, 200]
        ZEXPIREAT z @+100s GT MEMBERS 1 a           -> [0]
        ZEXPIREAT z @+100s LT MEMBERS 1 a           -> [1]
        ZPEXPIREAT z @+200000ms MEMBERS 1 b         -> [1]
        ZEXPIRETIME z MEMBERS 2 a b                 -> [@+100s, @+200s]
        ZPEXPIRETIME z MEMBERS 3 a b zz             -> [@+100000ms, @+200000ms, -2]
        ZPTTL z MEMBERS 1 zz                        -> [-2]
        ZPERSIST z MEMBERS 4 a a zz b               -> [1, -1, -2, 1]
        ZTTLMEMBER z a                              -> -1
        ZEXPIRE z 0 MEMBERS 2 a b                   -> [2, 2]
        ZPEXPIREAT z 1 MEMBERS 1 c                  -> [2]
        EXISTS z                                    -> 0
    """)


def test_garnet_looks_at_its_words_before_it_looks_at_the_key(talk: Talk) -> None:
    word = "ERR Mandatory argument MEMBERS is missing or not at the right position"
    match = "ERR The `numMembers` parameter must match the number of arguments"
    positive = "ERR Parameter `numMembers` should be greater than 0"
    talk(f"""
        SADD s a                                    -> 1
        ZEXPIRE s 100 MEMBERS 1 a                   -> {WRONGTYPE}
        ZTTL s MEMBERS 1 a                          -> {WRONGTYPE}
        ZPERSIST s MEMBERS 1 a                      -> {WRONGTYPE}
        ZEXPIRE s x MEMBERS 1 a                     -> {NOT_AN_INTEGER}
        ZEXPIRE s -1 MEMBERS 1 a                    -> ERR invalid expire time, must be >= 0
        ZPEXPIREAT s 70368744177664 WORD 1 a -> ERR invalid expire time in 'zpexpireat' command
        ZEXPIRE s 100 WORD 1 a                      -> {word}
        ZEXPIRE s 100 NX XX MEMBERS 1 a             -> {word}
        ZTTL s FIELDS 1 a                           -> {word}
        ZEXPIRE s 100 MEMBERS x a                   -> {positive}
        ZPERSIST s MEMBERS 0 a                      -> {positive}
        ZEXPIRE s 100 NX MEMBERS 1                  -> {match}
        ZEXPIRE s 100 MEMBERS 2 a                   -> {match}
        ZTTL s MEMBERS 1 a b                        -> {match}
        ZEXPIRE no 100 MEMBERS 2 a b                -> [-2, -2]
        ZTTL no MEMBERS 2 a b                       -> [-2, -2]
        ZPERSIST no MEMBERS 1 a                     -> [-2]
    """)


@pytest.mark.parametrize(
    "refused",
    ["EXPIREMEMBER k a", "TTL k a b", "FIELDEXPIRE k 1", "FIELDTTL k", "ZTTL k MEMBERS 1"],
)
def test_too_few_words_or_too_many_abort_a_transaction(app: Connection, refused: str) -> None:
    app.ask("MULTI")
    assert app.ask(*refused.split()).startswith(b"-ERR")
    assert app.ask("EXEC").startswith(b"-EXECABORT")
