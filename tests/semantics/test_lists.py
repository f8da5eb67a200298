"""What each native command does to the deadlines of list elements: docs/semantics.md, "Lists".

Equal values in one list share one deadline and expire together. What lists have in common with the
other types is in test_native.py.
"""

from __future__ import annotations

import re

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.containers import AnyServer
from tests.support.conversation import OUTSIDE_MULTI, WAYS, Talk, let_pass, said_in
from tests.support.error_texts import NOT_AN_INTEGER, WRONGTYPE
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.server_queries import calls, until_blocked
from ttlproxy.core.keys import Keys

talk = said_in(WAYS)
talk_outside_multi = said_in(OUTSIDE_MULTI)

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


# --- long lists: many values are found in one walk


VALUES = [f"value:{number}" for number in range(3000)]


def _fill(app: Connection, copies: int) -> None:
    for _ in range(copies):
        app.ask("RPUSH", "l", *VALUES)


def _left(app: Connection) -> list[str]:
    return app.ask("LRANGE", "l", 0, -1).decode().split("\r\n")[2::2]


@pytest.mark.parametrize(
    "due",
    [
        VALUES[:500] + VALUES[2990:],
        VALUES[::7],
        VALUES[1000:2000],
        VALUES[1:],
        [VALUES[0], *VALUES[500:700:2], VALUES[-1]],
    ],
    ids=["both ends", "here and there", "the middle", "all but one", "a few"],
)
@pytest.mark.parametrize(("ms", "answer"), [(0, b":2\r\n"), (10, b":1\r\n")])
@pytest.mark.parametrize("copies", [1, 2])
def test_many_due_values_go_and_the_others_keep_their_order(
    app: Connection, due: list[str], copies: int, ms: int, answer: bytes
) -> None:
    _fill(app, copies)
    reply = app.ask("LPEXPIREELEMENT", "l", ms, "ELEMENTS", len(due), *due)
    assert reply == b"*%d\r\n" % len(due) + answer * len(due)
    gone = set(due)
    expected = [value for value in VALUES if value not in gone] * copies
    wait_until(lambda: _left(app) == expected, "what is left")


def test_a_long_list_goes_as_a_whole(app: Connection, direct: Client) -> None:
    _fill(app, 3)
    app.ask("LPEXPIREELEMENT", "l", 10, "ELEMENTS", len(VALUES), *VALUES)
    wait_until(lambda: direct.ask("EXISTS", "l") == 0, "the list gone")


@pytest.mark.usefixtures("no_reaper")
def test_however_many_are_due_the_next_look_sees_none(app: Connection, direct: Client) -> None:
    _fill(app, 2)
    app.ask("LPEXPIREELEMENT", "l", 20, "ELEMENTS", 2500, *VALUES[:2500])
    let_pass(direct, 20)
    assert app.ask("LLEN", "l") == b":1000\r\n"


