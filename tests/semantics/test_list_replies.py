"""Replies about managed lists are those of Redis, byte for byte."""

from __future__ import annotations

import re

import pytest

from tests.support.containers import AnyServer
from tests.support.raw_client import Connection

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
