"""ONWRITE with KEEPTTL: native writes leave the deadlines that are there, as KeyDB's do."""

from __future__ import annotations

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import FLAGS, metric, pages
from tests.support.conversation import Talk
from tests.support.raw_client import Connection
from tests.support.redis_client import Client


@pytest.mark.parametrize("times", ["", "EX 60"], ids=["alone", "with a time"])
def test_an_overwritten_element_keeps_its_deadline(talk: Talk, rule: Client, times: str) -> None:
    rule.ask("ONWRITE", "k*", *times.split(), "KEEPTTL")
    new = "60" if times else "-1"
    talk(f"""
        HSET k:h a 1 b 2 c 3                        -> 3
        HEXPIREFIELD k:h a 100                      -> 1
        HPERSISTFIELD k:h b                         -> *
        HSET k:h a 5 b 6 d 7                        -> 1
        HMSET k:h a 8                               -> OK
        HINCRBY k:h a 1                             -> 9
        HSETNX k:h a 1                              -> 0
        HTTLFIELD k:h FIELDS 3 a b d                -> [100, -1, {new}]
        HDEL k:h a                                  -> 1
        HSET k:h a 1                                -> 1
        HTTLFIELD k:h a                             -> {new}
        ZADD k:z 1 a 2 b                            -> 2
        ZEXPIREMEMBER k:z a 100                     -> 1
        ZPERSISTMEMBER k:z b                        -> *
        ZADD k:z CH 9 a 9 b 9 c                     -> 3
        ZADD k:z GT 10 a                            -> 0
        ZADD k:z 10 a                               -> 0
        ZINCRBY k:z 1 a                             -> "11"
        GEOADD k:z 1 2 a                            -> 0
        ZTTLMEMBER k:z MEMBERS 3 a b c              -> [100, -1, {new}]
        SADD k:s a                                  -> 1
        SEXPIREMEMBER k:s a 100                     -> 1
        SADD k:s a b                                -> 1
        STTLMEMBER k:s MEMBERS 2 a b                -> [100, {new}]
        RPUSH k:l a                                 -> 1
        LEXPIREELEMENT k:l a 100                    -> 1
        RPUSH k:l a b                               -> 3
        LSET k:l 0 a                                -> OK
        LTTLELEMENT k:l ELEMENTS 2 a b              -> [100, {new}]
    """)


def test_a_key_without_deadlines_needs_no_script(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(start_server().url, *FLAGS)
    with Connection(proxy.port) as client:
        assert client.ask("ONWRITE", "undated*", "KEEPTTL") == b"+OK\r\n"
        for line in (
            "HSET undated:h a 1",
            "HSET undated:h a 2",
            "SADD undated:s a",
            "ZADD undated:z 1 a",
            "RPUSH undated:l a",
        ):
            assert not client.ask(*line.split()).startswith(b"-"), line
        assert metric(pages(proxy), "ttlproxy_requests_total", kind="rewritten") == 0
        assert client.ask("HEXPIREFIELD", "undated:h", "a", 100) == b":1\r\n"
        assert client.ask("HSET", "undated:h", "a", 3) == b":0\r\n"
        assert client.ask("HTTLFIELD", "undated:h", "a") == b":100\r\n"
