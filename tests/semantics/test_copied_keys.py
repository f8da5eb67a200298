"""COPY, MOVE and MIGRATE of keys with deadlines, in one database and across."""

from __future__ import annotations

import pytest

from tests.support.containers import AnyServer
from tests.support.conversation import Talk, hold
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import until_swept


def test_a_copied_key_has_the_deadlines_of_the_original(every: Talk) -> None:
    every("""
        ADD k a b                           -> 2
        HEXPIREFIELD k a 100                -> 1
        EXPIRE k 300                        -> 1
        COPY k new                          -> 1
        HTTLFIELD new FIELDS 2 a b          -> [100, -1]
        TTL new                             -> 300
        HTTLFIELD k FIELDS 2 a b            -> [100, -1]
        REM k a                             -> 1
        HTTLFIELD new a                     -> 100
        COPY nokey new                      -> 0
        COPY k k                            -> ERR source and destination objects are the same
        HTTLFIELD k b                       -> -1
    """)


def test_a_key_copied_onto_a_managed_one_replaces_its_deadlines(every: Talk) -> None:
    every("""
        ADD k a b                           -> 2
        HEXPIREFIELD k a 100                -> 1
        ADD other a b                       -> 2
        HPEXPIREFIELD other b 40            -> 1
        COPY k other                        -> 0
        COPY k other DB 0                   -> 0
        HTTLFIELD other a                   -> -1
        COPY k other REPLACE                -> 1
        HTTLFIELD other FIELDS 2 a b        -> [100, -1]
        ADD plain a b                       -> 2
        COPY plain k REPLACE                -> 1
        HTTLFIELD k FIELDS 2 a b            -> [-1, -1]
        SET text x                          -> OK
        COPY text other REPLACE             -> 1
        DEL other                           -> 1
        ADD other a                         -> 1
        HTTLFIELD other a                   -> -1
        wait 40
        LEN k                               -> 2
    """)


def test_the_deadlines_of_a_copy_pass_and_those_of_the_original_too(every: Talk) -> None:
    every("""
        ADD k a b                           -> 2
        HPEXPIREFIELD k a 30                -> 1
        COPY k new                          -> 1
        COPY k new DB 1                     -> 1
        wait 30
        LEN k                               -> 1
        LEN new                             -> 1
        SELECT 1                            -> OK
        LEN new                             -> 1
    """)


def test_an_all_expired_target_does_not_stop_a_copy_or_a_move(every: Talk) -> None:
    every("""
        ADD k a                             -> 1
        HEXPIREFIELD k a 100                -> 1
        ADD other a                         -> 1
        HPEXPIREFIELD other a 20            -> 1
        SELECT 1                            -> OK
        ADD k a b                           -> 2
        HPEXPIREFIELD k 20 FIELDS 2 a b     -> [1, 1]
        SELECT 0                            -> OK
        wait 20
        COPY k other                        -> 1
        HTTLFIELD other a                   -> 100
        MOVE k 1                            -> 1
        EXISTS k                            -> 0
        SELECT 1                            -> OK
        HTTLFIELD k FIELDS 2 a b            -> [100, -2]
    """)


def test_a_key_is_copied_to_another_database_with_its_deadlines(every: Talk) -> None:
    every("""
        ADD k a b                           -> 2
        HEXPIREFIELD k a 100                -> 1
        COPY k k DB 1                       -> 1
        COPY k k db 1                       -> 0
        COPY k k DB 1 replace               -> 1
        COPY k k DB 0                       -> ERR source and destination objects are the same
        REM k a                             -> 1
        ADD k a                             -> *
        SELECT 1                            -> OK
        HTTLFIELD k FIELDS 2 a b            -> [100, -1]
        COPY k other DB 0 REPLACE           -> 1
        COPY k k DB 1                       -> ERR source and destination objects are the same
        SELECT 0                            -> OK
        HTTLFIELD other FIELDS 2 a b        -> [100, -1]
        LEN k                               -> 2
    """)


def test_a_moved_key_takes_its_deadlines_along(every: Talk) -> None:
    every("""
        ADD k a b                           -> 2
        HEXPIREFIELD k a 100                -> 1
        EXPIRE k 300                        -> 1
        MOVE k 1                            -> 1
        MOVE k 1                            -> 0
        ADD k a                             -> 1
        HTTLFIELD k a                       -> -1
        MOVE k 1                            -> 0
        SELECT 1                            -> OK
        HTTLFIELD k FIELDS 2 a b            -> [100, -1]
        TTL k                               -> 300
        REM k b                             -> 1
        MOVE k 0                            -> 0
        SELECT 0                            -> OK
        DEL k                               -> 1
        SELECT 1                            -> OK
        MOVE k 0                            -> 1
        EXISTS k                            -> 0
        SELECT 0                            -> OK
        HTTLFIELD k a                       -> 100
    """)


def test_deadlines_pass_in_the_database_that_a_key_was_moved_to(every: Talk) -> None:
    every("""
        ADD k a b                           -> 2
        HPEXPIREFIELD k a 30                -> 1
        MOVE k 1                            -> 1
        SELECT 1                            -> OK
        wait 30
        LEN k                               -> 1
        SELECT 0                            -> OK
        EXISTS k                            -> 0
    """)


@pytest.mark.parametrize(
    ("refused", "answer"),
    [
        ("MOVE k 0", "ERR source and destination objects are the same"),
        ("MOVE k 99", "ERR DB index is out of range"),
        ("MOVE k -1", "ERR*"),
        ("MOVE k x", "ERR value is not an integer or out of range"),
        ("MOVE k 99999999999", "ERR*"),
        ("COPY k new DB 99", "ERR DB index is out of range"),
        ("COPY k new DB x", "ERR value is not an integer or out of range"),
        ("COPY k new DB", "ERR syntax error"),
        ("COPY k new REPLACE NOW", "ERR syntax error"),
        ("COPY k text", "0"),
        ("COPY nokey k REPLACE", "0"),
        ("MOVE nokey 1", "0"),
    ],
)
def test_a_refused_copy_or_move_changes_nothing(talk: Talk, refused: str, answer: str) -> None:
    talk(f"""
        SADDEX k 100 a                      -> 1
        SET text x                          -> OK
        {refused}                           -> {answer}
        EXISTS new                          -> 0
        STTLMEMBER k a                      -> 100
    """)


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
