"""A session without sockets, and coroutines on the event loops that the proxy runs on."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from tests.support.event_loops import LOOPS
from tests.support.session_world import World

FACTORIES = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}

Run = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine function on each of the event loops."""

    async def awaited(main: Callable[[], Awaitable[None]]) -> None:
        await main()

    def run_on(main: Callable[[], Awaitable[None]]) -> None:
        with asyncio.Runner(loop_factory=FACTORIES[request.param]) as runner:
            runner.run(awaited(main))

    return run_on


@pytest.fixture
def world() -> World:
    return World()
