"""Pushes to lists with deadlines: LPUSH, RPUSH, LPUSHX, RPUSHX, LINSERT, LPUSHEX and RPUSHEX."""

from __future__ import annotations

import pytest

from tests.support.containers import AnyServer
from tests.support.conversation import Talk, in_multi, talking
from tests.support.error_texts import NOT_AN_INTEGER, WRONGTYPE
from tests.support.servers import Proxy

# --- LPUSH, RPUSH, LPUSHX, RPUSHX, LINSERT


@pytest.mark.parametrize("push", ["LPUSH", "RPUSH", "LPUSHX", "RPUSHX"])
def test_a_pushed_value_has_the_deadline_of_its_equal_or_none(talk: Talk, push: str) -> None:
    talk(f"""
        RPUSH l a b                             -> 2
        LEXPIREELEMENT l a 100                  -> 1
        {push} l a c                            -> 4
        LTTLELEMENT l ELEMENTS 3 a b c          -> [100, -1, -1]
        LREM l 1 a                              -> 1
        LTTLELEMENT l a                         -> 100
    """)


def test_values_are_pushed_in_redis_own_order(talk: Talk) -> None:
    talk("""
        RPUSH l m                               -> 1
        LEXPIREELEMENT l m 100                  -> 1
        LPUSH l a b                             -> 3
        RPUSH l y z                             -> 5
        LRANGE l 0 -1                           -> ["b", "a", "m", "y", "z"]
        LPUSHX nokey a                          -> 0
        EXISTS nokey                            -> 0
    """)


@pytest.mark.parametrize("push", ["LPUSH l a", "RPUSH l a", "LPUSHX l a", "RPUSHX l a",
                                  "LINSERT l BEFORE b a", "LINSERT l after b a"])  # fmt: skip
def test_an_expired_value_pushed_again_has_no_deadline(talk: Talk, push: str) -> None:
    talk(f"""
        RPUSH l a b                             -> 2
        LPEXPIREELEMENT l a 20                  -> 1
        wait 20
        {push}                                  -> 2
        LTTLELEMENT l ELEMENTS 2 a b            -> [-1, -1]
    """)


def test_an_inserted_value_has_the_deadline_of_its_equal_or_none(talk: Talk) -> None:
    talk("""
        RPUSH l a b                             -> 2
        LEXPIREELEMENT l a 100                  -> 1
        LINSERT l BEFORE b c                    -> 3
        LINSERT l AFTER b a                     -> 4
        LRANGE l 0 -1                           -> ["a", "c", "b", "a"]
        LTTLELEMENT l ELEMENTS 3 a b c          -> [100, -1, -1]
        LINSERT l AFTER zz a                    -> -1
        LINSERT nokey AFTER a a                 -> 0
        LINSERT l NEXT a a                      -> ERR syntax error
        LLEN l                                  -> 4
    """)


def test_an_expired_value_is_no_pivot(talk: Talk) -> None:
    talk("""
        RPUSH l a b                             -> 2
        LPEXPIREELEMENT l a 20                  -> 1
        wait 20
        LINSERT l BEFORE a c                    -> -1
        LRANGE l 0 -1                           -> ["b"]
    """)


# --- LPUSHEX, RPUSHEX


@pytest.mark.parametrize("words", ["100 a b", "EX 100 ELEMENTS 2 a b", "px 100000 elements 2 a b",
                                   "EXAT @+100s ELEMENTS 2 a b"])  # fmt: skip
def test_pushing_with_a_time_to_live_dates_the_new_copies_and_the_old(
    talk: Talk, words: str
) -> None:
    talk(f"""
        RPUSH l a c                             -> 2
        LPUSHEX l {words}                       -> 4
        RPUSHEX l {words}                       -> 6
        LRANGE l 0 -1                           -> ["b", "a", "a", "c", "a", "b"]
        LTTLELEMENT l ELEMENTS 3 a b c          -> [100, 100, -1]
    """)


