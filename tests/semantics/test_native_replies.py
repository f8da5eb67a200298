"""Replies about managed lists and sorted sets are those of Redis, byte for byte."""

from __future__ import annotations

import re

import pytest

from tests.support.containers import AnyServer
from tests.support.raw_client import Connection, command
from tests.support.servers import Proxy

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
