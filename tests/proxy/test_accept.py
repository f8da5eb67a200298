"""Connections before they are clients: their PROXY headers, and how many may wait with one."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack, suppress

import pytest

from tests.proxy.conftest import let_pass
from ttlproxy.config import Settings
from ttlproxy.net.log_summaries import Summaries
from ttlproxy.proxy import accept
from ttlproxy.proxy.accept import Admission

HEADER = b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 6379\r\n"


class Door:
    """Admits connections. sources: the clients; lost: how many ended before they were one"""

    def __init__(self, stack: ExitStack, proxy_protocol: str) -> None:
        settings = Settings.read({"proxy_protocol": proxy_protocol, "max_clients": 2})
        self.sources: list[str] = []
        self.lost = 0
        self._changed = asyncio.Event()
        self._stack = stack
        self._admission = Admission(self._client, settings, self._lose)

    def _client(self, source: str) -> asyncio.Protocol:
        self.sources.append(source)
        self._changed.set()
        return Client(self._stack)

    def _lose(self) -> None:
        self.lost += 1
        self._changed.set()

    async def until(self, clients: int, lost: int = 0) -> None:
        """Returns when so many have become clients, and so many have not."""
        while (len(self.sources), self.lost) != (clients, lost):
            self._changed.clear()
            await self._changed.wait()

    def comes(self) -> socket.socket:
        """The client's end of a connection that is accepted now."""
        client, accepted = socket.socketpair()
        self._stack.enter_context(client)
        accepted.setblocking(False)
        self._admission.admit(accepted)
        return client


class Client(asyncio.Protocol):
    """A client, which ends with the test."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._stack.callback(transport.close)


async def test_one_too_many_that_waits_with_its_header_is_closed_and_counted() -> None:
    with ExitStack() as stack:
        door = Door(stack, "yes")
        first, second = door.comes(), door.comes()
        assert door.lost == 0
        assert door.comes().recv(1) == b""
        assert door.lost == 1
        first.sendall(HEADER)
        await door.until(clients=1, lost=1)
        await let_pass(1)  # now it does not count any more
        third = door.comes()
        assert door.lost == 1
        second.sendall(HEADER)
        third.sendall(HEADER)
        await door.until(clients=3, lost=1)
        assert door.sources == ["192.0.2.7:4711"] * 3


@pytest.mark.parametrize(
    ("sent", "ends", "level", "why"),
    [
        # As a load balancer does that only checks whether somebody listens.
        (b"", True, "DEBUG", "it ended before its PROXY header"),
        (HEADER[:7], True, "DEBUG", "it ended before its PROXY header"),
        (b"PING\r\n", False, "INFO", "it does not begin with a PROXY header"),
        (HEADER[:-2], False, "INFO", "its PROXY header did not arrive in time"),
    ],
)
async def test_a_connection_without_a_header_is_closed_counted_and_logged(
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    sent: bytes,
    ends: bool,
    level: str,
    why: str,
) -> None:
    caplog.set_level("DEBUG", accept.__name__)
    monkeypatch.setattr(accept, "_summaries", Summaries(accept.log))
    with ExitStack() as stack:
        door = Door(stack, "yes")
        client = door.comes()
        client.sendall(sent)
        if ends:
            client.shutdown(socket.SHUT_WR)
        await door.until(clients=0, lost=1)
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""
    assert [each.levelname for each in caplog.records] == [level]
    assert why in caplog.text


async def test_a_client_that_sends_no_whole_header_is_closed_after_a_while() -> None:
    with ExitStack() as stack:
        door = Door(stack, "yes")
        client = door.comes()
        client.sendall(HEADER[:-2])
        await let_pass(3)
        assert (door.sources, door.lost) == ([], 0)
        await let_pass(10)
        assert (door.sources, door.lost) == ([], 1)
        assert client.recv(1) == b""


async def test_nobody_waits_if_no_header_is_asked_for() -> None:
    with ExitStack() as stack:
        door = Door(stack, "no")
        for _ in range(5):
            door.comes()
        await door.until(clients=5)
        assert set(door.sources) == {""}
