"""What each native command on sorted sets does to deadlines.

What sorted sets have in common with other types is in test_past_deadlines.py, test_whole_keys.py
and test_virtual.py.
"""

from __future__ import annotations

import pytest

from tests.support.containers import AnyServer
from tests.support.conversation import Talk
from tests.support.error_texts import WRONGTYPE
from tests.support.raw_client import Connection

NOT_A_FLOAT = "ERR value is not a valid float"


# --- R1: past its deadline a member is absent for every command, though nobody reaped it


@pytest.mark.usefixtures("no_reaper")
@pytest.mark.parametrize(
    "look",
    [  # of reads one for each place at which a key stands: all are treated alike
        "ZSCORE k a                             -> nil",
        "ZCARD k                                -> 2",
        'ZRANGE k 0 0                           -> ["b"]',
        'ZSCAN k 0                              -> ["0", ["b", "2", "c", "3"]]',
        'ZUNION 2 k nokey                       -> ["b", "c"]',
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
        'ZPOPMIN k                              -> ["b", "2"]',
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
