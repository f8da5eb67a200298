"""Claims and reservations as a proxy makes them, in front of a real Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.link.conftest import KEYS, until
from tests.link.running import Running, running
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from ttlproxy.core.registry import Place
from ttlproxy.core.reservations import RESERVED_MS, Reservations
from ttlproxy.link.connecting.asking_socket import AskingSocket
from ttlproxy.link.connecting.pipeline import Words
from ttlproxy.link.knowledge import claims as module

PLACES: list[Place] = [(0, b"a"), (0, b"b"), (3, b"a")]


class _Link:
    def __init__(self, link: Running) -> None:
        self._holds = link.link.holds
        self._clock = link.context.clock
        self.reservations: Reservations = link.context.script_calls.reservations

    async def claim(self, *places: Place) -> None:
        await self._holds.until_claimed(places)

    async def reserve(self) -> None:
        for _ in range(2):
            await self.claim(*PLACES)

    def held(self, later_ms: int = 0) -> list[Place]:
        """Which are reserved at an instant."""
        now_ms = self._clock.now_ms() + later_ms
        return [place for place in PLACES if self.reservations.holds(place, now_ms)]


@asynccontextmanager
async def _linked(url: str) -> AsyncIterator[_Link]:
    async with running(Running(url, "--knowledge", "on-demand")) as link:
        yield _Link(link)


def _ends(direct: Client, key: bytes) -> float | None:
    found: float | None = direct.ask("ZSCORE", KEYS.reserved, KEYS.index(key))
    return found and float(found)


async def test_what_is_claimed_again_is_reserved_in_its_database(
    server: AnyServer, direct: Client
) -> None:
    async with _linked(server.url) as link:
        await link.claim(*PLACES[:2])
        assert link.held() == []
        await link.claim(*PLACES[1:])
        assert link.held() == [PLACES[1]]
        await link.claim(PLACES[2])
        assert link.held() == PLACES[1:]
        assert link.held(RESERVED_MS) == []
        ends = [_ends(direct, key) for key in (b"a", b"b")]
        direct.ask("SELECT", 3)
        assert [_ends(direct, b"a") is None, ends[0], ends[1] is None] == [False, None, False]


async def test_a_reservation_that_is_used_is_renewed(
    server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RENEWED_S", 0)
    async with _linked(server.url) as link:
        await link.reserve()
        before = {key: _ends(direct, key) for key in (b"a", b"b")}
        half_ms = RESERVED_MS // 2 + 100
        now_ms = link._clock.now_ms()
        await until(lambda: link._clock.now_ms() > now_ms + 5)
        assert link.reservations.holds(PLACES[0], now_ms + half_ms)
        await until(lambda: (_ends(direct, b"a") or 0) > (before[b"a"] or 0))
        await until(lambda: link.reservations._until_ms[PLACES[0]] > (before[b"a"] or 0))
        assert _ends(direct, b"b") == before[b"b"]


async def test_one_that_redis_has_lost_is_not_renewed(
    server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RENEWED_S", 0)
    async with _linked(server.url) as link:
        await link.reserve()
        direct.ask("DEL", KEYS.reserved)
        ends_ms = link.reservations._until_ms[PLACES[0]]
        assert link.held(RESERVED_MS // 2 + 100) == PLACES
        await until(lambda: not link.reservations._waning)
        await link.claim((5, b"behind it"))
        assert direct.ask("EXISTS", KEYS.reserved) == 0
        assert link.reservations._until_ms[PLACES[0]] == ends_ms


async def test_what_redis_refuses_to_reserve_is_claimed_each_time(
    server: AnyServer, direct: Client
) -> None:
    direct.ask("SET", KEYS.reserved, "a client's")
    async with _linked(server.url) as link:
        for _ in range(3):
            await link.claim(*PLACES)
        assert link.held() == []


@pytest.mark.parametrize("words", [("FLUSHALL",), ("CLIENT", "KILL", "TYPE", "normal")])
async def test_a_flush_and_a_lost_connection_end_all_reservations(
    server: AnyServer, direct: Client, words: tuple[str, ...]
) -> None:
    async with _linked(server.url) as link:
        await link.reserve()
        assert link.held() == PLACES
        direct.ask(*words)
        await until(lambda: not link.held())


async def test_one_made_while_all_were_lost_does_not_count(
    server: AnyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis may have lost it since it answered."""
    async with _linked(server.url) as link:
        await link.claim(PLACES[0])
        ask = AskingSocket.ask

        async def and_all_are_lost(self: AskingSocket, requests: Sequence[Words]) -> list[Any]:
            replies = await ask(self, requests)
            link.reservations.lose()
            return replies

        monkeypatch.setattr(AskingSocket, "ask", and_all_are_lost)
        await link.claim(PLACES[0])
        assert link.held() == []


async def test_old_reservations_go_some_at_each_claim_and_all_at_last(
    server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = [KEYS.index(b"%d" % number) for number in range(1050)]

    def left() -> int:
        return int(direct.ask("ZCARD", KEYS.reserved))

    async with _linked(server.url) as link:
        await link.reserve()
        direct.ask("ZADD", KEYS.reserved, *(word for name in old for word in (1, name)))
        await link.claim(PLACES[0])
        assert left() == 950 + 2 + 1, "those that last, and an empty name"
        monkeypatch.setattr(module, "RESERVED_MS", 1)
        link.reservations.on_waning()
        await until(lambda: left() == 2 + 1)
        assert direct.ask("DBSIZE") == len(direct.ask("KEYS", "*"))
