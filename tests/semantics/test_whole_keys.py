"""Deletion, expiry and databases of whole keys, and the rest that all types have in common."""

from __future__ import annotations

import pytest

from tests.support.containers import Container
from tests.support.conversation import Talk
from tests.support.raw_client import Connection, command
from tests.support.servers import Server

# --- R3: removing an element removes its deadline


def test_removing_what_expired_counts_nothing(every: Talk) -> None:
    every("""
        ADD k a b c                     -> 3
        HPEXPIREFIELD k a 20            -> 1
        wait 20
        REM k a b b zz                  -> 1
        REM k c                         -> 1
        EXISTS k                        -> 0
    """)


def test_the_last_element_takes_its_key_and_all_that_belongs_to_it(every: Talk) -> None:
    every("""
        ADD k a b                       -> 2
        HEXPIREFIELD k 100 FIELDS 2 a b -> [1, 1]
        REM k a b                       -> 2
        EXISTS k                        -> 0
        ADD k a                         -> 1
        HTTLFIELD k FIELDS 2 a b        -> [-1, -2]
    """)


# --- R5 and whole keys


@pytest.mark.parametrize("delete", ["DEL", "UNLINK"])
def test_a_deleted_key_starts_clean(every: Talk, delete: str) -> None:
    every(f"""
        ADD k a b                       -> 2
        HPEXPIREFIELD k a 20            -> 1
        HEXPIREFIELD k b 100            -> 1
        {delete} k nokey k              -> 1
        ADD k a b                       -> 2
        HTTLFIELD k FIELDS 2 a b        -> [-1, -1]
        wait 20
        LEN k                           -> 2
    """)


@pytest.mark.parametrize("expire", ["EXPIRE k 200", "PEXPIRE k 200000", "EXPIREAT k @+200s",
                                    "PEXPIREAT k @+200000ms"])  # fmt: skip
def test_the_keys_own_expiry_leaves_deadlines_alone_and_persist_does_too(
    every: Talk, expire: str
) -> None:
    every(f"""
        ADD k a b                       -> 2
        HEXPIREFIELD k a 100            -> 1
        {expire}                        -> 1
        HTTLFIELD k FIELDS 2 a b        -> [100, -1]
        HEXPIREFIELD k b 300            -> 1
        PERSIST k                       -> 1
        PERSIST k                       -> 0
        TTL k                           -> -1
        HTTLFIELD k FIELDS 2 a b        -> [100, 300]
    """)


def test_deadlines_that_come_back_follow_the_keys_expiry_again(every: Talk) -> None:
    """The index was emptied in between, and lost its own expiry with that."""
    every("""
        ADD k a                         -> 1
        HEXPIREFIELD k a 100            -> 1
        PEXPIRE k 20                    -> 1
        HPERSISTFIELD k a               -> 1
        HEXPIREFIELD k a 100            -> 1
        wait 20 in time
        ADD k a                         -> 1
        HTTLFIELD k a                   -> -1
    """)


def test_conditions_of_expire_hold_for_deadlines_too(
    every: Talk, server: Server | Container
) -> None:
    if server.name == "6.2":
        pytest.skip("EXPIRE takes conditions from Redis 7.0 on")
    every("""
        ADD k a b                       -> 2
        HEXPIREFIELD k a 100            -> 1
        EXPIRE k 10 XX                  -> 0
        PEXPIRE k 20 GT                 -> 0
        EXPIREAT k @+200s NX            -> 1
        EXPIRE k 0 GT                   -> 0
        PEXPIREAT k @+200000ms LT       -> 0
        PEXPIRE k 20 lt                 -> 1
        wait 20
        ADD k a                         -> 1
        HTTLFIELD k a                   -> -1
    """)


@pytest.mark.parametrize("time", ["EXPIRE k -1", "PEXPIREAT k 1", "PEXPIRE k 1", "EXPIRE k 100"])
def test_the_expiry_of_a_key_that_a_pop_has_emptied_leaves_nothing(talk: Talk, time: str) -> None:
    talk(f"""
        RPUSH k a b                         -> 2
        LEXPIREELEMENT k 100 ELEMENTS 2 a b -> [1, 1]
        BLPOP k 0                           -> ["k", "a"]
        BLPOP k 0                           -> ["k", "b"]
        {time}                              -> 0
        EXISTS k                            -> 0
    """)


def test_the_same_key_in_another_database_is_another_key(every: Talk) -> None:
    every("""
        SELECT 1                        -> OK
        ADD k a b                       -> 2
        HPEXPIREFIELD k a 20            -> 1
        HEXPIREFIELD k b 100            -> 1
        SELECT 0                        -> OK
        ADD k a b                       -> 2
        HTTLFIELD k a                   -> -1
        wait 20
        LEN k                           -> 2
        DEL k                           -> 1
        SELECT 1                        -> OK
        LEN k                           -> 1
        HTTLFIELD k b                   -> 100
    """)


# --- transactions


@pytest.mark.parametrize(
    "refused", ["HEXPIREFIELD k a", "HEXPIREFIELD", "HTTLFIELD k", "HTTLFIELD k FIELDS 1",
                "HPERSISTFIELD k a b", "HSETEX h FIELDS 1 a", "SADDEX s 100"],
)  # fmt: skip
def test_a_virtual_command_of_too_few_words_aborts_the_transaction(
    talk_one_by_one: Talk, refused: str
) -> None:
    talk_one_by_one(f"""
        MULTI                               -> OK
        SET text x                          -> QUEUED
        {refused}                           -> ERR*
        SET text y                          -> QUEUED
        EXEC -> EXECABORT Transaction discarded because of previous errors.
        GET text                            -> nil
    """)


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


# --- RESP3


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
