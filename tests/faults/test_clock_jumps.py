"""Redis's wall clock jumps, as on a virtual machine or by NTP; all adapts to the new time."""

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.clock_shim import Clock
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.servers import Proxy
from ttlproxy.link import ServerClock
from ttlproxy.link.shared.agenda import Parked

HOUR_MS = 3_600_000


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])
def test_the_clock_of_a_running_server_jumps(
    start_server: StartServer, clock: Clock, by_ms: int
) -> None:
    with Client(start_server(env=clock.env).port) as direct:
        before_ms = direct.now_ms()
        direct.ask("SET", "k", "v", "PX", 2 * HOUR_MS)
        clock.jump(by_ms)
        # Valkey 9 looks at the clock a moment later.
        wait_until(lambda: 0 <= direct.now_ms() - before_ms - by_ms < HOUR_MS // 2, "the jump")
        left_ms = 2 * HOUR_MS - by_ms
        assert left_ms - HOUR_MS // 2 < direct.ask("PTTL", "k") <= left_ms


def test_the_reapers_lease_of_a_killed_proxy_ends_though_the_clock_was_set_back(
    start_server: StartServer, start_proxy: StartProxy, clock: Clock
) -> None:
    server = start_server(env=clock.env)
    proxy = start_proxy(server.url)
    with Client(server.port) as direct:
        _goes_by_itself(proxy, direct, "first")
        proxy.kill()
        clock.jump(-HOUR_MS)
        _goes_by_itself(proxy.start(), direct, "second")


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])
def test_what_is_due_goes_by_the_new_clock(
    start_server: StartServer, start_proxy: StartProxy, clock: Clock, by_ms: int
) -> None:
    server = start_server(env=clock.env)
    proxy = start_proxy(server.url)
    with Client(server.port) as direct:
        for name in ("before", "after"):
            _goes_by_itself(proxy, direct, name)
            clock.jump(by_ms)


def test_a_clock_that_is_set_forward_makes_due_at_once_what_lies_between(
    start_server: StartServer, start_proxy: StartProxy, clock: Clock
) -> None:
    server = start_server(env=clock.env)
    proxy = start_proxy(server.url)
    with Client(server.port) as direct, Connection(proxy.port) as app:
        app.ask("HSETEX", "h", "EX", 1800, "FIELDS", 1, "f", "v")
        app.ask("DEFER", "EX", 1800, "LPUSH", "l", "v")
        app.ask("HSETEX", "later", "EX", 7200, "FIELDS", 1, "f", "v")
        clock.jump(HOUR_MS)
        wait_until(lambda: direct.ask("EXISTS", "h") == 0, "h reaped")
        wait_until(lambda: direct.ask("EXISTS", "l") == 1, "l filled")
        assert app.ask("LRANGE", "l", 0, -1) == b"*1\r\n$1\r\nv\r\n"
        assert app.ask("HGET", "later", "f") == b"$1\r\nv\r\n"


def test_what_was_deferred_waits_for_its_time_by_the_clock_that_was_set_back(
    start_server: StartServer, start_proxy: StartProxy, clock: Clock
) -> None:
    server = start_server(env=clock.env)
    proxy = start_proxy(server.url)
    with Client(server.port) as direct, Connection(proxy.port) as app:
        app.ask("DEFER", "EX", 60, "LPUSH", "old", "v")
        clock.jump(-HOUR_MS)
        app.ask("DEFER", "PX", 10, "LPUSH", "new", "v")
        wait_until(lambda: direct.ask("EXISTS", "new") == 1, "the new one carried out")
        assert direct.ask("EXISTS", "old") == 0
        clock.jump(HOUR_MS + 60_000)
        wait_until(lambda: direct.ask("EXISTS", "old") == 1, "the old one carried out")


def test_a_limiter_limits_no_longer_than_before_when_the_clock_was_set_back(
    start_server: StartServer, start_proxy: StartProxy, clock: Clock
) -> None:
    server = start_server(env=clock.env)
    with Client(start_proxy(server.url).port) as client:
        assert client.ask("CL.THROTTLE", "k", 0, 1, 60)[0] == 0
        clock.jump(-HOUR_MS)
        for _ in range(2):
            limited, _, _, retry_s, reset_s = client.ask("CL.THROTTLE", "k", 0, 1, 60)
            assert limited == 1
            assert 0 < retry_s <= reset_s <= 60
        clock.jump(61_000)
        assert client.ask("CL.THROTTLE", "k", 0, 1, 60)[0] == 0


def test_a_clock_that_was_set_is_noticed_and_a_slow_reply_is_none() -> None:
    jumps = list[str]()
    clock = ServerClock(lambda: jumps.append("jump"))
    sent = clock.reading()
    clock.adjust(1_000_000, sent)
    assert jumps == ["jump"], "nothing was known before"
    clock.adjust(996_000, sent - 7000)
    clock.adjust(1_000_000, sent)
    assert jumps == ["jump"]
    clock.adjust(1_000_000 - HOUR_MS, sent)
    assert len(jumps) == 2
    clock.adjust(1_000_000, sent)
    assert len(jumps) == 3


def test_a_key_that_is_parked_is_tried_when_the_clock_was_set() -> None:
    parked = Parked()
    parked.park((0, b"k"), now_ms=HOUR_MS)
    parked.put_off_no_more()
    assert not parked.holds((0, b"k"), now_ms=1)
    assert parked.first_ms() == 0


def _goes_by_itself(proxy: Proxy, direct: Client, key: str) -> None:
    with Connection(proxy.port) as app:
        assert app.ask("SADDEX", key, "PX", 10, "MEMBERS", 1, "m") == b":1\r\n"
    wait_until(lambda: direct.ask("EXISTS", key) == 0, f"{key} reaped")


def test_rules_of_onwrite_change_for_each_proxy_though_the_clock_was_set_back(
    start_server: StartServer, start_proxy: StartProxy, clock: Clock
) -> None:
    """The version of the rules comes from that clock; and deadlines are by the new one."""
    server = start_server(env=clock.env)
    ports = [start_proxy(server.url).port for _ in range(2)]
    with Client(ports[0]) as one, Client(ports[1]) as other:
        for number, by_ms in enumerate((0, -HOUR_MS, HOUR_MS), 1):
            clock.jump(by_ms)
            assert one.ask("ONWRITE", "k*", "EX", number * 100) == b"OK"
            for client in (other, one):
                key = f"k{number}"
                client.ask("DEL", key)
                assert client.ask("SADD", key, "a") == 1
                assert number * 100 - 50 < client.ask("STTLMEMBER", key, "a") <= number * 100
            one, other = other, one
