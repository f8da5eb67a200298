"""An error in one round of the reaper affects only that round.

The proxy's link and reaper run here without clients. There is no heartbeat that repairs anything,
and the reaper runs only when it is woken.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing

import pytest

from tests.conftest import StartServer
from tests.support.processes import POLL_S, START_TIMEOUT_S
from tests.support.redis_client import Client
from tests.support.redis_content import LEASE
from tests.support.servers import Server
from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.core.keys import Keys
from ttlproxy.link import Context, Link
from ttlproxy.link.life import heartbeat
from ttlproxy.link.reaper import reaper as reapers
from ttlproxy.link.reaper.reaper import Reaper
from ttlproxy.net.tasks import cancel

NEVER_S = 1e6


@asynccontextmanager
async def _reaping(server: Server, **settings: object) -> AsyncIterator[Counters]:
    chosen = Settings.read({"upstream": server.url, **settings})
    counters = Counters()
    link = Link(chosen, Upstream.parse(server.url), Context(chosen, counters))
    reaper = Reaper(chosen, link)
    tasks = [asyncio.create_task(link.run()), asyncio.create_task(reaper.run())]
    try:
        await link.serving.ready.wait()
        yield counters
    finally:
        await cancel(*tasks)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(START_TIMEOUT_S):
        while not holds():  # noqa: ASYNC110 - Redis tells no event
            await asyncio.sleep(POLL_S)


@pytest.fixture(autouse=True)
def _nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "EVERY_S", NEVER_S)
    monkeypatch.setattr(reapers, "_LONGEST_SLEEP_MS", NEVER_S)


def _make_due(direct: Client, key: str) -> None:
    """A set whose one element is past its deadline; it is announced to the proxies once."""
    index, name = Keys().index(key.encode()), Keys().announcement(0, 1, key.encode())
    direct.ask_many(
        [
            ("SADD", key, "m"),
            ("ZADD", index, 1, "m"),
            ("ZADD", Keys().schedule, 1, key),
            ("SET", name, ""),
            ("DEL", name),
        ],
        transaction=True,
    )


async def test_scripts_that_somebody_has_flushed_are_back_at_once(
    start_server: StartServer,
) -> None:
    server = start_server()
    with closing(Client(server.port)) as direct:
        async with _reaping(server, lease_ms=100):
            _make_due(direct, "first")
            await _until(lambda: direct.ask("EXISTS", "first") == 0)
            await _until(lambda: direct.ask("EXISTS", LEASE) == 0)
            direct.ask("SCRIPT", "FLUSH")
            _make_due(direct, "second")
            await _until(lambda: direct.ask("EXISTS", "second") == 0)


async def test_what_redis_refuses_once_is_done_when_it_is_fixed(
    start_server: StartServer,
) -> None:
    server = start_server()
    with closing(Client(server.port)) as direct:
        async with _reaping(server) as counters:
            direct.ask("SET", LEASE, "somebody", "PX", 600_000)
            direct.ask("ACL", "SETUSER", "default", "-pttl")
            _make_due(direct, "s")
            await _until(lambda: counters.refusals > 0)
            direct.ask("DEL", LEASE)
            direct.ask("ACL", "SETUSER", "default", "+pttl")
            await _until(lambda: direct.ask("EXISTS", "s") == 0)


async def test_who_takes_the_lease_reaps_at_once(start_server: StartServer) -> None:
    """Only a proxy that does not get it waits for a part of the time that it lasts."""
    server = start_server()
    with closing(Client(server.port)) as direct:
        async with _reaping(server, lease_ms=6_000_000):
            for key in ("first", "second"):
                _make_due(direct, key)
                await _until(lambda: direct.ask("EXISTS", key) == 0)  # noqa: B023
