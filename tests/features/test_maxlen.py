"""MAXLEN and EVICT of the commands that write and set deadlines: a cap on live elements.

Tested for every type with such a command. `PUT k [MAXLEN 2 EX 100] a b -> 2` stands for its long
form; the reply is the number of new elements, or -1; HSETEX replies 1 and 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from tests.support.containers import AnyServer
from tests.support.conversation import WAYS, Talk, Way, in_multi, one_by_one, talking
from tests.support.per_type import said_of
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.servers import Proxy, release
from ttlproxy.core.keys import Keys

FORMS = {
    "hash": ("HSETEX", "FIELDS", "{} 1"),
    "set": ("SADDEX", "MEMBERS", "{}"),
    "zset": ("ZADDEX", "MEMBERS", "0 {}"),
}
# Lists reply with their length: their conversations are in test_list_pushes.py.
_LISTS = ("RPUSHEX", "ELEMENTS", "{}")

_PUT = re.compile(r"\s*PUT (\S+) \[(.*)\](.*)->(.*)")


def _long_form(type_: str, key: str, options: str, elements: list[str]) -> str:
    name, keyword, element = FORMS.get(type_, _LISTS)
    words = " ".join(map(element.format, elements))
    return f"{name} {key} {options} {keyword} {len(elements)} {words}"


def _said_of(type_: str, text: str) -> str:
    lines = []
    for line in text.splitlines():
        put = _PUT.fullmatch(line)
        if put:
            key, options, elements, expected = put.groups()
            if type_ == "hash" and expected.strip().isdigit():
                expected = "1"
            line = f"{_long_form(type_, key, options, elements.split())} -> {expected}"
        lines.append(line)
    return said_of(type_, "\n".join(lines))


def _said_to_all(*ways: Way) -> Callable[..., Iterator[Talk]]:
    """As `said_to_all` of tests.support.per_type."""
    cases = [*product(FORMS, ways[:1]), *(("hash", way) for way in ways[1:])]

    @pytest.fixture(params=cases, ids=lambda case: f"{case[0]}-{case[1].__name__}")
    def every(request: pytest.FixtureRequest, proxy: Proxy, server: AnyServer) -> Iterator[Talk]:
        type_, way = request.param
        with talking(proxy, server, way) as say:
            yield lambda text: say(_said_of(type_, text))

    return every


every = _said_to_all(*WAYS)
every_one_by_one = _said_to_all(one_by_one)


# --- a full key


def test_a_write_beyond_the_cap_is_refused_whole(every: Talk) -> None:
    every("""
        PUT k [MAXLEN 2 EX 100] a b             -> 2
        PUT k [MAXLEN 2 EX 200] c               -> -1
        PUT k [MAXLEN 2 EX 200] a c             -> -1
        PUT k [EX 200 MAXLEN 3] a c d           -> -1
        LEN k                                   -> 2
        HTTLFIELD k FIELDS 3 a b c              -> [100, 100, -2]
        PUT k [MAXLEN 3 EX 200] a c             -> 1
        PUT new [MAXLEN 2 EX 100] a b c         -> -1
        EXISTS new                              -> 0
        PUT k [EX 100] d                        -> 1
    """)


def test_elements_that_are_there_are_refreshed_and_never_refused(every: Talk) -> None:
    every("""
        PUT k [EX 100] a b c d                  -> 4
        PUT k [MAXLEN 2 EX 200] a b c           -> 0
        PUT k [maxlen 0 EX 200] d d             -> 0
        HTTLFIELD k FIELDS 4 a b c d            -> [200, 200, 200, 200]
        PUT k [MAXLEN 1] a                      -> 0
        HTTLFIELD k a                           -> -1
        PUT k [MAXLEN 4 EX 300] a e             -> -1
        LEN k                                   -> 4
    """)


def test_a_repeated_element_needs_room_once(every: Talk) -> None:
    every("""
        PUT k [MAXLEN 2 EX 100] a a b a         -> 2
        LEN k                                   -> 2
    """)


def test_elements_without_a_deadline_count_as_well(every: Talk) -> None:
    every("""
        ADD k a b                               -> 2
        PUT k [MAXLEN 2] c                      -> -1
        PUT k [MAXLEN 3] c                      -> 1
        PUT k [MAXLEN 3 KEEPTTL] a d            -> -1
        HTTLFIELD k FIELDS 4 a b c d            -> [-1, -1, -1, -2]
    """)


def test_a_deadline_already_past_needs_no_room(every: Talk) -> None:
    every("""
        ADD k a b                               -> 2
        PUT k [MAXLEN 2 EX 0] c                 -> 1
        PUT k [MAXLEN 0 EX 0] a                 -> 0
        LEN k                                   -> 1
        HTTLFIELD k FIELDS 2 a b                -> [-2, -1]
    """)


# --- EVICT


def test_the_earliest_deadlines_make_room_and_those_without_one_last(
    every_one_by_one: Talk,
) -> None:
    every_one_by_one("""
        PUT k [] never1 never2                  -> 2
        PUT k [MAXLEN 9 EX 300] late            -> 1
        PUT k [EX 100] soon                     -> 1
        PUT k [MAXLEN 4 EVICT EX 200] a         -> 1
        wait 1
        HTTLFIELD k FIELDS 5 never1 never2 late soon a -> [-1, -1, 300, -2, 200]
        PUT k [maxlen 3 evict EX 400] b c       -> 2
        wait 1
        HTTLFIELD k FIELDS 4 late a b c         -> [-2, -2, 400, 400]
        LEN k                                   -> 3
        PUT k [MAXLEN 1 EVICT EX 100] b         -> 0
        wait 1
        LEN k                                   -> 1
        HTTLFIELD k b                           -> 100
    """)


def test_more_than_the_cap_at_once_is_refused_though_others_could_go(every: Talk) -> None:
    every("""
        PUT k [MAXLEN 2 EX 100] a b             -> 2
        PUT k [MAXLEN 2 EVICT EX 300] c d e     -> -1
        PUT k [MAXLEN 2 EVICT EX 300] a c d     -> -1
        PUT k [MAXLEN 0 EVICT EX 300] c         -> -1
        HTTLFIELD k FIELDS 3 a b c              -> [100, 100, -2]
        LEN k                                   -> 2
    """)


def test_a_refresh_evicts_down_to_the_cap_but_nothing_it_refreshes(
    every_one_by_one: Talk,
) -> None:
    every_one_by_one("""
        PUT k [EX 100] a b c d                  -> 4
        PUT k [MAXLEN 2 EVICT EX 300] a b c     -> 0
        wait 1
        LEN k                                   -> 3
        HTTLFIELD k FIELDS 4 a b c d            -> [300, 300, 300, -2]
    """)


def test_an_evicted_element_may_come_back(every_one_by_one: Talk) -> None:
    every_one_by_one("""
        PUT k [EX 100] a                        -> 1
        PUT k [MAXLEN 1 EVICT EX 200] b         -> 1
        wait 1
        PUT k [MAXLEN 1 EVICT EX 300] a         -> 1
        wait 1
        LEN k                                   -> 1
        HTTLFIELD k FIELDS 2 a b                -> [300, -2]
        ADD k b                                 -> 1
        HTTLFIELD k b                           -> -1
    """)


def test_an_evicted_element_needs_room_to_come_back(every: Talk) -> None:
    every("""
        PUT k [EX 100] a b                      -> 2
        PUT k [MAXLEN 2 EVICT EX 300] c         -> 1
        PUT k [MAXLEN 2 EX 300] a               -> -1
        PUT k [MAXLEN 3 EX 300] a               -> 1
        PUT k [MAXLEN 3 EX 300] d               -> -1
        HTTLFIELD k FIELDS 4 a b c d            -> [300, 100, 300, -2]
    """)


def test_many_make_room_for_many(every_one_by_one: Talk) -> None:
    for key, options in (("dated", "EX 100"), ("undated", "")):
        old = " ".join(f"old{n}" for n in range(150))
        new = " ".join(f"new{n}" for n in range(120))
        every_one_by_one(f"""
            PUT {key} [{options}] {old}         -> 150
            PUT {key} [MAXLEN 160 EVICT EX 200] {new} -> 120
            wait 1
            LEN {key}                           -> 160
            HTTLFIELD {key} new119              -> 200
        """)


def test_the_members_with_the_lowest_scores_go_first_where_none_has_a_deadline(
    proxy: Proxy, server: AnyServer
) -> None:
    with talking(proxy, server, one_by_one) as talk:
        talk("""
            ZADD z 3 c 1 a 2 b                  -> 3
            ZADDEX z MAXLEN 2 EVICT EX 100 MEMBERS 1 0 d -> 1
            wait 1
            ZRANGE z 0 -1                       -> ["d", "c"]
        """)


def test_fields_with_deadlines_that_the_server_keeps_make_room_too(
    proxy: Proxy, server: AnyServer
) -> None:
    with talking(proxy, server, one_by_one) as talk:
        talk("""
            HSET h a 1 b 1 c 1                  -> 3
            HEXPIRE h 500 FIELDS 3 a b c        -> [1, 1, 1]
            HSETEX h MAXLEN 2 EVICT EX 100 FIELDS 1 d 1 -> 1
            wait 1
            HLEN h                              -> 2
            HTTL h FIELDS 1 d                   -> [100]
        """)


# --- the other words


def test_a_member_that_was_evicted_is_not_there_for_nx(proxy: Proxy, server: AnyServer) -> None:
    """Its reap cannot come within the transaction."""
    with talking(proxy, server, in_multi) as talk:
        talk("""
            SADDEX s EX 100 MEMBERS 2 a b               -> 2
            SADDEX s MAXLEN 2 EVICT EX 300 MEMBERS 1 c  -> 1
            SADDEX s NX MAXLEN 4 EX 300 MEMBERS 3 a b d -> 2
            STTLMEMBER s MEMBERS 4 a b c d              -> [300, 100, 300, 300]
        """)


def test_conditions_come_before_the_cap(proxy: Proxy, server: AnyServer) -> None:
    with talking(proxy, server, one_by_one) as talk:
        talk("""
            HSETEX h MAXLEN 1 FXX EX 100 FIELDS 1 a 1   -> 0
            HSETEX h MAXLEN 1 FNX EX 100 FIELDS 1 a 1   -> 1
            HSETEX h FIELDS 1 a 2 FXX MAXLEN 1 EVICT EX 100 -> 1
            HSETEX h MAXLEN 1 FNX EX 100 FIELDS 2 a 1 b 1 -> 0
            HSETEX h MAXLEN 1 FXX EX 100 FIELDS 2 a 1 b 1 -> 0
            HSETEX h MAXLEN 1 FNX EX 100 FIELDS 1 b 1   -> -1
            HSETEX h MAXLEN 1 EX 100 FIELDS 2 a 3 b 1   -> -1
            HMGET h a b                                 -> ["2", nil]
            SADDEX s EX 100 MEMBERS 2 a b               -> 2
            SADDEX s NX MAXLEN 2 EX 200 MEMBERS 2 a b   -> 0
            SADDEX s XX MAXLEN 1 EX 200 MEMBERS 2 a c   -> 0
            SADDEX s XX MAXLEN 1 EVICT EX 200 MEMBERS 1 c -> 0
            SADDEX s NX MAXLEN 2 EX 200 MEMBERS 2 a c   -> -1
            STTLMEMBER s MEMBERS 3 a b c                -> [200, 100, -2]
            ZADDEX z 100 1 a 2 b                        -> 2
            ZADDEX z GT CH MAXLEN 2 EX 200 MEMBERS 2 5 a 1 b -> 1
            ZADDEX z GT CH MAXLEN 2 EX 200 MEMBERS 2 6 a 1 c -> -1
            ZADDEX z XX MAXLEN 2 EX 200 MEMBERS 2 6 a 1 c -> 0
            ZMSCORE z a b c                             -> ["6", "2", nil]
        """)


def test_a_cap_that_is_no_number_is_refused_in_redis_words(every_one_by_one: Talk) -> None:
    every_one_by_one("""
        PUT k [MAXLEN x EX 1] a -> ERR value is not an integer or out of range
        PUT k [MAXLEN 01 EX 1] a -> ERR value is not an integer or out of range
        PUT k [MAXLEN EVICT 1 EX 1] a -> ERR value is not an integer or out of range
        PUT k [MAXLEN 9223372036854775808] a -> ERR value is not an integer or out of range
        PUT k [MAXLEN -1 EX 1] a -> ERR The MAXLEN argument must be >= 0.
        PUT k [MAXLEN 1 MAXLEN 2] a -> ERR MAXLEN keyword specified multiple times
        PUT k [EVICT] a -> ERR unknown argument: EVICT
        PUT k [MAXLEN 1 EX 1 EVICT] a -> ERR unknown argument: EVICT
        PUT k [MAXLEN 1 EVICT EVICT] a -> ERR unknown argument: EVICT
        EXISTS k -> 0
        PUT k [MAXLEN 9223372036854775807] a -> 1
    """)


def test_hsetex_with_nothing_behind_maxlen(proxy: Proxy, server: AnyServer) -> None:
    with talking(proxy, server, one_by_one) as talk:
        talk("HSETEX h FIELDS 1 a 1 MAXLEN -> ERR syntax error")


# Lasts 3 ms at least, also where TIME stands still in a script.
LET_3_MS_PASS = (
    "local function us() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end "
    "local until_us, calls = us() + 3000, 0 "
    "repeat calls = calls + 1 until us() > until_us or calls == 1000000"
)


@pytest.mark.parametrize("type_", FORMS)
def test_an_element_whose_deadline_passes_in_a_transaction_does_not_come_back_by_xx(
    proxy: Proxy, server: AnyServer, type_: str
) -> None:
    if release(server.name) >= (7, 2):
        pytest.skip("TIME stands still in a transaction")
    update = "FXX" if type_ == "hash" else "XX"
    again = _long_form(type_, "k", f"{update} MAXLEN 1 EX 100", ["a", "c"])
    with talking(proxy, server, in_multi) as talk:
        talk(
            _said_of(
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
    return _long_form(type_, "k", options, [f"a{adder}-{turn}"])