def test_a_full_server_lets_the_elements_of_a_long_list_go(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    with Connection(start_proxy(server.url).port) as app:
        _fill(app, 1)
        app.ask("LEXPIREELEMENT", "l", 100, "ELEMENTS", 1000, *VALUES[::3])
        app.ask("LPEXPIREELEMENT", "l", 200, "ELEMENTS", 1000, *VALUES[::3])
        app.ask("CONFIG", "SET", "maxmemory", 1)
        assert app.ask("SET", "text", "x").startswith(b"-OOM")
        expected = [value for number, value in enumerate(VALUES) if number % 3]
        wait_until(lambda: _left(app) == expected, "what is left")


def test_a_value_without_a_deadline_is_moved_without_a_walk_along_the_target(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    with Connection(start_proxy(server.url).port) as app:
        app.ask("RPUSH", "source", "a", "b", "c")
        app.ask("LEXPIREELEMENT", "source", "c", 100)
        before = calls(server.port, "lpos")
        assert app.ask("RPOPLPUSH", "source", "target") == b"$1\r\nc\r\n"
        assert calls(server.port, "lpos") > before
        app.ask("LEXPIREELEMENT", "source", "a", 100)
        found = calls(server.port, "lpos")
        assert app.ask("LMOVE", "source", "target", "RIGHT", "LEFT") == b"$1\r\nb\r\n"
        assert calls(server.port, "lpos") == found


@pytest.mark.parametrize("push", ["RPUSH l a", "RPUSHEX l KEEPTTL ELEMENTS 1 a"])
def test_deadlines_of_a_list_that_went_behind_the_proxys_back_do_not_come_back(
    app: Connection, direct: Client, push: str
) -> None:
    app.ask("RPUSHEX", "l", 100, "a", "b")
    direct.ask("DEL", "l")
    assert app.ask(*push.split()) == b":1\r\n"
    assert app.ask("LTTLELEMENT", "l", "ELEMENTS", 2, "a", "b") == b"*2\r\n:-1\r\n:-2\r\n"


def test_entries_of_a_long_list_that_was_emptied_by_a_script_are_swept(
    app: Connection, direct: Client
) -> None:
    _fill(app, 1)
    app.ask("LEXPIREELEMENT", "l", 100, "ELEMENTS", len(VALUES), *VALUES)
    app.ask("EVAL", "return redis.call('LTRIM', KEYS[1], 100, 109)", 1, "l")
    index = Keys().index(b"l")
    wait_until(lambda: direct.ask("ZCARD", index) == 10, "the entries of what is gone")


def test_many_elements_are_told_apart_as_few_are(talk: Talk) -> None:
    names = " ".join(f"e{number}" for number in range(20))
    fives = [[f"e{number}" for number in range(at, at + 5)] for at in (0, 5, 10, 15)]
    there, dated, gone = (" ".join(fives[at]) for at in (1, 2, 3))
    talk(f"""
        RPUSH l {there} {dated} {gone} {gone}   -> 20
        LEXPIREELEMENT l 100 ELEMENTS 10 {dated} {gone} -> {[1] * 10}
        LEXPIREELEMENT l 0 XX ELEMENTS 15 {gone} {gone} {there} -> {[2] * 5 + [-2] * 5 + [0] * 5}
        LTTLELEMENT l ELEMENTS 20 {names}       -> {[-2] * 5 + [-1] * 5 + [100] * 5 + [-2] * 5}
        LPUSH l {names}                         -> 30
        LTTLELEMENT l ELEMENTS 20 {names}       -> {[-1] * 10 + [100] * 5 + [-1] * 5}
        LPERSISTELEMENT l ELEMENTS 20 {names}   -> {[-1] * 10 + [1] * 5 + [-1] * 5}
    """)


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


# --- LREM


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


def test_removing_what_expired_counts_nothing(talk: Talk) -> None:
    talk("""
        RPUSH l a b a                           -> 3
        LPEXPIREELEMENT l a 20                  -> 1
        wait 20
        LREM l 0 a                              -> 0
        LREM l 0 b                              -> 1
        EXISTS l                                -> 0
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


def test_positions_count_live_elements_only(talk: Talk) -> None:
    talk("""
        RPUSH l a b a c d                       -> 5
        LPEXPIREELEMENT l a 20                  -> 1
        wait 20
        LTRIM l 1 1                             -> OK
        LRANGE l 0 -1                           -> ["c"]
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


def test_expired_elements_are_not_popped(talk: Talk) -> None:
    talk("""
        RPUSH l a b a c                         -> 4
        LPEXPIREELEMENT l a 20                  -> 1
        wait 20
        LPOP l                                  -> "b"
        RPOP l                                  -> "c"
        LPOP l                                  -> nil
    """)


@pytest.mark.parametrize("pop", ["LPOP l 2", "RPOP l 2"])
def test_what_is_popped_with_a_count_comes_back_without_its_deadline(talk: Talk, pop: str) -> None:
    talk(f"""
        RPUSH l a b a                           -> 3
        LEXPIREELEMENT l 100 ELEMENTS 2 a b     -> [1, 1]
        {pop}                                   -> ["a", "b"]
        RPUSH l b                               -> 2
        LTTLELEMENT l ELEMENTS 2 a b            -> [100, -1]
        LPOP l x                                -> ERR value is out of range, must be positive
    """)


@pytest.mark.parametrize("pop", ["LMPOP 2 nokey l LEFT", "BLMPOP 0 2 nokey l LEFT"])
def test_what_is_popped_from_several_lists_comes_back_without_its_deadline(
    talk: Talk, server: AnyServer, pop: str
) -> None:
    if server.name == "6.2":
        pytest.skip("LMPOP and BLMPOP are there from Redis 7.0 on")
    talk(f"""
        RPUSH l a b a                           -> 3
        LEXPIREELEMENT l 100 ELEMENTS 2 a b     -> [1, 1]
        {pop} COUNT 2                           -> ["l", ["a", "b"]]
        RPUSH l b                               -> 2
        LTTLELEMENT l ELEMENTS 2 a b            -> [100, -1]
    """)


@pytest.mark.parametrize("pop", ["BLPOP", "BRPOP"])
def test_what_a_blocking_command_pops_comes_back_without_its_deadline(talk: Talk, pop: str) -> None:
    talk(f"""
        RPUSH l a                               -> 1
        LEXPIREELEMENT l a 100                  -> 1
        {pop} nokey l 0                         -> ["l", "a"]
        EXISTS l                                -> 0
        RPUSH l a                               -> 1
        LTTLELEMENT l a                         -> -1
    """)


def test_what_a_waiting_client_was_given_comes_back_without_its_deadline(
    app: Connection, other: Connection, server: AnyServer
) -> None:
    app.send(command("BLPOP", "l", 0))
    until_blocked(server.port, 1)
    for words in ("MULTI", "RPUSH l a", "LEXPIREELEMENT l a 100", "EXEC"):
        other.ask(*words.split())
    assert app.read() == b"*2\r\n$1\r\nl\r\n$1\r\na\r\n"
    assert other.ask("RPUSH", "l", "a") == b":1\r\n"
    assert app.ask("LTTLELEMENT", "l", "a") == b":-1\r\n"


# --- replies, byte for byte


REQUESTS = """
    LPUSH l x a | RPUSH l y | LPUSHX nokey a | RPUSHX l a | LINSERT l BEFORE a z
    LINSERT l AFTER q q | LINSERT nokey BEFORE a a | LSET l 0 b | LSET l 99 b | LSET l x b
    LREM l 1 a | LREM l x a | LTRIM l 0 4 | LTRIM l x 0 | LPOP l | RPOP l | LPOP l 2 | RPOP l 0
    LPOP l -1 | LPOP nokey | RPOP nokey | LPOP nokey 1 | LMOVE l to LEFT RIGHT
    LMOVE nokey to LEFT RIGHT | LMOVE l to UP LEFT | RPOPLPUSH l to | RPOPLPUSH nokey l
    RPOPLPUSH l string | LPOP string | LPUSH string a | LSET string 0 a | LTRIM string 0 0
    LREM string 0 a | LINSERT string BEFORE a a | RPOP l | RPOP l | LPOP l
    LMOVE l to LEFT LEFT | BLPOP l 0.01 | BLMOVE l to LEFT LEFT 0.01 | LRANGE to 0 -1
"""


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("wrapped", [False, True], ids=["alone", "in MULTI"])
def test_replies_about_managed_lists_are_redis_own(
    app: Connection, plain: AnyServer, protocol: int, wrapped: bool
) -> None:
    with Connection(plain.port) as direct:
        for client in (app, direct):
            client.ask("RPUSH", "l", "a", "b", "c", "d", "e", "a")
            client.ask("SET", "string", "x")
        app.ask("LEXPIREELEMENT", "l", 100, "ELEMENTS", 3, "a", "b", "e")
        requests = [words.split() for words in re.split(r"[|\n]", REQUESTS) if words.strip()]
        if wrapped:
            requests = [["MULTI"], *requests, ["EXEC"]]
        for client in (app, direct):
            client.ask("HELLO", protocol)
        for words in requests:
            assert app.ask(*words) == direct.ask(*words), words


# --- LMOVE, RPOPLPUSH


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
    talk_outside_multi: Talk, push: str
) -> None:
    arity = f"ERR wrong number of arguments for '{push.lower()}' command"
    talk_outside_multi(f"""
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


def test_many_are_evicted_from_a_long_list(app: Connection) -> None:
    _fill(app, 2)
    push = "RPUSHEX l MAXLEN 1000 EVICT EX 100 ELEMENTS 2 a b"
    assert app.ask(*push.split()) in (b":1000\r\n", b":999\r\n")
    wait_until(lambda: len(_left(app)) in (999, 1000), "what was evicted gone")
    assert _left(app)[-2:] == ["a", "b"]


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
