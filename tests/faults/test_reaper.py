"""What the reaper takes next, decided without Redis; and with Redis, that it does so."""

from collections import deque

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.conftest import StartProxy, StartServer
from tests.support.containers import AnyServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import SHARED, noted_ms
from tests.support.server_queries import calls
from ttlproxy.core.keys import Keys
from ttlproxy.core.registry import DbKey
from ttlproxy.link import KEYS_PER_CALL
from ttlproxy.link.reaper.reaper import (
    Done,
    ManyCalls,
    OneCall,
    Portion,
    pause_ms,
    plan,
    sweep_after_ms,
)


@given(st.integers(1, 500), st.integers(1, 7000), st.integers(1, KEYS_PER_CALL))
def test_the_due_keys_are_taken_in_their_order_and_none_is_left_out(
    due: int, batch: int, keys: int
) -> None:
    queue: deque[DbKey] = deque((0, b"%d" % number) for number in range(due))
    seen: list[DbKey] = []
    while queue:
        left = len(queue)
        limits = plan(queue, Portion(batch, keys))
        assert set(limits.values()) == {batch}
        assert len(limits) == min(keys, left)
        seen += limits
    assert seen == [(0, b"%d" % number) for number in range(due)]


def _batches(largest: int, *took_ms: float) -> list[int]:
    """The batches after calls that took so long, with a budget of 5 ms."""
    pacing, found = OneCall(largest), []
    for each in took_ms:
        pacing.adapt(Done(128, 128, 0, each, 1), budget_ms=5)
        found.append(pacing.pace.batch)
    return found


def test_a_batch_shrinks_past_the_budget_and_grows_well_below_it() -> None:
    assert _batches(1000, 9, 9, 4, 1, 1, 1) == [500, 250, 250, 500, 1000, 1000]
    assert _batches(30, 9, 9, 9, 1, 1) == [15, 10, 10, 20, 30]


@pytest.mark.parametrize(
    ("asked", "reached", "next_keys"), [(128, 128, 128), (8, 8, 16), (128, 40, 51), (2, 1, 2)]
)
def test_a_call_is_for_about_as_many_keys_as_there_is_time_for(
    asked: int, reached: int, next_keys: int
) -> None:
    pacing = OneCall(1000)
    pacing.adapt(Done(asked, reached, 0, 4, 1), budget_ms=5)
    assert pacing.pace.keys == next_keys
    pacing.adapt(Done(1, 0, 0, 4, 1), budget_ms=5)
    assert pacing.pace.keys == 1


