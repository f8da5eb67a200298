"""What is logged of one client."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.proxy.conftest import let_pass
from ttlproxy.proxy.client_log import ClientLog, peer_shown


@pytest.mark.parametrize(
    ("peername", "shown"),
    [
        (("192.0.2.7", 4711), "192.0.2.7:4711"),
        (("2001:db8::7", 4711, 0, 0), "[2001:db8::7]:4711"),
        ("", "a unix socket"),
    ],
)
def test_addresses_are_shown_as_they_are_written(peername: object, shown: str) -> None:
    assert peer_shown(peername) == shown


async def test_the_end_is_logged_with_how_long_it_lasted_and_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    await let_pass(100)
    log = ClientLog(7, asyncio.Transport({"peername": ("192.0.2.7", 4711)}), "")
    await let_pass(2.5)
    log.closed("idle")
    opened, closed = caplog.messages[-2:]
    assert opened == "client 7: opened by 192.0.2.7:4711"
    assert closed == "client 7: closed after 2.500 s, from 192.0.2.7:4711: idle"
