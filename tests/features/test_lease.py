"""LEASE: an item is in the list or with one worker; the set's deadlines say for how long."""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.features.conftest import Limited
from tests.support.conversation import Talk, hold, let_pass
from tests.support.error_texts import NOT_AN_INTEGER, WRONGTYPE
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.servers import Proxy

REFUSED = rb"-(NOPERM|.*ACL failure|.*The user executing the script can't)"
LEASE = ("LEASE", "src", "dst", "EX", "100")


def test_items_are_taken_from_the_right_and_lent_for_a_time(talk: Talk) -> None:
    talk("""
        LPUSH src a b c d                   -> 4
        LEASE src dst EX 100                -> "a"
        lease src dst px 200000 count 2     -> ["b", "c"]
        STTLMEMBER dst MEMBERS 3 a b c      -> [100, 200, 200]
        LRANGE src 0 -1                     -> ["d"]
        LEASE src dst COUNT 9 EX 300        -> ["d"]
        EXISTS src                          -> 0
        LEASE src dst EX 100                -> nil
        LEASE src dst EX 100 COUNT 2        -> nil
        SREM dst a                          -> 1
        SEXPIREMEMBER dst b 900             -> 1
        STTLMEMBER dst MEMBERS 4 a b c d    -> [-2, 900, 200, 300]
        LEASE none new EX 100               -> nil
        EXISTS new                          -> 0
    """)


def test_an_item_that_is_lent_already_stays_and_the_next_is_taken(talk: Talk) -> None:
    talk("""
        RPUSH src a b c b b                 -> 5
        SADD dst c                          -> 1
        LEASE src dst EX 100                -> "b"
        LRANGE src 0 -1                     -> ["a", "b", "c", "b"]
        LEASE src dst EX 100                -> "a"
        LEASE src dst EX 100                -> nil
        LRANGE src 0 -1                     -> ["b", "c", "b"]
        STTLMEMBER dst MEMBERS 3 a b c      -> [100, 100, -1]
        SREM dst b                          -> 1
        LEASE src dst EX 100 COUNT 9        -> ["b"]
        LRANGE src 0 -1                     -> ["b", "c"]
    """)


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


def test_tokens_are_told_apart_in_multi_and_from_deadlines(talk: Talk) -> None:
    talk("""
        SADDEX s PXAT 4102444800000 MEMBERS 2 a b   -> 2
        SADD s c                                    -> 1
        UNLEASE s 4102444800001 a c                 -> 0
        UNLEASE s 4102444800000 b                   -> 1
        RENEW s 4102444800000 a EX 100              -> 1*
        STTLMEMBER s a                              -> 100
        RENEW s 4102444800000 a EX 100              -> nil
        RENEW none 4102444800000 a EX 100           -> nil
        UNLEASE none 4102444800000 a                -> 0
        SMEMBERS s                                  -> ["a", "c"]
    """)


def test_what_is_wrong_with_a_token_is_refused(talk_one_by_one: Talk) -> None:
    talk_one_by_one(f"""
        UNLEASE s x a                       -> {NOT_AN_INTEGER}
        UNLEASE s 1                         -> ERR wrong number of arguments for 'unlease' command
        RENEW s 1.5 a EX 9                  -> {NOT_AN_INTEGER}
        RENEW s 1 a XX 9                    -> ERR syntax error
        RENEW s 1 a EX 0                    -> ERR invalid expire time in 'renew' command
        RENEW s 1 a PX x                    -> {NOT_AN_INTEGER}
        RENEW s 1 a EX                      -> ERR wrong number of arguments for 'renew' command
        LEASE l s EX 9 TOKEN TOKEN          -> ERR syntax error
        SET k x                             -> OK
        UNLEASE k 1 a                       -> {WRONGTYPE}
        RENEW k 1 a EX 9                    -> {WRONGTYPE}
    """)


def test_no_more_than_a_thousand_lent_items_are_passed_over(client: Client) -> None:
    client.ask("RPUSH", "src", "free", *range(1000))
    client.ask("SADD", "dst", *range(1000))
    assert client.ask("LEASE", "src", "dst", "EX", 9) == b"free"
    client.ask("RPUSH", "src", 0, 1)
    client.ask("LPUSH", "src", "far")
    assert client.ask("LEASE", "src", "dst", "EX", 9) is None
    assert client.ask("LEASE", "src", "dst", "EX", 9, "COUNT", 3) == [b"far"]
    assert client.ask("LLEN", "src") == 1002


def test_what_is_past_its_deadline_is_neither_taken_nor_in_the_way(talk: Talk) -> None:
    talk("""
        RPUSH src a b                       -> 2
        LPEXPIREELEMENT src b 20            -> 1
        SADDEX dst PX 20 MEMBERS 1 a        -> 1
        wait 20
        LEASE src dst EX 100                -> "a"
        LEASE src dst EX 100                -> nil
        STTLMEMBER dst a                    -> 100
    """)


def test_the_deadline_of_an_item_in_the_list_goes_with_its_last_copy(talk: Talk) -> None:
    talk("""
        RPUSHEX src 100 a b a               -> 3
        LEASE src dst EX 200                -> "a"
        LTTLELEMENT src a                   -> 100
        LEASE src dst EX 200                -> "b"
        RPUSH src b                         -> 2
        LTTLELEMENT src ELEMENTS 2 a b      -> [100, -1]
        STTLMEMBER dst MEMBERS 2 a b        -> [200, 200]
    """)


def test_a_lent_item_goes_at_its_deadline(talk: Talk) -> None:
    talk("""
        RPUSH src a b                       -> 2
        SADDEX dst 100 z                    -> 1
        LEASE src dst PX 20                 -> "b"
        wait 20
        SMEMBERS dst                        -> ["z"]
        EXPIRE dst 50                       -> 1
        LEASE src dst EX 900                -> "a"
        TTL dst                             -> 50
    """)


@pytest.mark.parametrize("other", ["SET k x", "SADD k x", "HSET k x y", "ZADD k 1 x"])
def test_a_source_of_the_wrong_type_is_refused(talk: Talk, other: str) -> None:
    talk(f"""
        {other}                             -> *
        LEASE k dst EX 100                  -> {WRONGTYPE}
        LEASE k dst EX 100 COUNT 2          -> {WRONGTYPE}
        LEASE k k EX 100                    -> {WRONGTYPE}
        EXISTS dst                          -> 0
    """)


@pytest.mark.parametrize("other", ["SET k x", "RPUSH k x", "HSET k x y", "ZADD k 1 x"])
def test_a_destination_of_the_wrong_type_moves_nothing(talk: Talk, other: str) -> None:
    talk(f"""
        {other}                             -> *
        RPUSH src a                         -> 1
        LEASE src k EX 100                  -> {WRONGTYPE}
        LEASE none k EX 100                 -> {WRONGTYPE}
        LRANGE src 0 -1                     -> ["a"]
        LEASE src src EX 100                -> {WRONGTYPE}
    """)


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
