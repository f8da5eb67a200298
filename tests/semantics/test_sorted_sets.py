"""What each native command on sorted sets does to deadlines, and that its replies are Redis's own.

What sorted sets have in common with other types is in test_native.py and test_virtual.py.
"""

from __future__ import annotations

import pytest

from tests.support.containers import AnyServer
from tests.support.conversation import WAYS, Talk, said_in
from tests.support.error_texts import WRONGTYPE
from tests.support.raw_client import Connection, command
from tests.support.servers import Proxy

talk = said_in(WAYS)

NOT_A_FLOAT = "ERR value is not a valid float"


# --- R1: past its deadline a member is absent for every command, though nobody reaped it


@pytest.mark.usefixtures("no_reaper")
@pytest.mark.parametrize(
    "look",
    [
        "ZSCORE k a                             -> nil",
        'ZMSCORE k a b                          -> [nil, "2"]',
        "ZCARD k                                -> 2",
        "ZCOUNT k -inf +inf                     -> 2",
        "ZLEXCOUNT k - +                        -> 2",
        "ZRANK k b                              -> 0",
        "ZREVRANK k a                           -> nil",
        'ZRANGE k 0 0                           -> ["b"]',
        'ZRANGEBYSCORE k -inf 2                 -> ["b"]',
        'ZREVRANGE k 0 -1                       -> ["c", "b"]',
        'ZSCAN k 0                              -> ["0", ["b", "2", "c", "3"]]',
        "ZRANDMEMBER k 1                        -> [*",
        'ZUNION 2 k nokey                       -> ["b", "c"]',
        "ZINTER 2 k nokey                       -> []",
        'ZDIFF 2 k nokey                        -> ["b", "c"]',
        "ZUNIONSTORE to 1 k                     -> 2",
        "ZRANGESTORE to k 0 -1                  -> 2",
        'SORT k BY nosort                       -> ["b", "c"]',
        "ZADD k 1 a                             -> 1",
        "ZADD k CH 1 a 2 b                      -> 1",
        "ZADD k XX CH 9 a                       -> 0",
        "ZADD k NX 9 a                          -> 1",
        'ZADD k INCR 5 a                        -> "5"',
        "ZADD k XX INCR 5 a                     -> nil",
        'ZINCRBY k 5 a                          -> "5"',
        "ZREM k a                               -> 0",
        "ZREM k a b                             -> 1",
        "ZREMRANGEBYRANK k 0 0                  -> 1",
        "ZREMRANGEBYSCORE k -inf 2              -> 1",
        "ZREMRANGEBYLEX k [a [b                 -> 1",
        'ZPOPMIN k                              -> ["b", "2"]',
        "GEOPOS k a                             -> [nil]",
        "ZTTLMEMBER k a                         -> -2",
        "ZPERSISTMEMBER k a                     -> -2",
        "ZEXPIREMEMBER k 100 MEMBERS 2 a b      -> [-2, 1]",
    ],
)
def test_the_first_look_after_the_deadline_does_not_see_the_member(talk: Talk, look: str) -> None:
    talk(f"""
        ZADD k 1 a 2 b 3 c                      -> 3
        ZPEXPIREMEMBER k a 20                   -> 1
        wait 20
        {look}
    """)


# --- R2: writing a score clears the deadline, changing it keeps it