def test_keepttl_keeps_the_deadlines_of_what_is_there(talk: Talk) -> None:
    talk("""
        RPUSHEX l 100 a                         -> 1
        RPUSH l b                               -> 2
        LPUSHEX l KEEPTTL 200 a b c             -> 5
        RPUSHEX l KEEPTTL ELEMENTS 2 a d        -> 7
        LTTLELEMENT l ELEMENTS 4 a b c d        -> [100, -1, 200, -1]
        RPUSHEX l ELEMENTS 1 a                  -> 8
        LTTLELEMENT l a                         -> -1
    """)


def test_what_was_pushed_goes_when_its_time_is_over(talk: Talk) -> None:
    talk("""
        LPUSHEX l PX 20 ELEMENTS 3 a b a        -> 3
        RPUSH l b c                             -> 5
        wait 20 in time
        LRANGE l 0 -1                           -> ["c"]
        LPUSHEX l KEEPTTL 100 a                 -> 2
        LTTLELEMENT l a                         -> 100
    """)


@pytest.mark.parametrize("past", ["0", "EX 0 ELEMENTS 3", "PXAT @-1ms ELEMENTS 3", "KEEPTTL 0"])
def test_a_time_already_past_removes_the_elements_and_counts_them_as_pushed(
    talk: Talk, past: str
) -> None:
    talk(f"""
        RPUSH l x b                             -> 2
        RPUSHEX l {past} a b a                  -> 5
        LPUSHEX new {past} a b a                -> 3
        EXISTS new                              -> 0
        LPOS l a                                -> nil
        LINDEX l 0                              -> "x"
        LREM l 0 b                              -> {1 if past.startswith("KEEP") else 0}
        LLEN l                                  -> 1
        RPUSH l a                               -> 2
        LTTLELEMENT l a                         -> -1
    """)


def test_pushing_with_a_time_to_live_keeps_the_keys_own_expiry(talk: Talk) -> None:
    talk("""
        RPUSH l a                               -> 1
        EXPIRE l 100                            -> 1
        LPUSHEX l 200 b                         -> 2
        TTL l                                   -> 100
    """)


def test_an_element_may_be_named_like_an_option(talk: Talk) -> None:
    talk("""
        RPUSHEX l 100 KEEPTTL ELEMENTS 5        -> 3
        RPUSHEX l EX 200 ELEMENTS 2 ELEMENTS EX -> 5
        LTTLELEMENT l ELEMENTS 4 KEEPTTL ELEMENTS 5 EX -> [100, 200, 100, 200]
    """)


@pytest.mark.parametrize("push", ["LPUSHEX", "RPUSHEX"])
def test_a_push_that_cannot_be_read_is_refused_and_writes_nothing(
    talk_one_by_one: Talk, push: str
) -> None:
    arity = f"ERR wrong number of arguments for '{push.lower()}' command"
    talk_one_by_one(f"""
        {push}                                  -> {arity}
        {push} l 100                            -> {arity}
        {push} l KEEPTTL 100                    -> {arity}
        {push} l EX 100 ELEMENTS 2 a            -> {arity}
        {push} l EX 100 a b                     -> ERR unknown argument: a
        {push} l NX EX 100 ELEMENTS 1 a         -> ERR unknown argument: NX
        {push} l EX 100 ELEMENTS 0 a            -> ERR invalid number of elements
        {push} l EX x ELEMENTS 1 a              -> {NOT_AN_INTEGER}
        {push} l -1 a                           -> ERR invalid expire time, must be >= 0
        {push} l 70368744178 a -> ERR invalid expire time in '{push.lower()}' command
        EXISTS l                                -> 0
        SET l text                              -> OK
        {push} l 100 a                          -> {WRONGTYPE}
        {push} l MAXLEN 1 EX 0 ELEMENTS 1 a     -> {WRONGTYPE}
    """)


# --- MAXLEN: entries count, copies too


