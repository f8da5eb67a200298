"""HSETEX and SADDEX write and set the deadline in one step: long and short form, no MAXLEN."""

from __future__ import annotations

import pytest

from tests.support.conversation import Talk
from tests.support.error_texts import NOT_AN_INTEGER, WRONGTYPE
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import noted_ms
from ttlproxy.core.keys import Keys

in_redis_8s_words = pytest.mark.usefixtures("redis_8s_words")

ONE_EXPIRY = "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified"


# --- HSETEX


def test_hsetex_writes_and_dates_all_its_fields(talk: Talk) -> None:
    talk("""
        HSET h a old c 3                        -> 2
        HSETEX h EX 100 FIELDS 2 a 1 b 2        -> 1
        HMGET h a b c                           -> ["1", "2", "3"]
        HTTLFIELD h FIELDS 3 a b c              -> [100, 100, -1]
    """)


@pytest.mark.parametrize("expiry", ["EX 100", "PX 100000", "EXAT @+100s", "pxat @+100000ms"])
def test_hsetex_takes_redis_8s_four_ways_to_say_when(talk: Talk, expiry: str) -> None:
    talk(f"""
        HSETEX h {expiry} FIELDS 1 a 1          -> 1
        HTTLFIELD h a                           -> 100
    """)


def test_hsetex_without_an_expiry_clears_and_with_keepttl_keeps(talk: Talk) -> None:
    talk("""
        HSETEX h EX 100 FIELDS 3 a 1 b 1 c 1    -> 1
        HSETEX h FIELDS 1 a 2                   -> 1
        HSETEX h KEEPTTL FIELDS 2 b 2 new 2     -> 1
        HTTLFIELD h FIELDS 4 a b c new          -> [-1, 100, 100, -1]
        HGET h b                                -> "2"
    """)


def test_hsetex_fnx_and_fxx_are_all_or_nothing(talk: Talk) -> None:
    talk("""
        HSETEX h FXX EX 100 FIELDS 1 a 1        -> 0
        EXISTS h                                -> 0
        HSETEX h FNX EX 100 FIELDS 2 a 1 b 1    -> 1
        HSETEX h FNX EX 200 FIELDS 2 b 9 c 9    -> 0
        HSETEX h EX 200 FXX FIELDS 2 b 9 c 9    -> 0
        HMGET h a b c                           -> ["1", "1", nil]
        HTTLFIELD h FIELDS 2 a b                -> [100, 100]
        HSETEX h PX 200000 fxx FIELDS 2 a 2 b 2 -> 1
        HTTLFIELD h FIELDS 2 a b                -> [200, 200]
        HMGET h a b                             -> ["2", "2"]
    """)


def test_hsetex_with_a_time_already_past_deletes_and_counts_as_written(talk: Talk) -> None:
    talk("""
        HSET h a 1 b 1                          -> 2
        HSETEX h EX 0 FIELDS 1 a 2              -> 1
        HGETALL h                               -> ["b", "1"]
        HSETEX h PXAT @-1ms FIELDS 2 b 2 c 2    -> 1
        EXISTS h                                -> 0
        HSETEX new EXAT @-1s FIELDS 1 a 1       -> 1
        EXISTS new                              -> 0
        HSET h a 1                              -> 1
        HTTLFIELD h a                           -> -1
    """)


def test_hsetex_checks_conditions_before_a_past_time_deletes(talk: Talk) -> None:
    talk("""
        HSET h a 1                              -> 1
        HSETEX h FNX EX 0 FIELDS 1 a 2          -> 0
        HGET h a                                -> "1"
        HSETEX h FXX EX 0 FIELDS 1 a 2          -> 1
        EXISTS h                                -> 0
    """)


def test_an_expired_field_is_absent_for_fnx_and_for_fxx(talk: Talk) -> None:
    talk("""
        HSET h a 1 b 1 stays 1                  -> 3
        HPEXPIREFIELD h 20 FIELDS 2 a b         -> [1, 1]
        wait 20
        HSETEX h FXX EX 100 FIELDS 1 a 2        -> 0
        HSETEX h FNX EX 100 FIELDS 1 a 2        -> 1
        HSETEX h KEEPTTL FIELDS 1 b 2           -> 1
        HTTLFIELD h FIELDS 2 a b                -> [100, -1]
    """)


def test_hsetex_keeps_the_keys_own_expiry(talk: Talk) -> None:
    talk("""
        HSET h a 1                              -> 1
        EXPIRE h 100                            -> 1
        HSETEX h EX 200 FIELDS 1 b 1            -> 1
        TTL h                                   -> 100
    """)