@pytest.mark.parametrize(
    ("add", "written"),
    [
        ("ZADD k 5 a", "a"),
        ("ZADD k 1 a", "a"),  # the same score counts as written too
        ("ZADD k 5 a 5 b", "ab"),
        ("ZADD k XX 1 a", "a"),
        ("ZADD k XX CH 5 a 5 new", "a"),
        ("ZADD k NX 5 a 5 new", ""),
        ("ZADD k GT 0 a 3 b", "b"),
        ("ZADD k GT 1 a 2 b", ""),
        ("ZADD k GT CH +1.5 a inf b", "ab"),
        ("ZADD k GT 1.0000000000000001 a 2.0000000000000005 b", "b"),
        ("ZADD k LT 0 a 3 b", "a"),
        ("ZADD k LT 1 a 2 b", ""),
        ("ZADD k lt ch -inf a 1 b", "ab"),
        ("ZADD k XX GT 1e0 a 1e1 b 9 new", "b"),
        ("ZADD k GT 1 a 2 a 2 a", "a"),
        ("ZADD k GT 1 a 1 a", ""),
        ("ZADD k LT 0 new 0 new 3 b", ""),
        ("ZADD k CH CH 5 a", "a"),
        ("GEOADD k 13 38 a", "a"),
        ("GEOADD k CH 13 38 a 13 38 new", "a"),
        ("GEOADD k NX 13 38 a 13 38 new", ""),
        ("GEOADD k XX CH 13 38 b 13 38 new", "b"),
    ],
)
def test_a_member_whose_score_is_written_loses_its_deadline_and_no_other(
    talk: Talk, add: str, written: str
) -> None:
    left = [-1 if member in written else 100 for member in "ab"]
    talk(f"""
        ZADD k 1 a 2 b                          -> 2
        ZEXPIREMEMBER k 100 MEMBERS 2 a b       -> [1, 1]
        {add}                                   -> *
        ZTTLMEMBER k MEMBERS 2 a b              -> {left}
    """)


def test_a_new_member_has_no_deadline_whatever_it_had_before(talk: Talk) -> None:
    talk("""
        ZADD k 1 a 2 b 3 c 4 d                  -> 4
        ZPEXPIREMEMBER k 20 MEMBERS 3 a b c     -> [1, 1, 1]
        wait 20
        ZADD k NX 5 a                           -> 1
        GEOADD k 13 38 b                        -> 1
        ZINCRBY k 7 c                           -> "7"
        ZADD k INCR 7 e                         -> "7"
        ZTTLMEMBER k MEMBERS 4 a b c e          -> [-1, -1, -1, -1]
    """)


def test_incrementing_keeps_the_deadline(talk: Talk) -> None:
    talk("""
        ZADD k 1 a inf b                        -> 2
        ZEXPIREMEMBER k 100 MEMBERS 2 a b       -> [1, 1]
        ZINCRBY k 1.5 a                         -> "2.5"
        ZADD k INCR -1 a                        -> "1.5"
        ZADD k XX GT CH INCR 1 a                -> "2.5"
        ZADD k LT INCR 1 a                      -> nil
        ZADD k NX INCR 1 a                      -> nil
        ZADD k XX INCR 1 new                    -> nil
        ZINCRBY k -inf b                        -> ERR resulting score is not a number (NaN)
        ZADD k INCR -inf b                      -> ERR resulting score is not a number (NaN)
        ZTTLMEMBER k MEMBERS 2 a b              -> [100, 100]
        EXISTS new                              -> 0
    """)


def test_a_written_member_outlives_its_old_deadline(talk: Talk) -> None:
    talk("""
        ZADD k 1 a 2 b 3 c                      -> 3
        ZPEXPIREMEMBER k 20 MEMBERS 3 a b c     -> [1, 1, 1]
        ZADD k 1 a                              -> 0
        ZADD k NX 9 b                           -> 0
        ZINCRBY k 9 c                           -> "12"
        wait 20 in time
        ZRANGE k 0 -1                           -> ["a"]
    """)


# --- R3: removing a member removes its deadline


@pytest.mark.parametrize(
    "remove",
    [
        'ZREM k a b                             -> 2',
        'ZREMRANGEBYRANK k 0 1                  -> 2',
        'ZREMRANGEBYRANK k -3 -2                -> 2',
        'ZREMRANGEBYSCORE k -inf 2              -> 2',
        'ZREMRANGEBYSCORE k (0.5 (3             -> 2',
        'ZREMRANGEBYLEX k - [b                  -> 2',
        'ZPOPMIN k 2                            -> [*',
        'ZRANGESTORE k k 2 2                    -> 1',
    ],
)  # fmt: skip
def test_a_removed_member_comes_back_without_a_deadline(talk: Talk, remove: str) -> None:
    talk(f"""
        ZADD k 1 a 1 b 3 c                      -> 3
        ZEXPIREMEMBER k 100 MEMBERS 3 a b c     -> [1, 1, 1]
        {remove}
        ZADD k 1 a                              -> 1
        ZINCRBY k 1 b                           -> "1"
        ZTTLMEMBER k MEMBERS 2 a b              -> [-1, -1]
    """)


