"""Equal values in one list share one deadline and expire together: docs/semantics.md, "Lists".

What one command does is in command_cases.py; pushes and long lists are in files of their own.
"""

from __future__ import annotations

import pytest

from tests.support.conversation import Talk
from tests.support.error_texts import NOT_AN_INTEGER, WRONGTYPE

# --- equal values


def test_equal_values_share_one_deadline_and_go_together(talk: Talk) -> None:
    talk("""
        RPUSH l a b a c a                       -> 5
        LPEXPIREELEMENT l a 20                  -> 1
        LTTLELEMENT l ELEMENTS 3 a b c          -> [1, -1, -1]
        wait 20 in time
        LRANGE l 0 -1                           -> ["b", "c"]
        LLEN l                                  -> 2
        LEXPIREELEMENT l b 0                    -> 2
        RPUSH l c                               -> 2
        LEXPIREELEMENT l 0 ELEMENTS 2 c c       -> [2, -2]
        EXISTS l                                -> 0
    """)


# --- LSET


def test_lset_takes_the_deadline_of_the_old_value_with_its_last_copy(talk: Talk) -> None:
    talk("""
        RPUSH l a a b                           -> 3
        LEXPIREELEMENT l a 100                  -> 1
        LSET l 0 c                              -> OK
        LTTLELEMENT l ELEMENTS 3 a b c          -> [100, -1, -1]
        LSET l -2 c                             -> OK
        RPUSH l a                               -> 4
        LTTLELEMENT l ELEMENTS 3 a b c          -> [-1, -1, -1]
    """)


def test_the_value_that_lset_writes_has_the_deadline_of_its_equal_or_none(talk: Talk) -> None:
    talk("""
        RPUSH l a b c                           -> 3
        LEXPIREELEMENT l 100 ELEMENTS 2 a c     -> [1, 1]
        LSET l 1 a                              -> OK
        LSET l 2 c                              -> OK
        LTTLELEMENT l ELEMENTS 3 a b c          -> [100, -2, 100]
        LSET l 2 b                              -> OK
        LTTLELEMENT l ELEMENTS 3 a b c          -> [100, -1, -2]
    """)


# --- what is refused changes nothing


def test_a_refused_write_of_a_managed_list_leaves_its_deadlines(talk: Talk) -> None:
    talk(f"""
        RPUSH k a b                             -> 2
        LEXPIREELEMENT k 100 ELEMENTS 2 a b     -> [1, 1]
        SET text x                              -> OK
        HSET k a 1                              -> {WRONGTYPE}
        SADD k a                                -> {WRONGTYPE}
        SREM k a                                -> {WRONGTYPE}
        SPOP k                                  -> {WRONGTYPE}
        LPUSH text a                            -> {WRONGTYPE}
        LINSERT text BEFORE a b                 -> {WRONGTYPE}
        LSET text 0 a                           -> {WRONGTYPE}
        LREM text 0 a                           -> {WRONGTYPE}
        LTRIM text 0 0                          -> {WRONGTYPE}
        LPOP text                               -> {WRONGTYPE}
        LTTLELEMENT k ELEMENTS 2 a b            -> [100, 100]
    """)


@pytest.mark.parametrize("write", ["LPUSH k a", "RPUSHX k a", "LINSERT k BEFORE a b", "LSET k 0 a",
                                   "LREM k 0 a", "LTRIM k 0 0", "LPOP k", "LMOVE k to LEFT LEFT",
                                   "RPOPLPUSH k k"])  # fmt: skip
def test_a_managed_key_of_another_type_is_refused(talk: Talk, write: str) -> None:
    talk(f"""
        SADDEX k 100 a                          -> 1
        {write}                                 -> {WRONGTYPE}
        STTLMEMBER k a                          -> 100
    """)


@pytest.mark.parametrize("count", [0, 3, 9, -3])
def test_the_deadline_goes_with_the_last_copy_that_lrem_removes(talk: Talk, count: int) -> None:
    talk(f"""
        RPUSH l a b a c a                       -> 5
        LEXPIREELEMENT l 100 ELEMENTS 2 a b     -> [1, 1]
        LREM l {count} a                        -> 3
        RPUSH l a                               -> 3
        LTTLELEMENT l ELEMENTS 3 a b c          -> [-1, 100, -1]
    """)


