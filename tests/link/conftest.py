"""The parts of the link in this process, each against a real Redis, without a proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

import pytest
from redis.asyncio import Redis

from tests.support.containers import AnyServer
from tests.support.processes import POLL_S, START_TIMEOUT_S
from tests.support.redis_client import Client
from ttlproxy.addresses import Upstream
from ttlproxy.cli.main import load
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.core.expiry_actions import Action, written
from ttlproxy.core.keys import Keys
from ttlproxy.core.registry import DbKey, Registry
from ttlproxy.core.signing import RULE, Signer
from ttlproxy.link import Context, client

KEYS = Keys()
# A deadline that no test reaches, and a key.
FAR_MS = 4_000_000_000_000
S = (0, b"s")


@pytest.fixture
def server(plain: AnyServer) -> AnyServer:
    """A Redis that no proxy uses, empty."""
    return plain


@pytest.fixture
def settings(server: AnyServer) -> Settings:
    return load(["--upstream", server.url])


@pytest.fixture
def counters() -> Counters:
    return Counters()


@pytest.fixture
def context(settings: Settings, counters: Counters) -> Context:
    """What a proxy knows that has met no server yet: it trusts no schedule, and sends texts."""
    return Context(settings, counters)


@pytest.fixture
def registry(context: Context) -> Registry:
    return context.registry


@pytest.fixture
async def redis(server: AnyServer) -> AsyncIterator[Redis]:
    """A connection as the link has it."""
    connected = client(Upstream.parse(server.url), "test", 30.0)
    yield connected
    await connected.aclose()


Become = Callable[[str], Awaitable[None]]


@pytest.fixture
async def become(redis: Redis, direct: Client) -> AsyncIterator[Become]:
    """`await become(rules)`: from now on `redis` is a user with all rights, then these rules."""

    async def become_user(rules: str) -> None:
        direct.ask("ACL", "SETUSER", "narrow", "on", "nopass", "~*", "&*", "+@all", *rules.split())
        await redis.execute_command("AUTH", "narrow", "x")

    yield become_user
    direct.ask("ACL", "DELUSER", "narrow")


async def all_know(places: Iterable[DbKey]) -> None:
    """All proxies know the families of these."""


async def unpaused() -> bool:
    """As Barriers.may_hold says it of a server that takes writes."""
    return False


async def paused() -> bool:
    """As Barriers.may_hold says it of a server whose writes are paused."""
    return True


async def until(holds: Callable[[], bool]) -> None:
    """For what no event tells."""
    async with asyncio.timeout(START_TIMEOUT_S):
        while not holds():  # noqa: ASYNC110 - see above
            await asyncio.sleep(POLL_S)


def manage(direct: Client, key: str, **deadlines_ms: int) -> None:
    """Makes a set with these members and deadlines, with its index and in the schedule."""
    index = KEYS.index(key.encode())
    direct.ask("SADD", key, *deadlines_ms)
    direct.ask("ZADD", index, *(word for name, at in deadlines_ms.items() for word in (at, name)))
    direct.ask("ZADD", KEYS.schedule, min(deadlines_ms.values()), key)


def set_rule(direct: Client, signer: Signer, pattern: str, how: str, dest: str = "") -> None:
    """Sets a rule of ONEXPIRE as a proxy does, with this signer; `how` is Action's, as text."""
    row = written(Action(how.encode(), dest.encode(), b""), ())
    name = pattern.encode()
    direct.ask("SET", KEYS.rule(name), signer.sign(RULE, (name, row)) + row)
    direct.ask("HSET", KEYS.rules, f":{pattern}", 1, "version", direct.now_ms())
