"""Equal values in one list share one deadline and expire together: docs/semantics.md, "Lists".

LSET, and what is refused. Pushes, removals, moves and long lists are in files of their own. What
lists have in common with the other types is in test_past_deadlines.py and test_whole_keys.py.
"""

from __future__ import annotations

import pytest

from tests.support.conversation import Talk
from tests.support.error_texts import NOT_AN_INTEGER, WRONGTYPE

OUT_OF_RANGE = "ERR index out of range"


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


def test_numbers_and_long_values_are_values_like_others(talk: Talk) -> None:
    long = "x" * 9000
    talk(f"""
        RPUSH l 1 01 -1 1.0 {long} {long}y      -> 6
        LEXPIREELEMENT l 100 ELEMENTS 2 1 {long} -> [1, 1]
        LTTLELEMENT l ELEMENTS 6 1 01 -1 1.0 {long} {long}y -> [100, -1, -1, -1, 100, -1]
        LEXPIREELEMENT l 0 ELEMENTS 2 1 {long}  -> [2, 2]
        LRANGE l 0 2                            -> ["01", "-1", "1.0"]
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


def test_a_refused_lset_leaves_the_deadlines(talk: Talk) -> None:
    talk(f"""
        RPUSH l a b                             -> 2
        LEXPIREELEMENT l 100 ELEMENTS 2 a b     -> [1, 1]
        LSET l 2 c                              -> {OUT_OF_RANGE}
        LSET l -3 c                             -> {OUT_OF_RANGE}
        LSET l x c                              -> {NOT_AN_INTEGER}
        LSET nokey 0 c                          -> ERR no such key
        LTTLELEMENT l ELEMENTS 2 a b            -> [100, 100]
    """)


def test_lset_counts_live_elements_only(talk: Talk) -> None:
    talk(f"""
        RPUSH l a b                             -> 2
        LPEXPIREELEMENT l a 20                  -> 1
        wait 20
        LSET l 1 c                              -> {OUT_OF_RANGE}
        LSET l 0 c                              -> OK
        LRANGE l 0 -1                           -> ["c"]
    """)


def test_positions_count_live_elements_only(talk: Talk) -> None:
    talk("""
        RPUSH l a b a c d                       -> 5
        LPEXPIREELEMENT l a 20                  -> 1
        wait 20
        LTRIM l 1 1                             -> OK
        LRANGE l 0 -1                           -> ["c"]
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
