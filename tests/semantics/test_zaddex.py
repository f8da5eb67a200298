"""ZADDEX: scores and deadlines in one command."""

from __future__ import annotations

import pytest

from tests.support.conversation import Talk
from tests.support.error_texts import WRONGTYPE

NOT_A_FLOAT = "ERR value is not a valid float"


@pytest.mark.parametrize("form", ["100 1 a 2 b", "EX 100 MEMBERS 2 1 a 2 b",
                                  "PX 100000 members 2 1 a 2 b", "EXAT @+100s MEMBERS 2 1 a 2 b",
                                  "KEEPTTL 100 1 a 2 b"])  # fmt: skip
def test_zaddex_adds_counts_the_new_and_dates_all(talk: Talk, form: str) -> None:
    talk(f"""
        ZADD z 9 c                              -> 1
        ZADDEX z {form}                         -> 2
        ZRANGE z 0 -1                           -> ["a", "b", "c"]
        ZTTLMEMBER z MEMBERS 3 a b c            -> [100, 100, -1]
        ZADDEX z {form}                         -> 0
        ZADDEX z 200 5 a                        -> 0
        ZSCORE z a                              -> "5"
        ZTTLMEMBER z MEMBERS 2 a b              -> [200, 100]
    """)


def test_zaddex_answers_as_zadd_does(talk: Talk) -> None:
    talk("""
        ZADDEX z EX 100 CH MEMBERS 3 1 a 2 b 3 c -> 3
        ZADDEX z EX 200 CH MEMBERS 3 1 a 9 b 4 d -> 2
        ZTTLMEMBER z MEMBERS 4 a b c d          -> [200, 200, 100, 200]
        ZADDEX z CH EX 300 MEMBERS 2 5 e 6 e    -> 2
        ZADDEX z EX 300 MEMBERS 2 5 f 6 f       -> 1
        ZSCORE z f                              -> "6"
    """)


def test_zaddex_leaves_alone_what_its_conditions_skip(talk: Talk) -> None:
    talk("""
        ZADDEX z 100 1 a 2 b                    -> 2
        ZADDEX z NX EX 200 MEMBERS 2 5 a 3 c    -> 1
        ZADDEX z XX CH EX 300 MEMBERS 2 5 b 6 d -> 1
        ZTTLMEMBER z MEMBERS 4 a b c d          -> [100, 300, 200, -2]
        ZADDEX z GT EX 400 MEMBERS 3 1 a 6 b 7 e -> 1
        ZTTLMEMBER z MEMBERS 3 a b e            -> [100, 400, 400]
        ZADDEX z XX LT CH EX 500 MEMBERS 3 0 a 6 b 7 f -> 1
        ZTTLMEMBER z MEMBERS 3 a b f            -> [500, 400, -2]
        ZMSCORE z a b c e                       -> ["0", "6", "3", "7"]
        ZADDEX nokey XX EX 100 MEMBERS 1 1 a    -> 0
        EXISTS nokey                            -> 0
    """)


def test_zaddex_without_an_expiry_clears_and_with_keepttl_keeps(talk: Talk) -> None:
    talk("""
        ZADDEX z 100 1 a 2 b                    -> 2
        ZADDEX z MEMBERS 1 5 a                  -> 0
        ZADDEX z KEEPTTL CH MEMBERS 2 6 b 7 c   -> 2
        ZTTLMEMBER z MEMBERS 3 a b c            -> [-1, 100, -1]
        ZADDEX z KEEPTTL 300 8 b 9 d            -> 1
        ZTTLMEMBER z MEMBERS 2 b d              -> [100, 300]
        ZSCORE z b                              -> "8"
    """)


