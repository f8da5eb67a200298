"""Addresses that cannot be listened on: the flag, the address, and why, in words."""

from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path

import pytest

from ttlproxy.addresses import Listen
from ttlproxy.errors import ListenError
from ttlproxy.net.listener import Listeners


async def _refused(listen: str, flag: str = "--listen") -> str:
    with pytest.raises(ListenError) as error:
        await Listeners([Listen.parse(listen)], flag=flag).start(asyncio.Protocol)
    said = str(error.value)
    assert said.startswith(f"{flag} {listen}: ")
    assert "Errno" not in said
    return said


async def test_a_port_that_another_program_has_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = await _refused(f"127.0.0.1:{taken.getsockname()[1]}", "--admin")
    assert "another program has this port" in said


async def test_a_unix_socket_says_what_is_wrong_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = await _refused(f"unix://{tmp_path}/nowhere/s")
    assert "its directory does not exist" in said
    said = await _refused(f"unix://{tmp_path}/file")
    assert "it is no socket" in said
    said = await _refused(f"unix://{tmp_path}/file/s")
    assert "no directory" in said


async def test_a_name_that_nobody_knows_is_not_found() -> None:
    assert "the name is not found" in await _refused("nosuch.invalid:6380")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EADDRNOTAVAIL, "this machine has no such address"),
        (errno.EACCES, "needs root or CAP_NET_BIND_SERVICE"),
        (errno.ENOBUFS, "No buffer space available"),
    ],
)
async def test_the_systems_reasons_are_in_words(
    number: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise OSError(number, "error while attempting to bind on address")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_server", refuse)
    assert words in await _refused("10.1.2.3:80")
