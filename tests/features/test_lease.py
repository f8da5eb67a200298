"""LEASE: an item is in the list or with one worker; the set's deadlines say for how long."""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.features.conftest import Limited
from tests.support.conversation import Talk, hold, let_pass
from tests.support.error_texts import NOT_AN_INTEGER
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.servers import Proxy

REFUSED = rb"-(NOPERM|.*ACL failure|.*The user executing the script can't)"
LEASE = ("LEASE", "src", "dst", "EX", "100")


def test_a_lease_that_is_over_is_neither_ended_nor_renewed(client: Client, direct: Client) -> None:
    """Though another worker has the item by then, the slow one does not touch its lease."""
    client.ask("ONEXPIRE", "busy", "RPUSH", "src")
    client.ask("RPUSH", "src", "a")
    item, token = client.ask("LEASE", "src", "busy", "PX", 20, "TOKEN")
    assert item == b"a"
    let_pass(direct, 20)
    assert client.ask("UNLEASE", "busy", token, "a") == 0
    assert client.ask("RENEW", "busy", token, "a", "EX", 100) is None
    _, second = client.ask("LEASE", "src", "busy", "EX", 100, "TOKEN")
    assert client.ask("UNLEASE", "busy", token, "a") == 0
    assert client.ask("RENEW", "busy", token, "a", "EX", 100) is None
    third = client.ask("RENEW", "busy", second, "a", "EX", 200)
    assert third == client.ask("SPEXPIRETIMEMEMBER", "busy", "a")
    assert third > second + 90_000
    assert client.ask("UNLEASE", "busy", second, "a") == 0
    assert client.ask("UNLEASE", "busy", third, "a", "a", "none") == 1
    assert client.ask("EXISTS", "busy", "src") == 0


def test_items_that_are_leased_together_have_one_token(client: Client) -> None:
    client.ask("RPUSH", "src", "a", "b", "c")
    items, token = client.ask("LEASE", "src", "busy", "EX", 100, "COUNT", 2, "TOKEN")
    assert items == [b"c", b"b"]
    assert client.ask("LEASE", "src", "busy", "TOKEN", "EX", 200)[0] == b"a"
    assert client.ask("UNLEASE", "busy", token, "a", "b", "c") == 2
    assert client.ask("SMEMBERS", "busy") == [b"a"]
    assert client.ask("LEASE", "src", "busy", "EX", 100, "TOKEN") is None
    assert client.ask("LEASE", "src", "busy", "EX", 100, "COUNT", 2, "TOKEN") is None


def test_no_more_than_a_thousand_lent_items_are_passed_over(client: Client) -> None:
    client.ask("RPUSH", "src", "free", *range(1000))
    client.ask("SADD", "dst", *range(1000))
    assert client.ask("LEASE", "src", "dst", "EX", 9) == b"free"
    client.ask("RPUSH", "src", 0, 1)
    client.ask("LPUSH", "src", "far")
    assert client.ask("LEASE", "src", "dst", "EX", 9) is None
    assert client.ask("LEASE", "src", "dst", "EX", 9, "COUNT", 3) == [b"far"]
    assert client.ask("LLEN", "src") == 1002


def test_a_malformed_request_is_refused(talk: Talk) -> None:
    few = "ERR count should be greater than 0"
    lines = f"""
        EX x                                -> {NOT_AN_INTEGER}
        EX -1                               -> ERR invalid expire time, must be >= 0
        PX 0                                -> ERR invalid expire time in 'lease' command
        EX 70368744178                      -> ERR invalid expire time in 'lease' command
        COUNT 1                             -> ERR syntax error
        EX 1 PX 1                           -> ERR syntax error
        EX 1 COUNT                          -> ERR syntax error
        EXAT 1                              -> ERR syntax error
        EX 1 WORD 1                         -> ERR syntax error
        EX 1 COUNT 1 COUNT 1                -> ERR syntax error
        EX 1 COUNT 0                        -> {few}
        EX 1 COUNT -1                       -> {few}
        EX 1 COUNT x                        -> {few}
        EX 1 COUNT 2147483648               -> {few}
        PX 70368744177663                   -> ERR invalid expire time in 'lease' command
    """
    said = "\n".join(f"LEASE src dst {line.strip()}" for line in lines.strip().splitlines())
    talk(f"""
        RPUSH src a                         -> 1
        {said}
        LLEN src                            -> 1
    """)


def test_several_thousand_items_are_lent_at_once(client: Client) -> None:
    items = [b"%d" % number for number in range(20_000)]
    client.ask("LPUSH", "src", *items)
    assert client.ask("LEASE", "src", "dst", "EX", 100, "COUNT", 15_000) == items[:15_000]
    assert client.ask("LLEN", "src") == 5000
    assert client.ask("SCARD", "dst") == 15_000
    first, last = client.ask("STTLMEMBER", "dst", "MEMBERS", 2, 0, 14_999)
    assert 70 < first <= last <= 100


def test_no_two_workers_get_the_same_item(proxy: Proxy, client: Client) -> None:
    client.ask("RPUSH", "src", *range(2000))

    def work(_: int) -> list[bytes]:
        worker, found = Client(proxy.port), []
        while (item := worker.ask("LEASE", "src", "dst", "EX", 100)) is not None:
            found.append(item)
        worker.close()
        return found

    with ThreadPoolExecutor(8) as workers:
        lent = Counter(item for found in workers.map(work, range(8)) for item in found)
    assert len(lent) == 2000
    assert set(lent.values()) == {1}
    assert client.ask("SCARD", "dst") == 2000


# --- refused in the middle


@pytest.mark.parametrize(
    "rule", ["-zadd", "-sadd", "-lrem", "-set", "-del", "resetkeys ~src ~__ttl:*"]
)
def test_a_user_who_is_refused_one_of_the_writes_has_moved_nothing(
    limited: Limited, app: Connection, direct: Client, rule: str
) -> None:
    hold(app, direct, "RPUSH src a b -> 2")
    reply = limited(rule, " ".join(LEASE))
    assert re.match(REFUSED, reply), reply
    hold(app, direct, 'LRANGE src 0 -1 -> ["a", "b"]\nEXISTS dst -> 0')


def test_a_full_server_lends_nothing(app: Connection, direct: Client) -> None:
    hold(app, direct, "RPUSH src a b -> 2")
    direct.ask("CONFIG", "SET", "maxmemory", 1)
    try:
        assert app.ask(*LEASE).startswith(b"-OOM")
    finally:
        direct.ask("CONFIG", "SET", "maxmemory", 0)
    hold(app, direct, 'LRANGE src 0 -1 -> ["a", "b"]\nEXISTS dst -> 0')