def test_a_push_beyond_the_cap_is_refused_whole(talk: Talk) -> None:
    talk("""
        RPUSHEX l MAXLEN 3 EX 100 ELEMENTS 2 a a  -> 2
        RPUSHEX l MAXLEN 3 EX 200 ELEMENTS 2 a b  -> -1
        LPUSHEX l EX 200 MAXLEN 2 ELEMENTS 1 a    -> -1
        LRANGE l 0 -1                             -> ["a", "a"]
        LTTLELEMENT l a                           -> 100
        LPUSHEX l MAXLEN 3 ELEMENTS 1 b           -> 3
        LPUSHEX l MAXLEN 1 EX 0 ELEMENTS 2 a c    -> 5
        LRANGE l 0 -1                             -> ["b"]
        RPUSHEX new MAXLEN 0 EX 100 ELEMENTS 1 a  -> -1
        EXISTS new                                -> 0
    """)


def test_expired_entries_do_not_count_against_the_cap(talk: Talk) -> None:
    talk("""
        RPUSHEX l PX 20 ELEMENTS 3 a a b          -> 3
        RPUSH l c                                 -> 4
        wait 20 in time
        RPUSHEX l MAXLEN 3 EX 100 ELEMENTS 2 a d  -> 3
        LRANGE l 0 -1                             -> ["c", "a", "d"]
    """)


def test_evicted_entries_are_not_counted_in_the_length(proxy: Proxy, server: AnyServer) -> None:
    """Their reap cannot come within the transaction."""
    with talking(proxy, server, in_multi) as talk:
        talk("""
            RPUSHEX l EX 100 ELEMENTS 3 a b c             -> 3
            LPUSHEX l MAXLEN 2 EVICT EX 200 ELEMENTS 1 d  -> 2
            RPUSHEX l MAXLEN 3 EX 200 ELEMENTS 1 e        -> 3
        """)
        talk('LRANGE l 0 -1                               -> ["d", "c", "e"]')


def test_a_push_of_an_entry_past_its_deadline_counts_as_one_before_it(
    proxy: Proxy, server: AnyServer
) -> None:
    """It would bring the copy back, so nothing else may be past its deadline either."""
    with talking(proxy, server, in_multi) as talk:
        talk("""
            RPUSHEX l EX 100 ELEMENTS 2 a b               -> 2
            RPUSHEX l MAXLEN 2 EVICT EX 200 ELEMENTS 2 c d  -> 2
            RPUSHEX l MAXLEN 4 EX 200 ELEMENTS 1 a        -> -1
            RPUSHEX l MAXLEN 5 EX 200 ELEMENTS 1 a        -> 5
        """)


def test_evict_lets_the_earliest_deadlines_go_and_all_their_copies(talk: Talk) -> None:
    talk("""
        RPUSHEX l 200 b c                           -> 2
        RPUSHEX l 100 a                             -> 3
        RPUSH l a d                                 -> 5
        RPUSHEX l MAXLEN 5 EVICT EX 300 ELEMENTS 1 e  -> 4
        wait 1
        LRANGE l 0 -1                               -> ["b", "c", "d", "e"]
        RPUSHEX l MAXLEN 5 EVICT EX 50 ELEMENTS 2 f b -> 5
        wait 1
        LRANGE l 0 -1                               -> ["b", "d", "e", "f", "b"]
        LTTLELEMENT l ELEMENTS 4 b d e f            -> [50, -1, 300, 50]
        RPUSHEX l MAXLEN 2 EVICT EX 50 ELEMENTS 2 x b -> -1
        RPUSHEX l MAXLEN 4 EVICT EX 50 ELEMENTS 2 b b -> 4
        wait 1
        LRANGE l 0 -1                               -> ["b", "b", "b", "b"]
    """)


@pytest.mark.parametrize(("push", "left"), [("LPUSHEX", "yxab"), ("RPUSHEX", "cdxy")])
def test_of_what_has_no_deadline_the_far_end_goes_first(talk: Talk, push: str, left: str) -> None:
    talk(f"""
        RPUSH l a b c d                           -> 4
        {push} l MAXLEN 4 EVICT EX 9 ELEMENTS 2 x y -> 4
        wait 1
        LRANGE l 0 -1                             -> {str(list(left)).replace("'", '"')}
    """)