def test_a_field_of_hsetex_may_be_named_like_its_options(talk: Talk) -> None:
    talk("""
        HSETEX h EX 100 FIELDS 2 FIELDS FNX EX PX  -> 1
        HMGET h FIELDS EX                       -> ["FNX", "PX"]
        HTTLFIELD h FIELDS 2 EX FIELDS          -> [100, 100]
        HSETEX FNX FNX FIELDS 1 KEEPTTL 1       -> 1
        HSETEX h FIELDS 2 a 1 a 2               -> 1
        HGET h a                                -> "2"
    """)


@in_redis_8s_words
def test_hsetex_has_redis_8s_errors(talk_one_by_one: Talk) -> None:
    arity = "ERR wrong number of arguments for 'hsetex' command"
    invalid = "ERR invalid expire time in 'hsetex' command"
    talk_one_by_one(f"""
        HSETEX                                  -> {arity}
        HSETEX h                                -> {arity}
        HSETEX h FIELDS 1 a                     -> {arity}
        HSETEX h EX 1 FNX FIELDS                -> {arity}
        HSETEX h FIELDS 2 a 1                   -> ERR wrong number of arguments
        HSETEX h EX 100 FIELDS 1 a              -> ERR wrong number of arguments
        HSETEX h FIELDS 1 a 1 b                 -> ERR unknown argument: b
        HSETEX h EX 100 FIELDS 1 a 1 b 2        -> ERR unknown argument: b
        HSETEX h FIELDS 1 a 1 FIELDS 1 b 2 -> ERR FIELDS keyword specified multiple times
        HSETEX h FNX EX 100 KEEPTTL             -> {ONE_EXPIRY}
        HSETEX h FNX EX 1 FXX                   -> ERR Only one of FXX or FNX arguments can be*
        HSETEX h FNX EX 100 EX                  -> {ONE_EXPIRY}
        HSETEX h FNX PXAT 9999999999999 FIELD   -> ERR unknown argument: FIELD
        HSETEX h KEEPTTL FNX fxx EX             -> ERR Only one of FXX or FNX arguments can be*
        HSETEX h FIELDS 0 a 1                   -> ERR invalid number of fields
        HSETEX h FIELDS x a 1                   -> ERR invalid number of fields
        HSETEX h FIELDS -1 a 1                  -> ERR invalid number of fields
        HSETEX h WORD FIELDS 1 a 1              -> ERR unknown argument: WORD
        HSETEX h FNX FXX FIELDS 1 a 1 -> ERR Only one of FXX or FNX arguments can be specified
        HSETEX h FNX FNX FIELDS 1 a 1 -> ERR Only one of FXX or FNX arguments can be specified
        HSETEX h EX 1 PX 1 FIELDS 1 a 1         -> {ONE_EXPIRY}
        HSETEX h EX 1 KEEPTTL FIELDS 1 a 1      -> {ONE_EXPIRY}
        HSETEX h KEEPTTL EX 1 FIELDS 1 a 1      -> {ONE_EXPIRY}
        HSETEX h KEEPTTL KEEPTTL FIELDS 1 a 1   -> {ONE_EXPIRY}
        HSETEX h EX x FIELDS 1 a 1              -> {NOT_AN_INTEGER}
        HSETEX h EX FIELDS 1 a 1                -> {NOT_AN_INTEGER}
        HSETEX h EX 01 FIELDS 1 a 1             -> {NOT_AN_INTEGER}
        HSETEX h PX -1 FIELDS 1 a 1             -> ERR invalid expire time, must be >= 0
        HSETEX h PXAT 70368744177664 FIELDS 1 a 1 -> {invalid}
        hsetex h EX 70368744177 FIELDS 1 a 1    -> {invalid}
        HSETEX h PXAT 70368744177663 FIELDS 1 a 1 -> 1
        HPEXPIRETIMEFIELD h a                   -> 70368744177663
    """)


@in_redis_8s_words
def test_options_of_hsetex_may_follow_its_fields(talk: Talk) -> None:
    talk("""
        HSETEX h FIELDS 2 a 1 b 2 EX 100        -> 1
        HTTLFIELD h FIELDS 2 a b                -> [100, 100]
        HSETEX h FIELDS 1 a 3 FNX               -> 0
        HSETEX h FXX FIELDS 1 a 3 KEEPTTL       -> 1
        HTTLFIELD h a                           -> 100
    """)


