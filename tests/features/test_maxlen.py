"""MAXLEN and EVICT: a cap on live elements; what no conversation of one client can say."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.containers import AnyServer
from tests.support.conversation import in_multi, one_by_one, talking
from tests.support.per_type import UNLISTED, put, said_of
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.servers import Proxy, release
from ttlproxy.core.keys import Keys


@pytest.mark.parametrize("type_", UNLISTED)
def test_many_make_room_for_many(proxy: Proxy, server: AnyServer, type_: str) -> None:
    for key, options in (("dated", "EX 100"), ("undated", "")):
        old = " ".join(f"old{n}" for n in range(150))
        new = " ".join(f"new{n}" for n in range(120))
        with talking(proxy, server, one_by_one) as talk:
            talk(
                said_of(
                    type_,
                    f"""
                    PUT {key} [{options}] {old}         -> 150
                    PUT {key} [MAXLEN 160 EVICT EX 200] {new} -> 120
                    wait 1
                    LEN {key}                           -> 160
                    HTTLFIELD {key} new119              -> 200
                    """,
                )
            )


# Lasts 3 ms at least, also where TIME stands still in a script.
LET_3_MS_PASS = (
    "local function us() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end "
    "local until_us, calls = us() + 3000, 0 "
    "repeat calls = calls + 1 until us() > until_us or calls == 1000000"
)


@pytest.mark.parametrize("type_", UNLISTED)
def test_an_element_whose_deadline_passes_in_a_transaction_does_not_come_back_by_xx(
    proxy: Proxy, server: AnyServer, type_: str
) -> None:
    if release(server.name) >= (7, 2):
        pytest.skip("TIME stands still in a transaction")
    update = "FXX" if type_ == "hash" else "XX"
    again = put(type_, "k", f"{update} MAXLEN 1 EX 100", ["a", "c"])
    with talking(proxy, server, in_multi) as talk:
        talk(
            said_of(
                type_,
                f"""
                PUT k [MAXLEN 9 PX 1] a b -> 2
                EVAL "{LET_3_MS_PASS}" 0 -> nil
                ADD k c -> 1
                {again} -> 0
                """,
            )
        )


# --- many at once

ADDERS, TURNS, CAP = 40, 25, 25

# Counts a key's live elements: KEYS[1] is the key, KEYS[2] its index, ARGV[1] the length command.
LIVE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local past = redis.call('ZCOUNT', KEYS[2], '-inf', '(' .. string.format('%.0f', now))
return redis.call(ARGV[1], KEYS[1]) - past
"""
LENGTHS = {"hash": "HLEN", "set": "SCARD", "zset": "ZCARD", "list": "LLEN"}


@pytest.mark.slow
@pytest.mark.parametrize("type_", LENGTHS)
@pytest.mark.parametrize("evict", ["", "EVICT"])
def test_forty_adders_never_pass_the_cap(
    proxy: Proxy, direct: Client, type_: str, evict: str
) -> None:
    def add(adder: int) -> list[bytes]:
        with Connection(proxy.port) as app:
            return [app.ask(*_turn(type_, evict, adder, turn).split()) for turn in range(TURNS)]

    def watch() -> list[int]:
        seen = []
        while not all(adding.done() for adding in adders):
            seen.append(direct.ask("EVAL", LIVE, 2, "k", Keys().index(b"k"), LENGTHS[type_]))
        return seen

    with ThreadPoolExecutor(ADDERS + 1) as threads:
        adders = [threads.submit(add, adder) for adder in range(ADDERS)]
        watching = threads.submit(watch)
        replies = [reply for adding in adders for reply in adding.result()]
        seen = watching.result()
    refused = replies.count(b":-1\r\n")
    assert refused == (0 if evict else ADDERS * TURNS - CAP)
    counted = range(1, CAP + 1) if type_ == "list" else [1]
    assert set(replies) <= {b":%d\r\n" % count for count in (*counted, -1)}
    assert max(seen) == CAP
    wait_until(lambda: direct.ask(LENGTHS[type_], "k") == CAP, "what was evicted gone")


def _turn(type_: str, evict: str, adder: int, turn: int) -> str:
    options = f"MAXLEN {CAP} {evict} EX {100 + turn}"
    return put(type_, "k", options, [f"a{adder}-{turn}"])
