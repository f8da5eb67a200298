"""LREM, LTRIM and all pops: the last copy of a value takes its deadline with it."""

from __future__ import annotations

import pytest

from tests.support.containers import AnyServer
from tests.support.conversation import Talk
from tests.support.error_texts import NOT_AN_INTEGER
from tests.support.raw_client import Connection, command
from tests.support.server_queries import until_blocked

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