def test_the_deadline_stays_with_the_copies_that_lrem_leaves(talk: Talk) -> None:
    talk(f"""
        RPUSH l a b a                           -> 3
        LEXPIREELEMENT l a 100                  -> 1
        LREM l -1 a                             -> 1
        LREM l 0 zz                             -> 0
        LREM l x a                              -> {NOT_AN_INTEGER}
        LREM l 01 a                             -> {NOT_AN_INTEGER}
        LTTLELEMENT l ELEMENTS 2 a b            -> [100, -1]
        LRANGE l 0 -1                           -> ["a", "b"]
    """)


# --- LTRIM


@pytest.mark.parametrize(
    ("start", "stop"),
    [(1, 2), (-4, -3), (1, -3), (-4, 2), (1, "2")],
)
def test_the_deadlines_of_what_was_trimmed_away_go_with_the_last_copies(
    talk: Talk, start: int, stop: int
) -> None:
    talk(f"""
        RPUSH l a b c b d                       -> 5
        LEXPIREELEMENT l 100 ELEMENTS 4 a b c d -> [1, 1, 1, 1]
        LTRIM l {start} {stop}                  -> OK
        LRANGE l 0 -1                           -> ["b", "c"]
        RPUSH l a d                             -> 4
        LTTLELEMENT l ELEMENTS 4 a b c d        -> [-1, 100, 100, -1]
    """)


@pytest.mark.parametrize(
    ("start", "stop"), [(2, 1), (9, 9), (0, -9), (-1, -2), (-1, 0), (-2, -9), (3, 9)]
)
def test_a_list_that_was_trimmed_to_nothing_starts_clean(talk: Talk, start: int, stop: int) -> None:
    talk(f"""
        RPUSH l a b c                           -> 3
        LEXPIREELEMENT l 100 ELEMENTS 2 a c     -> [1, 1]
        LTRIM l {start} {stop}                  -> OK
        EXISTS l                                -> 0
        RPUSH l a b c                           -> 3
        LTTLELEMENT l ELEMENTS 3 a b c          -> [-1, -1, -1]
    """)


@pytest.mark.parametrize(("start", "stop"), [(0, -1), (-9, 9), (0, 2)])
def test_trimming_nothing_changes_nothing(talk: Talk, start: int, stop: int) -> None:
    talk(f"""
        RPUSH l a b c                           -> 3
        LEXPIREELEMENT l 100 ELEMENTS 2 a c     -> [1, 1]
        LTRIM l {start} {stop}                  -> OK
        LTRIM l 1 x                             -> {NOT_AN_INTEGER}
        LTRIM l 0x1 1                           -> {NOT_AN_INTEGER}
        LTRIM nokey 1 1                         -> OK
        LTTLELEMENT l ELEMENTS 3 a b c          -> [100, -1, 100]
    """)


# --- LPOP and RPOP, with and without count, LMPOP


@pytest.mark.parametrize("pop", ["LPOP l", "RPOP l", "lpop l"])
def test_the_last_copy_popped_takes_its_deadline(talk: Talk, pop: str) -> None:
    talk(f"""
        RPUSH l a a                             -> 2
        LEXPIREELEMENT l a 100                  -> 1
        {pop}                                   -> "a"
        LTTLELEMENT l a                         -> 100
        {pop}                                   -> "a"
        {pop}                                   -> nil
        EXISTS l                                -> 0
        RPUSH l a                               -> 1
        LTTLELEMENT l a                         -> -1
    """)


# --- LMOVE and RPOPLPUSH: a value takes its deadline along


def test_the_copies_that_stay_keep_the_deadline_that_travels(talk: Talk) -> None:
    talk("""
        RPUSH from a b a                        -> 3
        LEXPIREELEMENT from a 100               -> 1
        LMOVE from to LEFT LEFT                 -> "a"
        LTTLELEMENT from a                      -> 100
        LTTLELEMENT to a                        -> 100
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
