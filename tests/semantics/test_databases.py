"""SWAPDB, FLUSHDB and FLUSHALL."""

from __future__ import annotations

import pytest

from tests.support.containers import AnyServer
from tests.support.conversation import Talk, hold, let_pass
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from ttlproxy.core.keys import Keys

KEYS = Keys()


def test_swapped_databases_take_their_deadlines_along(every: Talk) -> None:
    every("""
        ADD k a b                           -> 2
        HEXPIREFIELD k a 100                -> 1
        SELECT 1                            -> OK
        ADD k a b                           -> 2
        ADD l a b                           -> 2
        HPEXPIREFIELD l a 30                -> 1
        SWAPDB 0 1                          -> OK
        HTTLFIELD k FIELDS 2 a b            -> [100, -1]
        ADD k a c                           -> *
        EXISTS l                            -> 0
        SELECT 0                            -> OK
        HTTLFIELD k FIELDS 2 a b            -> [-1, -1]
        wait 30
        LEN l                               -> 1
        SWAPDB 0 99                         -> ERR*
        SWAPDB 0 x                          -> ERR*
        SWAPDB 0 0                          -> OK
        SWAPDB 1 0                          -> OK
        EXISTS l                            -> 0
    """)


@pytest.mark.usefixtures("no_reaper")
def test_what_another_client_swapped_is_looked_for_where_it_is_now(
    app: Connection, other: Connection, direct: Client
) -> None:
    hold(app, direct, "SADD s a b -> 2\nSPEXPIREMEMBER s a 40 -> 1\nSELECT 7 -> OK\nSCARD s -> 0")
    hold(other, direct, "SWAPDB 0 7 -> OK")
    let_pass(direct, 40)
    hold(app, direct, "SCARD s -> 1")
    hold(other, direct, "SWAPDB 7 0 -> OK\nSCARD s -> 1")


def test_what_is_done_later_for_a_key_is_done_where_it_is_by_then(
    app: Connection, direct: Client
) -> None:
    """An index is swept, and a rule's deadline given, some time after the write."""
    hold(app, direct, "ONWRITE s:* EX 100 -> OK\nSADD a x -> 1\nRPUSHEX l 100 a b -> 2")
    for words in (("RPOP", "l", 2), ("SUNIONSTORE", "s:1", "a"), ("SWAPDB", 0, 1), ("SELECT", 1)):
        app.send(command(*words))
    assert app.read_many(4)[-2:] == [b"+OK\r\n"] * 2
    index = KEYS.index(b"l")
    direct.ask("SELECT", 1)
    wait_until(lambda: direct.ask("EXISTS", index) == 0, "the sweep")
    wait_until(lambda: app.ask("STTLMEMBER", "s:1", "x") > b":0", "the deadline")
    direct.ask("SELECT", 0)


@pytest.mark.parametrize("flush", ["FLUSHALL", "FLUSHDB", "FLUSHALL ASYNC"])
def test_a_flushed_key_starts_clean_and_is_forgotten(
    app: Connection, server: AnyServer, direct: Client, flush: str
) -> None:
    hold(
        app,
        direct,
        f"""
        SADDEX s 100 a                      -> 1
        {flush}                             -> OK
        SADD s a                            -> 1
        STTLMEMBER s a                      -> -1
    """,
    )

    wait_until(lambda: b"managed_keys:0\r\n" in app.ask("INFO", "ttlproxy"), "the proxy forgets")