@in_redis_8s_words
def test_hsetex_checks_its_arguments_before_the_type_and_the_type_before_all_else(
    talk: Talk,
) -> None:
    talk(f"""
        SET s text                              -> OK
        HSETEX s WORD FIELDS 1 a 1              -> ERR unknown argument: WORD
        HSETEX s EX x FIELDS 1 a 1              -> {NOT_AN_INTEGER}
        HSETEX s FXX EX 0 FIELDS 1 a 1          -> {WRONGTYPE}
        HSETEX s FIELDS 1 a 1                   -> {WRONGTYPE}
        GET s                                   -> "text"
    """)


# --- SADDEX


@pytest.mark.parametrize("form", ["100 a b", "EX 100 MEMBERS 2 a b", "PX 100000 members 2 a b",
                                  "EXAT @+100s MEMBERS 2 a b"])  # fmt: skip
def test_saddex_adds_counts_the_new_and_dates_all(talk: Talk, form: str) -> None:
    talk(f"""
        SADD s a c                              -> 2
        SADDEX s {form}                         -> 1
        SMEMBERS s                              -> ["a", "b", "c"]
        STTLMEMBER s MEMBERS 3 a b c            -> [100, 100, -1]
        SADDEX s {form}                         -> 0
    """)


def test_saddex_without_an_expiry_clears_and_with_keepttl_keeps(talk: Talk) -> None:
    talk("""
        SADDEX s 100 a b                        -> 2
        SADDEX s MEMBERS 1 a                    -> 0
        SADDEX s KEEPTTL MEMBERS 2 b new        -> 1
        STTLMEMBER s MEMBERS 3 a b new          -> [-1, 100, -1]
    """)


def test_saddexs_short_form_with_keepttl_dates_only_the_new(talk: Talk) -> None:
    talk("""
        SADD s never                            -> 1
        SADDEX s 100 soon                       -> 1
        SADDEX s KEEPTTL 200 never soon new     -> 1
        STTLMEMBER s MEMBERS 3 never soon new   -> [-1, 100, 200]
        SADDEX s keepttl 0 soon newer           -> 1
        SMEMBERS s                              -> ["never", "new", "soon"]
    """)


def test_saddex_nx_and_xx_decide_for_each_member(talk: Talk) -> None:
    talk("""
        SADDEX s 100 a                          -> 1
        SADDEX s NX EX 200 MEMBERS 2 a b        -> 1
        STTLMEMBER s MEMBERS 2 a b              -> [100, 200]
        SADDEX s EX 300 xx MEMBERS 2 a zz       -> 0
        SMEMBERS s                              -> ["a", "b"]
        STTLMEMBER s MEMBERS 3 a b zz           -> [300, 200, -2]
        SADDEX s XX MEMBERS 1 a                 -> 0
        STTLMEMBER s a                          -> -1
        SADDEX nokey XX EX 100 MEMBERS 1 a      -> 0
        EXISTS nokey                            -> 0
    """)


def test_saddex_with_a_time_already_past_deletes_and_counts_as_written(talk: Talk) -> None:
    talk("""
        SADD s a b                              -> 2
        SADDEX s 0 a new                        -> 1
        SMEMBERS s                              -> ["b"]
        SADDEX s PXAT @-1ms MEMBERS 1 b         -> 0
        EXISTS s                                -> 0
        SADDEX s EX 0 MEMBERS 2 a b             -> 2
        EXISTS s                                -> 0
        SADDEX s NX EX 0 MEMBERS 1 a            -> 1
        SADD s a                                -> 1
        STTLMEMBER s a                          -> -1
        SADDEX s NX EX 0 MEMBERS 1 a            -> 0
        SADDEX s XX EX 0 MEMBERS 1 a            -> 0
        EXISTS s                                -> 0
    """)


def test_an_expired_member_is_new_to_saddex(talk: Talk) -> None:
    talk("""
        SADDEX s PX 20 MEMBERS 3 a b c          -> 3
        SADD s stays                            -> 1
        wait 20
        SADDEX s XX EX 100 MEMBERS 1 a          -> 0
        SADDEX s KEEPTTL MEMBERS 1 a            -> 1
        SADDEX s KEEPTTL 100 b                  -> 1
        SADDEX s NX EX 200 MEMBERS 1 c          -> 1
        STTLMEMBER s MEMBERS 3 a b c            -> [-1, 100, 200]
    """)


