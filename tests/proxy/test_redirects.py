"""Requests that are sent again, with lanes that open when the test says so."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from ttlproxy.core.keys import slot
from ttlproxy.link import Masters
from ttlproxy.proxy.routed import lane_calls
from ttlproxy.proxy.routed.pending_request import PendingRequest
from ttlproxy.proxy.routed.redirects import Redirects
from ttlproxy.proxy.routed.routed_client import RoutedClient

KEY = b"k"
ASK = b"-ASK %d 127.0.0.1:7001\r\n" % slot(KEY)


class _Lane:
    """To the slot's old master, or to its new one."""

    def __init__(self) -> None:
        self.may_open = asyncio.Event()
        self.asked_for: list[str] = []

    async def opened(self) -> None:
        await self.may_open.wait()

    async def asked(self, request: PendingRequest) -> bytes:
        self.asked_for.append("as its master")
        return b"+reaped first\r\n"

    async def unindexed(self, request: PendingRequest) -> bytes | None:
        return None

    def on_the_way(self, request: PendingRequest) -> bytes:
        return request.raw

    async def asked_as(self, request: PendingRequest, data: bytes, *, asking: bool) -> bytes:
        assert asking
        self.asked_for.append("under ASKING")
        return b"+what was there\r\n"


class _Served:
    """It is the client, its lanes, and all masters."""

    hold_max_s = 30.0

    def __init__(self, owner: _Lane, other: _Lane) -> None:
        self.lanes = self
        self.owner, self.other = owner, other

    def of(self, number: int) -> _Lane:
        return self.owner

    def at(self, host: str, port: int) -> _Lane:
        return self.other


@pytest.mark.parametrize("has_moved", [False, True])
async def test_a_key_that_moves_while_a_connection_is_made_is_asked_of_its_new_master(
    has_moved: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The old master's link would not know any more what is due there."""
    for name in ("asked", "unindexed", "on_the_way", "asked_as"):
        monkeypatch.setattr(lane_calls, name, getattr(_Lane, name))
    source, target = _Lane(), _Lane()
    served = _Served(source, target)
    redirects = Redirects(cast(Masters, served), cast(RoutedClient, served))
    request = PendingRequest([b"GET", KEY], b"", slot(KEY))
    request.error = ASK
    reply = asyncio.create_task(redirects.ask(request))
    source.may_open.set()
    await asyncio.sleep(0)
    assert not target.asked_for
    if has_moved:
        served.owner = target
    target.may_open.set()
    assert await reply == (b"+reaped first\r\n" if has_moved else b"+what was there\r\n")
    assert target.asked_for == ["as its master" if has_moved else "under ASKING"]
    assert not source.asked_for
