"""LMOVE and RPOPLPUSH: a value takes its deadline along."""

from __future__ import annotations

import pytest

from tests.support.conversation import Talk
from tests.support.error_texts import WRONGTYPE


@pytest.mark.parametrize("move", ["RPOPLPUSH from to", "LMOVE from to RIGHT LEFT",
                                  "lmove from to right right"])  # fmt: skip
def test_a_moved_value_takes_its_deadline_along(talk: Talk, move: str) -> None:
    talk(f"""
        RPUSH from a b c                        -> 3
        LEXPIREELEMENT from 100 ELEMENTS 2 a c  -> [1, 1]
        {move}                                  -> "c"
        {move}                                  -> "b"
        LTTLELEMENT to ELEMENTS 2 b c           -> [-1, 100]
        RPUSH from c                            -> 2
        LTTLELEMENT from ELEMENTS 2 a c         -> [100, -1]
    """)


def test_the_copies_that_stay_keep_the_deadline_that_travels(talk: Talk) -> None:
    talk("""
        RPUSH from a b a                        -> 3
        LEXPIREELEMENT from a 100               -> 1
        LMOVE from to LEFT LEFT                 -> "a"
        LTTLELEMENT from a                      -> 100
        LTTLELEMENT to a                        -> 100
    """)


def test_a_moved_value_goes_at_its_old_deadline(talk: Talk) -> None:
    talk("""
        RPUSH from a                            -> 1
        LPEXPIREELEMENT from a 20               -> 1
        RPUSH to z                              -> 1
        RPOPLPUSH from to                       -> "a"
        EXISTS from                             -> 0
        wait 20 in time
        LRANGE to 0 -1                          -> ["z"]
    """)


def test_a_live_equal_value_at_the_destination_keeps_its_own_deadline(talk: Talk) -> None:
    talk("""
        RPUSH from a b c                        -> 3
        LEXPIREELEMENT from 100 ELEMENTS 2 a b  -> [1, 1]
        RPUSH to a b c                          -> 3
        LEXPIREELEMENT to 200 ELEMENTS 2 a c    -> [1, 1]
        LMOVE from to LEFT RIGHT                -> "a"
        LMOVE from to LEFT RIGHT                -> "b"
        LMOVE from to LEFT RIGHT                -> "c"
        LTTLELEMENT to ELEMENTS 3 a b c         -> [200, -1, 200]
        EXISTS from                             -> 0
    """)


def test_an_expired_equal_value_at_the_destination_does_not_count(talk: Talk) -> None:
    talk("""
        RPUSH from a b                          -> 2
        LEXPIREELEMENT from a 100               -> 1
        RPUSH to a b                            -> 2
        LPEXPIREELEMENT to 20 ELEMENTS 2 a b    -> [1, 1]
        wait 20
        RPOPLPUSH from to                       -> "b"
        RPOPLPUSH from to                       -> "a"
        LRANGE to 0 -1                          -> ["a", "b"]
        LTTLELEMENT to ELEMENTS 2 a b           -> [100, -1]
    """)


def test_an_expired_value_is_not_moved(talk: Talk) -> None:
    talk("""
        RPUSH from a b                          -> 2
        LPEXPIREELEMENT from b 20               -> 1
        wait 20
        RPOPLPUSH from to                       -> "a"
        RPOPLPUSH from to                       -> nil
        LRANGE to 0 -1                          -> ["a"]
    """)


@pytest.mark.parametrize("rotate", ["RPOPLPUSH l l", "LMOVE l l RIGHT LEFT"])
def test_a_rotated_list_keeps_its_deadlines(talk: Talk, rotate: str) -> None:
    talk(f"""
        RPUSH l a b                             -> 2
        LEXPIREELEMENT l 100 ELEMENTS 2 a b     -> [1, 1]
        {rotate}                                -> "b"
        {rotate}                                -> "a"
        LTTLELEMENT l ELEMENTS 2 a b            -> [100, 100]
        LRANGE l 0 -1                           -> ["a", "b"]
    """)


def test_moving_nowhere_or_to_the_wrong_place_changes_nothing(talk: Talk) -> None:
    talk(f"""
        RPUSH l a                               -> 1
        LEXPIREELEMENT l a 100                  -> 1
        SET t text                              -> OK
        LMOVE l t LEFT LEFT                     -> {WRONGTYPE}
        RPOPLPUSH t l                           -> {WRONGTYPE}
        RPOPLPUSH nokey t                       -> nil
        LMOVE nokey l LEFT RIGHT                -> nil
        LMOVE l to LEFT UP                      -> ERR syntax error
        LMOVE l to UP LEFT                      -> ERR syntax error
        EXISTS to                               -> 0
        LTTLELEMENT l a                         -> 100
    """)


def test_moving_into_an_expiring_list_keeps_that_keys_expiry(talk: Talk) -> None:
    talk("""
        RPUSH from a b                          -> 2
        LEXPIREELEMENT from 200 ELEMENTS 2 a b  -> [1, 1]
        EXPIRE from 300                         -> 1
        RPUSH to z                              -> 1
        EXPIRE to 100                           -> 1
        LMOVE from to LEFT LEFT                 -> "a"
        LMOVE from new LEFT LEFT                -> "b"
        TTL to                                  -> 100
        TTL new                                 -> -1
        LTTLELEMENT new b                       -> 200
    """)