def test_a_member_of_saddex_may_be_named_like_its_options(talk: Talk) -> None:
    talk("""
        SADDEX s 100 KEEPTTL MEMBERS 5          -> 3
        SADDEX s EX 200 MEMBERS 2 MEMBERS NX    -> 1
        STTLMEMBER s MEMBERS 4 KEEPTTL MEMBERS 5 NX -> [100, 200, 100, 200]
        SADDEX s KEEPTTL 100 KEEPTTL            -> 0
        SADDEX NX NX MEMBERS 1 a                -> 1
        SADDEX s 100 a a                        -> 1
    """)


def test_saddex_refuses_what_it_cannot_read_and_writes_nothing(talk_one_by_one: Talk) -> None:
    arity = "ERR wrong number of arguments for 'saddex' command"
    talk_one_by_one(f"""
        SADDEX                                  -> {arity}
        SADDEX s                                -> {arity}
        SADDEX s 100                            -> {arity}
        SADDEX s KEEPTTL 100                    -> {arity}
        SADDEX s -1 a                           -> ERR invalid expire time, must be >= 0
        SADDEX s 70368744178 a                  -> ERR invalid expire time in 'saddex' command
        SADDEX s EX x MEMBERS 1 a               -> {NOT_AN_INTEGER}
        SADDEX s EX -1 MEMBERS 1 a              -> ERR invalid expire time, must be >= 0
        SADDEX s PXAT 70368744177664 MEMBERS 1 a -> ERR invalid expire time in 'saddex' command
        SADDEX s EX 1 KEEPTTL MEMBERS 1 a       -> {ONE_EXPIRY}
        SADDEX s NX XX MEMBERS 1 a              -> ERR*
        SADDEX s WORD MEMBERS 1 a               -> ERR*
        SADDEX s MEMBERS 2 a                    -> ERR*
        SADDEX s MEMBERS 0 a                    -> ERR*
        SADDEX s MEMBERS 1 a b                  -> ERR*
        SADDEX s 1.5 a                          -> ERR*
        EXISTS s                                -> 0
    """)


def test_saddex_of_another_type_is_refused(talk: Talk) -> None:
    talk(f"""
        SET s text                              -> OK
        SADDEX s 100 a                          -> {WRONGTYPE}
        SADDEX s EX 0 MEMBERS 1 a               -> {WRONGTYPE}
        GET s                                   -> "text"
    """)


@pytest.mark.parametrize(
    ("first", "second", "length"),
    [
        ("HSETEX k MAXLEN 2 EX 1000 FIELDS 1 a 1", "HSETEX k PX 30 FIELDS 1 b 1", "HLEN k"),
        ("SADDEX k 1000 a", "SADDEX k PX 30 MEMBERS 1 b", "SCARD k"),
        ("ZADDEX k 1000 1 a", "ZADDEX k PX 30 MEMBERS 1 2 b", "ZCARD k"),
        ("RPUSHEX k 1000 a", "RPUSHEX k PX 30 ELEMENTS 1 b", "LLEN k"),
    ],
)
def test_a_deadline_before_the_first_of_all_is_kept(
    talk: Talk, first: str, second: str, length: str
) -> None:
    talk(f"""
        {first}         -> *
        {second}        -> *
        wait 30
        {length}        -> 1
    """)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("HSETEX k MAXLEN 2 EX 100 FIELDS 1 a 1", "HSETEX k EX 2000 FIELDS 1 b 1"),
        ("SADDEX k 100 a", "SADDEX k 2000 b"),
        ("ZADDEX k 100 1 a", "ZADDEX k 2000 2 b"),
        ("RPUSHEX k 100 a", "RPUSHEX k 2000 b"),
    ],
)
@pytest.mark.parametrize(("then", "left_ms"), [("PERSIST k", 0), ("EXPIRE k 5000", 2_000_000)])
def test_deadlines_last_as_long_as_a_key_whose_expiry_somebody_else_has_changed(
    app: Connection, direct: Client, first: str, second: str, then: str, left_ms: int
) -> None:
    """With the old expiry the deadlines would vanish, and their elements would stay for good."""
    app.ask(*first.split())
    assert app.ask("EXPIRE", "k", 1000) == b":1\r\n"
    assert noted_ms(direct, b"k")
    assert direct.ask(*then.split()) == 1
    assert not app.ask(*second.split()).startswith(b"-")
    ends_ms = noted_ms(direct, b"k")
    assert ends_ms and ends_ms > direct.now_ms() + left_ms if left_ms else ends_ms is None
    assert direct.ask("PTTL", Keys().index(b"k")) == -1
