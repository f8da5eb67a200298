"""SADD, SPOP and SMOVE on sets with deadlines; what is refused changes nothing."""

from __future__ import annotations

import pytest

from tests.support.conversation import Talk
from tests.support.error_texts import NOT_AN_INTEGER, WRONGTYPE


def test_a_refused_write_of_a_set_leaves_its_deadlines(talk: Talk) -> None:
    talk(f"""
        SADD k a b                          -> 2
        SEXPIREMEMBER k 100 MEMBERS 2 a b   -> [1, 1]
        SET text x                          -> OK
        HSET k a 1                          -> {WRONGTYPE}
        HMSET k a 1                         -> {WRONGTYPE}
        HSETNX k a 1                        -> {WRONGTYPE}
        HINCRBY k a 1                       -> {WRONGTYPE}
        HINCRBYFLOAT k a 1                  -> {WRONGTYPE}
        HDEL k a                            -> {WRONGTYPE}
        HSETEX k FIELDS 1 a 1               -> {WRONGTYPE}
        HSETEX k EX 0 FIELDS 1 a 1          -> {WRONGTYPE}
        SMOVE k text a                      -> {WRONGTYPE}
        SMOVE text k a                      -> {WRONGTYPE}
        SPOP k -1                           -> ERR value is out of range, must be positive
        SPOP k 1 1                          -> ERR syntax error
        PEXPIREAT k x                       -> {NOT_AN_INTEGER}
        STTLMEMBER k MEMBERS 2 a b          -> [100, 100]
    """)


@pytest.mark.parametrize(("pop", "answer"), [("SPOP s", '"a"'), ("SPOP s 1", '["a"]'),
                                             ("SPOP s 9", '["a"]')])  # fmt: skip
def test_a_popped_member_leaves_its_deadline_behind(talk: Talk, pop: str, answer: str) -> None:
    talk(f"""
        SADDEX s 100 a                      -> 1
        {pop}                               -> {answer}
        EXISTS s                            -> 0
        SADD s a                            -> 1
        STTLMEMBER s a                      -> -1
    """)


def test_popping_one_of_many_leaves_the_others_their_deadlines(talk: Talk) -> None:
    talk("""
        SADDEX s 100 a b c d                -> 4
        SPOP s 0                            -> []
        SCARD s                             -> 4
        SPOP s 3                            -> [*
        SADDEX s KEEPTTL 200 a b c d        -> 3
        SPOP s -1                           -> ERR value is out of range, must be positive
        SPOP nokey                          -> nil
        SPOP nokey 3                        -> []
    """)


def test_expired_members_are_not_popped(talk: Talk) -> None:
    talk("""
        SADD s a b c                        -> 3
        SPEXPIREMEMBER s 20 MEMBERS 2 a b   -> [1, 1]
        wait 20
        SPOP s 5                            -> ["c"]
        SPOP s                              -> nil
    """)


# --- SADD


def test_an_expired_member_added_again_is_new_and_has_no_deadline(talk: Talk) -> None:
    talk("""
        SADD s a b                          -> 2
        SPEXPIREMEMBER s a 20               -> 1
        wait 20
        SADD s a b                          -> 1
        STTLMEMBER s MEMBERS 2 a b          -> [-1, -1]
        SCARD s                             -> 2
    """)


# --- R4: SMOVE


def test_a_moved_member_takes_its_deadline_along(talk: Talk) -> None:
    talk("""
        SADDEX from 100 a b                 -> 2
        SADD from c                         -> 1
        SMOVE from to a                     -> 1
        SMOVE from to c                     -> 1
        STTLMEMBER to MEMBERS 3 a b c       -> [100, -2, -1]
        STTLMEMBER from MEMBERS 2 a b       -> [-2, 100]
        SADD from a                         -> 1
        STTLMEMBER from a                   -> -1
    """)


def test_a_moved_member_goes_at_its_old_deadline(talk: Talk) -> None:
    talk("""
        SADDEX from PX 20 MEMBERS 1 a       -> 1
        SADD to z                           -> 1
        SMOVE from to a                     -> 1
        EXISTS from                         -> 0
        wait 20 in time
        SMEMBERS to                         -> ["z"]
    """)


def test_a_live_equal_member_at_the_destination_keeps_its_own_deadline(talk: Talk) -> None:
    talk("""
        SADDEX from 100 a b                 -> 2
        SADD from c                         -> 1
        SADDEX to 200 a c                   -> 2
        SADD to b                           -> 1
        SMOVE from to a                     -> 1
        SMOVE from to b                     -> 1
        SMOVE from to c                     -> 1
        STTLMEMBER to MEMBERS 3 a b c       -> [200, -1, 200]
        EXISTS from                         -> 0
    """)


def test_an_expired_equal_member_at_the_destination_does_not_count(talk: Talk) -> None:
    talk("""
        SADDEX from 100 a                   -> 1
        SADD from b                         -> 1
        SADDEX to PX 20 MEMBERS 2 a b       -> 2
        wait 20
        SMOVE from to a                     -> 1
        SMOVE from to b                     -> 1
        STTLMEMBER to MEMBERS 2 a b         -> [100, -1]
    """)


def test_an_expired_member_cannot_be_moved(talk: Talk) -> None:
    talk("""
        SADD from a b                       -> 2
        SPEXPIREMEMBER from a 20            -> 1
        wait 20
        SMOVE from to a                     -> 0
        EXISTS to                           -> 0
    """)


def test_moving_nowhere_or_to_the_wrong_place_changes_nothing(talk: Talk) -> None:
    talk(f"""
        SADDEX s 100 a                      -> 1
        SET t text                          -> OK
        SMOVE s s a                         -> 1
        SMOVE s s zz                        -> 0
        SMOVE s to zz                       -> 0
        SMOVE s t a                         -> {WRONGTYPE}
        SMOVE t s a                         -> {WRONGTYPE}
        SMOVE nokey t a                     -> 0
        STTLMEMBER s a                      -> 100
    """)


def test_moving_into_an_expiring_set_keeps_that_keys_expiry(talk: Talk) -> None:
    talk("""
        SADDEX from 200 a b                 -> 2
        EXPIRE from 300                     -> 1
        SADD to z                           -> 1
        EXPIRE to 100                       -> 1
        SMOVE from to a                     -> 1
        SMOVE from new b                    -> 1
        TTL to                              -> 100
        TTL new                             -> -1
        STTLMEMBER new b                    -> 200
    """)