@pytest.mark.parametrize(
    ("pop", "answer"),
    [("ZPOPMIN k", '["a", "1"]'), ("ZPOPMAX k", '["a", "1"]'), ("BZPOPMIN k 1", '["k", "a", "1"]'),
     ("BZPOPMAX nokey k 1", '["k", "a", "1"]')],
)  # fmt: skip
def test_a_popped_member_leaves_its_deadline_behind(talk: Talk, pop: str, answer: str) -> None:
    talk(f"""
        ZADD k 1 a                              -> 1
        ZEXPIREMEMBER k a 100                   -> 1
        {pop}                                   -> {answer}
        EXISTS k                                -> 0
        ZADD k XX 1 a                           -> 0
        ZINCRBY k 1 a                           -> "1"
        ZTTLMEMBER k a                          -> -1
    """)


def test_popping_one_of_many_leaves_the_others_their_deadlines(talk: Talk) -> None:
    talk("""
        ZADD k 1 a 2 b 3 c 4 d 5 e              -> 5
        ZEXPIREMEMBER k 100 MEMBERS 5 a b c d e -> [1, 1, 1, 1, 1]
        ZPOPMIN k                               -> ["a", "1"]
        ZPOPMAX k                               -> ["e", "5"]
        ZPOPMAX k 1                             -> [*
        ZPOPMIN k 0                             -> []
        ZTTLMEMBER k MEMBERS 5 a b c d e        -> [-2, 100, 100, -2, -2]
        ZPOPMIN nokey                           -> []
        ZPOPMIN k 9                             -> [*
        EXISTS k                                -> 0
    """)


@pytest.mark.parametrize(
    "remove",
    ["ZREM k a b", "ZREMRANGEBYRANK k 0 1", "ZREMRANGEBYSCORE k 1 2", "ZREMRANGEBYLEX k [a [b",
     "ZPOPMIN k", "ZPOPMAX k", "ZPOPMIN k 2", "ZPOPMAX k 2", "BZPOPMIN k 1", "BZPOPMAX k 1"],
)  # fmt: skip
def test_no_deadline_is_left_of_a_member_that_is_gone(talk: Talk, remove: str) -> None:
    """Checked at the end of each conversation, in Redis itself."""
    talk(f"""
        ZADD k 1 a 1 b 1 c 1 d                  -> 4
        ZEXPIREMEMBER k 100 MEMBERS 4 a b c d   -> [1, 1, 1, 1]
        {remove}                                -> *
    """)


def test_zmpop_and_bzmpop_leave_no_deadline_behind(talk: Talk, server: AnyServer) -> None:
    if server.name == "6.2":
        pytest.skip("ZMPOP comes with Redis 7.0")
    talk("""
        ZADD k 1 a 2 b 3 c                      -> 3
        ZEXPIREMEMBER k 100 MEMBERS 3 a b c     -> [1, 1, 1]
        ZMPOP 2 nokey k MIN                     -> ["k", [["a", "1"]]]
        BZMPOP 1 1 k MAX COUNT 1                -> ["k", [["c", "3"]]]
        ZADD k 1 a 3 c                          -> 2
        ZTTLMEMBER k MEMBERS 3 a b c            -> [-1, 100, -1]
    """)


# --- what is refused changes nothing