# How long a call for one key takes, and what it takes longer for each element.
_CALL_MS, _ELEMENT_MS = 0.06, 0.001


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=600))
@example([100] * 600)
@example([1000] * 600)
@example([1] * 128 + [10_000] * 60)
def test_calls_for_slots_together_take_about_as_long_as_one_may(due: list[int]) -> None:
    """As few calls as there can be for keys that are alike, and never long without others."""
    pacing, queue, calls_made = ManyCalls(1000), deque(due), 0
    while queue:
        batch, keys = pacing.pace
        left = [queue.popleft() for _ in range(min(keys, len(queue)))]
        calls_made += len(left)
        took_ms = sum(_CALL_MS + _ELEMENT_MS * min(each, batch) for each in left)
        assert took_ms < 15
        more = [each - batch for each in left if each > batch]
        median = sorted(min(each, batch) for each in left)[len(left) // 2]
        pacing.adapt(Done(len(left), len(left), len(more), took_ms, median), budget_ms=5)
        queue.extend(more)
    if due in ([100] * 600, [1000] * 600):
        assert calls_made <= len(due) * 1.02


def test_a_single_key_is_asked_for_less_if_that_takes_too_long() -> None:
    pacing = ManyCalls(1000)
    for batch in (1000, 500, 250):
        pacing.adapt(Done(1, 1, 1, 9, 1000), budget_ms=5)
        assert pacing.pace == (batch // 2, 1)
    pacing.adapt(Done(1, 1, 1, 1, 10), budget_ms=5)
    assert pacing.pace.batch == 250


def test_others_have_the_server_as_long_as_a_call_that_was_too_long_had_it() -> None:
    assert pause_ms(90, budget_ms=5, keys=1) == 90
    assert pause_ms(4, budget_ms=5, keys=1) == 0
    assert pause_ms(90, budget_ms=5, keys=2) == 0


def test_what_takes_long_to_sweep_is_swept_seldom() -> None:
    assert sweep_after_ms(300) == 3000
    assert sweep_after_ms(1) == 200


def _keys(server: AnyServer) -> set[bytes]:
    with Connection(server.port) as direct:
        found = direct.ask("KEYS", "*").split(b"\r\n")[2::2]
    return {name for name in found if name not in SHARED}


def test_what_nobody_reads_goes_by_itself(
    app: Connection, server: AnyServer, direct: Client
) -> None:
    app.ask("HSET", "h", "a", 1, "b", 2)
    assert app.ask("HPEXPIREFIELD", "h", "a", 30) == b":1\r\n"
    assert app.ask("SADDEX", "s", "PX", "30", "MEMBERS", "1", "m") == b":1\r\n"
    wait_until(lambda: _keys(server) == {b"h"}, "the field, the set and both indexes gone")
    assert direct.ask("HGETALL", "h") == [b"b", b"2"]


def test_an_entry_whose_field_went_behind_the_proxys_back_is_swept(
    app: Connection, server: AnyServer, direct: Client
) -> None:
    app.ask("HSET", "h", "a", "1", "b", "2")
    app.ask("HEXPIREFIELD", "h", "1000", "FIELDS", "2", "a", "b")
    app.ask("EVAL", "return redis.call('HDEL', KEYS[1], 'a')", "1", "h")
    index = next(name for name in _keys(server) if name.endswith(b"}:h"))
    wait_until(lambda: direct.ask("ZCARD", index) == 1, "the entry of a gone")
    assert direct.ask("ZSCORE", index, "a") is None


@pytest.mark.parametrize("command", ["PERSIST", "PEXPIRE"])
def test_an_index_follows_an_expiry_that_a_script_changes(
    app: Connection, direct: Client, command: str
) -> None:
    app.ask("HSET", "h", "f", "v")
    app.ask("HEXPIREFIELD", "h", "f", 1000)
    app.ask("EXPIRE", "h", 100)
    more = ", 500000" if command == "PEXPIRE" else ""
    app.ask("EVAL", f"return redis.call('{command}', KEYS[1]{more})", 1, "h")

    def follows() -> bool:
        left_ms, noted = direct.ask("PTTL", "h"), noted_ms(direct, b"h")
        return (
            noted is None
            if left_ms < 0
            else noted is not None and noted > direct.now_ms() + 200_000
        )

    wait_until(follows, "the index to know it")


def test_a_proxy_that_ends_leaves_the_lease_to_others(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url, "--lease-ms", "6000000")
    with Connection(proxy.port) as client:
        client.ask("SADDEX", "s", "PX", 20, "MEMBERS", 1, "m")
    wait_until(lambda: _keys(server) == set(), "the set gone")
    with Connection(server.port) as direct:
        assert direct.ask("EXISTS", Keys().lease) == b":1\r\n"
        proxy.stop()
        assert direct.ask("EXISTS", Keys().lease) == b":0\r\n"


@pytest.mark.parametrize("setting", ["maxmemory 1", "notify-keyspace-events KElsz"])
def test_what_stays_of_a_long_list_keeps_its_order_and_its_expiry(
    start_server: StartServer, start_proxy: StartProxy, setting: str
) -> None:
    """Also where it may not be written anew."""
    server = start_server()
    values = [f"v{number % 2500}" for number in range(3000)]
    due = {f"v{number}" for number in range(0, 2500, 2)}
    index, schedule = Keys().index(b"l"), Keys().schedule
    with Connection(server.port) as direct:
        direct.ask("RPUSH", "l", *values)
        direct.ask("PEXPIRE", "l", 1_000_000)
        direct.ask("ZADD", index, *(word for value in due for word in (1, value)))
        direct.ask("ZADD", schedule, 1, "l")
        direct.ask("CONFIG", "SET", *setting.split())
        with Connection(start_proxy(server.url).port) as client:
            left = client.ask("LRANGE", "l", 0, -1).split(b"\r\n")[2::2]
        assert left == [value.encode() for value in values if value not in due]
        assert direct.ask("EXISTS", index) == b":0\r\n"
        assert 900_000 < int(direct.ask("PTTL", "l")[1:]) <= 1_000_000


def test_a_list_much_of_which_is_due_is_walked_along_and_not_searched(
    app: Connection, server: AnyServer
) -> None:
    """LSET would search for each place from the start."""
    values = [f"v{number}" for number in range(600)]
    app.ask("RPUSHEX", "l", "EX", "1000", "ELEMENTS", len(values), *values)
    with Connection(server.port) as direct:
        direct.ask("CONFIG", "RESETSTAT")
        direct.ask("ZADD", Keys().index(b"l"), *(w for value in values[::2] for w in (1, value)))
        direct.ask("ZADD", Keys().schedule, 1, "l")
        wait_until(lambda: direct.ask("LLEN", "l") == b":300\r\n", "half of the list gone")
    assert calls(server.port, "lset") == 0
    assert calls(server.port, "lrange") < 40
