"""The limit of clients, and the end of one too many."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.proxy.conftest import let_pass
from tests.support.certificates import Authority
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.proxy.client_limit import ClientLimit, ProtocolFactory


async def test_too_many_clients_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    limit = ClientLimit(2)
    assert not limit.reached(1)
    assert not caplog.messages
    assert all(limit.reached(clients) for clients in (2, 3, 2))
    assert caplog.messages == ["clients are refused: max_clients (2) are connected"]
    await let_pass(50)
    assert limit.reached(2)
    assert len(caplog.messages) == 1
    await let_pass(20)
    assert limit.reached(2)
    assert len(caplog.messages) == 2


async def test_a_client_that_has_not_begun_to_speak_tls_takes_a_place(tmp_path: Path) -> None:
    cert, key = Authority(tmp_path).issue("localhost")
    settings = Settings.read({"tls_cert": cert, "tls_key": key, "max_clients": 2})
    loop, counters, ended = asyncio.get_running_loop(), Counters(), asyncio.Event()
    came = list[str]()

    def client(source: str) -> asyncio.Protocol:
        came.append(source)
        return asyncio.Protocol()

    factory = ProtocolFactory(settings, counters, client, ended.set)

    async def connect(source: str) -> socket.socket:
        ours, accepted = socket.socketpair()
        stack.enter_context(ours)
        await loop.connect_accepted_socket(lambda: factory.protocol(source), accepted)
        return ours

    with ExitStack() as stack:
        first, _, third = [await connect(source) for source in ("a", "b", "c")]
        assert third.recv(1) == b""
        assert (came, counters.gone["refused"]) == (["a", "b"], 1)
        ended.clear()
        first.close()
        await ended.wait()
        for source in ("d", "e"):
            await connect(source)
        assert came == ["a", "b", "d"]
        counters.clients = 1  # TLS of one of them is up
        await connect("f")
        assert came == ["a", "b", "d"]
    await let_pass(1)