def test_a_refused_write_leaves_the_deadlines(talk: Talk) -> None:
    odds = "ERR GT, LT, and/or NX options at the same time are not compatible"
    single = "ERR INCR option supports a single increment-element pair"
    talk(f"""
        ZADD k 1 a 2 b                          -> 2
        ZEXPIREMEMBER k 100 MEMBERS 2 a b       -> [1, 1]
        ZADD k 1 a x b                          -> {NOT_A_FLOAT}
        ZADD k 1 a nan b                        -> {NOT_A_FLOAT}
        ZADD k GT 9 a 9                         -> ERR syntax error
        ZADD k CH NX                            -> ERR syntax error
        ZADD k NX XX 1 a -> ERR XX and NX options at the same time are not compatible
        ZADD k GT NX 9 a                        -> {odds}
        ZADD k GT LT 9 a                        -> {odds}
        ZADD k INCR 9 a 9 b                     -> {single}
        ZADD k INCR x a                         -> {NOT_A_FLOAT}
        ZADD k FOO 9 a                          -> ERR syntax error
        ZADD k FOO a                            -> {NOT_A_FLOAT}
        ZINCRBY k x a                           -> {NOT_A_FLOAT}
        GEOADD k 13 38 a 200 38 b -> ERR invalid longitude,latitude pair 200.000000,38.000000
        GEOADD k 13 38 a x 38 b                 -> {NOT_A_FLOAT}
        GEOADD k NX XX 13 38 a                  -> ERR syntax error
        GEOADD k CH 13 38 a 13                  -> ERR syntax error
        ZREMRANGEBYSCORE k x 9                  -> ERR min or max is not a float
        ZREMRANGEBYLEX k a b                    -> ERR min or max not valid string range item
        ZREMRANGEBYRANK k 0 x                   -> ERR value is not an integer or out of range
        ZPOPMIN k x                             -> *
        ZPOPMAX k 1 2                           -> ERR syntax error
        SADD k a                                -> {WRONGTYPE}
        HSET k a 1                              -> {WRONGTYPE}
        ZRANGE k 0 -1 WITHSCORES                -> *
        ZTTLMEMBER k MEMBERS 2 a b              -> [100, 100]
    """)


def test_another_type_is_refused_after_bad_numbers(talk: Talk) -> None:
    talk(f"""
        SADD k a                                -> 1
        SEXPIREMEMBER k a 100                   -> 1
        ZADD k x a                              -> {NOT_A_FLOAT}
        ZADD k 1 a                              -> {WRONGTYPE}
        ZADD k INCR 1 a                         -> {WRONGTYPE}
        GEOADD k 13 38 a                        -> {WRONGTYPE}
        ZINCRBY k 1 a                           -> {WRONGTYPE}
        ZREM k a                                -> {WRONGTYPE}
        ZREMRANGEBYRANK k 0 -1                  -> {WRONGTYPE}
        ZREMRANGEBYSCORE k 0 1                  -> {WRONGTYPE}
        ZREMRANGEBYLEX k - +                    -> {WRONGTYPE}
        ZPOPMIN k                               -> {WRONGTYPE}
        ZPOPMAX k 2                             -> {WRONGTYPE}
        STTLMEMBER k a                          -> 100
    """)


# --- ZADDEX


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


# --- more words than Lua can unpack


def test_one_zadd_of_many_members_is_whole_or_not_at_all(app: Connection) -> None:
    pairs = [word for n in range(9000) for word in (n, f"m{n}")]
    app.ask("ZADD", "k", 1, "m0")
    app.ask("ZEXPIREATMEMBER", "k", "m0", 4102444800)
    assert app.ask("ZADD", "k", *pairs, "x", "last") == f"-{NOT_A_FLOAT}\r\n".encode()
    assert app.ask("ZCARD", "k") == b":1\r\n"
    assert app.ask("ZEXPIRETIMEMEMBER", "k", "m0") == b":4102444800\r\n"
    assert app.ask("ZADD", "k", "CH", *pairs) == b":9000\r\n"
    assert app.ask("ZTTLMEMBER", "k", "m0") == b":-1\r\n"
    all_of_them = ("MEMBERS", 9000, *pairs[1::2])
    assert app.ask("ZEXPIREATMEMBER", "k", 4102444800, *all_of_them).startswith(b"*9000")
    assert app.ask("ZREMRANGEBYSCORE", "k", 0, 8998) == b":8999\r\n"
    left = app.ask("ZEXPIRETIMEMEMBER", "k", "MEMBERS", 2, "m0", "m8999")
    assert left == b"*2\r\n:-2\r\n:4102444800\r\n"


