"""The commands of KeyDB, Dragonfly and Garnet, with the replies of these servers."""

from __future__ import annotations

import pytest

from tests.support.conversation import Talk
from tests.support.error_texts import NOT_AN_INTEGER
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


# --- Garnet


@pytest.mark.parametrize(
    "refused",
    ["EXPIREMEMBER k a", "TTL k a b", "FIELDEXPIRE k 1", "FIELDTTL k", "ZTTL k MEMBERS 1"],
)
def test_too_few_words_or_too_many_abort_a_transaction(app: Connection, refused: str) -> None:
    app.ask("MULTI")
    assert app.ask(*refused.split()).startswith(b"-ERR")
    assert app.ask("EXEC").startswith(b"-EXECABORT")