def test_zaddex_with_a_time_already_past_deletes_and_counts_as_written(talk: Talk) -> None:
    talk("""
        ZADD z 1 a 2 b                          -> 2
        ZADDEX z CH EX 0 MEMBERS 3 1 a 9 b 3 c  -> 2
        EXISTS z                                -> 0
        ZADDEX z 0 1 a                          -> 1
        EXISTS z                                -> 0
        ZADD z 5 a                              -> 1
        ZADDEX z GT EX 0 MEMBERS 1 4 a          -> 0
        ZSCORE z a                              -> "5"
        ZADDEX z GT PXAT @-1ms MEMBERS 1 6 a    -> 0
        EXISTS z                                -> 0
    """)


def test_an_expired_member_is_new_to_zaddex(talk: Talk) -> None:
    talk("""
        ZADDEX z PX 20 MEMBERS 3 1 a 2 b 3 c    -> 3
        ZADD z 9 stays                          -> 1
        wait 20
        ZADDEX z XX EX 100 MEMBERS 1 5 a        -> 0
        ZADDEX z NX EX 100 MEMBERS 1 5 a        -> 1
        ZADDEX z KEEPTTL GT EX 1 MEMBERS 1 1 b -> ERR*
        ZADDEX z GT KEEPTTL MEMBERS 1 1 b       -> 1
        ZTTLMEMBER z MEMBERS 3 a b c            -> [100, -1, -2]
    """)


def test_zaddex_refuses_what_it_cannot_read_and_writes_nothing(talk: Talk) -> None:
    arity = "ERR wrong number of arguments for 'zaddex' command"
    odds = "ERR GT, LT, and/or NX options at the same time are not compatible"
    talk(f"""
        ZADD z 1 a                              -> 1
        ZEXPIREMEMBER z a 100                   -> 1
        ZADDEX z 100 1 a 2                      -> {arity}
        ZADDEX z KEEPTTL 100 1                  -> {arity}
        ZADDEX z -1 1 a                         -> ERR invalid expire time, must be >= 0
        ZADDEX z 70368744178 1 a -> ERR invalid expire time in 'zaddex' command
        ZADDEX z 100 x a                        -> {NOT_A_FLOAT}
        ZADDEX z 100 9 a nan b                  -> {NOT_A_FLOAT}
        ZADDEX z EX 100 MEMBERS 2 9 a x b       -> {NOT_A_FLOAT}
        ZADDEX z EX 1 KEEPTTL MEMBERS 1 9 a     -> ERR Only one of*
        ZADDEX z NX XX MEMBERS 1 9 a -> ERR XX and NX options at the same time are not compatible
        ZADDEX z GT NX MEMBERS 1 9 a            -> {odds}
        ZADDEX z GT EX 100 LT MEMBERS 1 9 a     -> {odds}
        ZADDEX z INCR MEMBERS 1 9 a             -> ERR unknown argument: INCR
        ZADDEX z EX 100 MEMBERS 2 9 a           -> {arity}
        ZADDEX z EX 100 MEMBERS 1 9 a 9 b       -> {arity}
        ZADDEX z EX 100 MEMBERS 0 9 a           -> ERR invalid number of members
        ZADDEX z 1.5 9 a                        -> ERR unknown argument: 1.5
        ZSCORE z a                              -> "1"
        ZTTLMEMBER z a                          -> 100
        SET s text                              -> OK
        ZADDEX s 100 x a                        -> {NOT_A_FLOAT}
        ZADDEX s 100 1 a                        -> {WRONGTYPE}
        ZADDEX s EX 0 MEMBERS 1 1 a             -> {WRONGTYPE}
    """)


def test_a_member_of_zaddex_may_be_named_like_its_options(talk: Talk) -> None:
    talk("""
        ZADDEX z 100 1 KEEPTTL 2 MEMBERS 3 5    -> 3
        ZADDEX z EX 200 MEMBERS 2 4 MEMBERS 5 NX -> 1
        ZTTLMEMBER z MEMBERS 4 KEEPTTL MEMBERS 5 NX -> [100, 200, 100, 200]
        ZADDEX NX NX NX MEMBERS 1 1 a           -> 1
    """)