def test_geoadd_of_many_members_keeps_its_triples_together(app: Connection) -> None:
    triples = [word for n in range(5000) for word in (n % 90, n % 80, f"m{n}")]
    app.ask("ZADD", "k", 1, "m0", 1, "other")
    app.ask("ZEXPIREATMEMBER", "k", 4102444800, "MEMBERS", 2, "m0", "other")
    assert app.ask("GEOADD", "k", *triples) == b":4999\r\n"
    left = app.ask("ZEXPIRETIMEMEMBER", "k", "MEMBERS", 2, "m0", "other")
    assert left == b"*2\r\n:-1\r\n:4102444800\r\n"


# --- replies, byte for byte those of a Redis without a proxy

CONTENT = [
    ["ZADD", "k", "1", "a", "-2.5", "b", "1e300", "c", "inf", "d", "0.1", "e", "1e-7", "f"],
    ["GEOADD", "geo", "13.361389", "38.115556", "p", "15.087269", "37.502669", "q"],
]
REPLIES = """
ZADD k 1 a 7 new
ZADD k CH 1 a 8 new 9 newer
ZADD k XX CH GT 1 a 9 new 3.5 newer
ZADD k nx ch lt 1 a
ZADD k LT CH 1 a -9 b
ZADD k INCR 1e-5 a
ZADD k INCR 1e17 a
ZADD k NX INCR 1 a
ZADD k XX INCR 1 gone
ZADD k GT INCR -1 c
ZADD k INCR inf c
ZADD k INCR -inf c
ZADD k INCR nan a
ZADD k INCR 0.3 e
ZINCRBY k 0.2 e
ZINCRBY k -inf d
ZINCRBY k -inf b
ZINCRBY k 3 a
ZINCRBY k 1e21 a
ZADD k 0x1p3 f 1e5 f
ZADD k INCR 1 a 2 b
ZADD k NX XX 1 a
ZADD k GT LT 1 a
ZADD k NX GT 1 a
ZADD k 1
ZADD k 1 a 2
ZADD k CH NX GT
ZADD k 1 a x b
ZADD k 1_ a
ZADD k "" a
GEOADD geo 13 38 p 14 38 r
GEOADD geo XX CH 13.5 38 p 14 38 s
GEOADD geo NX CH 13.6 38 p 14 38 s
GEOADD geo NX XX 13.6 38 p
GEOADD geo 13.6 38 p 1
GEOADD geo 181 38 p
GEOADD geo NX CH XX
ZREM k f f gone
ZREMRANGEBYRANK k 0 0
ZREMRANGEBYRANK k 90 99
ZREMRANGEBYSCORE k (1 1
ZREMRANGEBYSCORE k x 1
ZREMRANGEBYLEX k [e [e
ZREMRANGEBYLEX k e [e
ZPOPMIN k
ZPOPMAX k
ZPOPMAX k 1
ZPOPMIN k 0
ZPOPMIN k -1
ZPOPMIN k 1 1
ZPOPMIN k 99
ZPOPMIN k
ZPOPMAX k
ZPOPMIN geo
ZRANGE geo 0 -1 WITHSCORES
"""


@pytest.mark.parametrize("in_multi", [False, True], ids=["outside", "in_multi"])
@pytest.mark.parametrize("resp", [2, 3])
def test_replies_on_a_managed_key_are_those_of_a_plain_redis(
    proxy: Proxy, plain: AnyServer, resp: int, in_multi: bool
) -> None:
    requests = [[word.strip('"') for word in line.split()] for line in REPLIES.split("\n") if line]
    if in_multi:
        requests = [["MULTI"], *requests, ["EXEC"]]
    said = b"".join(command(*words) for words in [["HELLO", str(resp)], *requests])
    with Connection(proxy.port) as ours, Connection(plain.port) as theirs:
        for setup in CONTENT:
            assert ours.ask(*setup) == theirs.ask(*setup)
        for key, members in (("k", "abcdef"), ("geo", "pq")):
            ours.ask("ZEXPIREMEMBER", key, 1000, "MEMBERS", len(members), *members)
        ours.send(said)
        theirs.send(said)
        ours.read(), theirs.read()  # replies to HELLO: the client id differs
        for words in requests:
            assert ours.read() == theirs.read(), words
