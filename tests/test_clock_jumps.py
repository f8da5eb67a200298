"""Redis's wall clock jumps, as a virtual machine's or NTP's does, and everything goes on by it."""

from contextlib import closing

import pytest

from tests.clock_shim import Clock
from tests.conftest import StartServer
from tests.redis_client import Client

HOUR_MS = 3_600_000


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])
def test_the_clock_of_a_running_server_jumps(
    start_server: StartServer, clock: Clock, by_ms: int
) -> None:
    with closing(Client(start_server(env=clock.env).port)) as direct:
        before_ms = direct.now_ms()
        direct.ask("SET", "k", "v", "PX", 2 * HOUR_MS)
        clock.jump(by_ms)
        passed_ms = direct.now_ms() - before_ms - by_ms
        assert 0 <= passed_ms < HOUR_MS // 2
        left_ms = 2 * HOUR_MS - by_ms
        assert left_ms - HOUR_MS // 2 < direct.ask("PTTL", "k") <= left_ms
