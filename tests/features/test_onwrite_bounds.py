"""ONWRITE with JITTER, MAXLEN and EVICT; what expires or makes room is handed on by ONEXPIRE."""

from __future__ import annotations

from threading import Thread

import pytest

from tests.conftest import StartProxy
from tests.support.containers import AnyServer
from tests.support.conversation import Talk
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.servers import Proxy


def test_jitter_spreads_deadlines(rule: Client) -> None:
    rule.ask("ONWRITE", "k*", "PX", 1_000_000, "JITTER", 50)
    for add, ask in (
        (["SADD", "k1"], ["SPTTLMEMBER", "k1", "MEMBERS"]),
        (["RPUSH", "k2"], ["LPTTLELEMENT", "k2", "ELEMENTS"]),
    ):
        names = [f"m{number}" for number in range(200)]
        assert rule.ask(*add, *names) == 200
        left = rule.ask(*ask, 200, *names)
        assert all(990_000 < each <= 1_500_000 for each in left)
        assert len(set(left)) > 150
        assert max(left) - min(left) > 300_000


def test_a_native_write_beyond_maxlen_is_refused(rule: Client, talk: Talk) -> None:
    rule.ask("ONWRITE", "k*", "EX", 100, "MAXLEN", 2)
    refusal = "TTLMAXLEN a rule of ONWRITE allows this key 2 elements at most"
    talk(f"""
        SADD k1 a b                 -> 2
        SADD k1 a c                 -> {refusal}
        SADD k1 a b                 -> 0
        SCARD k1                    -> 2
        HSET k2 a 1 b 1             -> 2
        HSET k2 c 1                 -> {refusal}
        HSETNX k2 c 1               -> {refusal}
        HSETNX k2 a 9               -> 0
        HINCRBY k2 c 1              -> {refusal}
        HSET k2 a 2                 -> 0
        HINCRBY k2 a 1              -> 3
        HLEN k2                     -> 2
        ZADD k3 1 a 1 b 1 c         -> {refusal}
        EXISTS k3                   -> 0
        ZADD k3 1 a 1 b             -> 2
        ZINCRBY k3 1 c              -> {refusal}
        ZINCRBY k3 1 a              -> "2"
        ZADD k3 XX 1 c              -> 0
        RPUSH k4 a b                -> 2
        RPUSH k4 a                  -> {refusal}
        LINSERT k4 BEFORE a c       -> {refusal}
        LSET k4 0 c                 -> OK
        LLEN k4                     -> 2
    """)


@pytest.mark.parametrize("letter", ["s", "z", "l"])
def test_what_makes_room_is_handed_on_once_whoever_writes(
    rule: Client, proxy: Proxy, server: AnyServer, start_proxy: StartProxy, letter: str
) -> None:
    """Clients of two proxies write at once."""
    ports = [proxy.port, start_proxy(server.url).port]
    rule.ask("ONEXPIRE", "jobs:*", "RPUSH", "late")
    rule.ask("ONWRITE", "jobs:*", "EX", 100, "MAXLEN", 3, "EVICT")
    write = {"s": ["SADD", "jobs:s"], "z": ["ZADD", "jobs:z", "1"], "l": ["RPUSH", "jobs:l"]}
    shown = {"s": "SMEMBERS jobs:s", "z": "ZRANGE jobs:z 0 -1", "l": "LRANGE jobs:l 0 -1"}

    def write_all(port: int, who: str) -> None:
        with Connection(port) as app:
            for number in range(30):
                assert app.ask(*write[letter], f"{who}{number}").startswith(b":")

    writers = [Thread(target=write_all, args=each) for each in zip(ports, "ab", strict=True)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    wait_until(lambda: rule.ask("LLEN", "late") == 57, "all but three have been handed on")
    live = rule.ask(*shown[letter].split())
    assert len(live) == 3
    names = [f"{who}{number}".encode() for who in "ab" for number in range(30)]
    assert sorted([*live, *rule.ask("LRANGE", "late", 0, -1)]) == sorted(names)
