"""What systemd is told, on a socket as systemd has it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.processes import free_port
from tests.support.servers import ROOT
from tests.support.worker_counts import alone_or_with
from ttlproxy.process.service_manager import ServiceManager

LONGEST_S = 60


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[socket.socket]:
    """The service manager's socket, at tmp_path / "notify"."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(LONGEST_S)
        yield listening


def _until(heard: socket.socket, line: str) -> list[str]:
    """The lines of all messages up to the one that has this line."""
    lines: list[str] = []
    while line not in lines:
        lines += heard.recv(4096).decode().split("\n")
    return lines


@pytest.mark.any_server
@alone_or_with(2)
def test_systemd_hears_when_clients_may_connect_that_it_lives_and_that_it_stops(
    workers: int,
    heard: socket.socket,
    tmp_path: Path,
    start_server: StartServer,
    start_proxy: StartProxy,
) -> None:
    variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000"}
    proxy = start_proxy(start_server().url, "--workers", str(workers), env=variables)
    lines = _until(heard, "READY=1")
    lines += heard.recv(4096).decode().split("\n")
    assert "STOPPING=1" not in lines
    assert any(line.startswith("STATUS=listens on ") for line in lines)
    _until(heard, "WATCHDOG=1")
    proxy.terminate()
    _until(heard, "STOPPING=1")
    assert proxy.wait() == 0


def test_no_child_process_gets_the_variables(tmp_path: Path, heard: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "x", "HOME": "/"}
    ServiceManager.of(environment).notify("READY=1")
    assert heard.recv(4096) == b"READY=1"
    assert environment == {"HOME": "/"}


def test_an_abstract_socket_is_one_too() -> None:
    name = f"ttlproxy-test-{os.getpid()}-{free_port()}"
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listening:
        listening.bind(f"\0{name}")
        listening.settimeout(LONGEST_S)
        ServiceManager.of({"NOTIFY_SOCKET": f"@{name}"}).notify("READY=1")
        assert listening.recv(4096) == b"READY=1"


async def test_a_manager_that_is_busy_hears_it_later(tmp_path: Path, heard: socket.socket) -> None:
    """Its queue has room for some messages only."""
    manager, stop = ServiceManager(str(tmp_path / "notify"), 0.001), asyncio.Event()
    giving = asyncio.create_task(manager.run(stop))
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as another:
        another.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                another.sendto(b"full", str(tmp_path / "notify"))
    manager.notify("READY=1")
    stop.set()
    lines = await asyncio.to_thread(_until, heard, "STOPPING=1")
    assert lines.index("READY=1") < lines.index("STOPPING=1")
    giving.cancel()
    await asyncio.wait({giving})


def test_a_manager_that_is_gone_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ServiceManager(str(tmp_path / "absent")).notify("READY=1")
    assert "cannot be told READY=1" in caplog.text


def test_the_unit_waits_for_what_the_proxy_tells() -> None:
    unit = (ROOT / "deploy" / "systemd" / "ttlproxy.service").read_text().splitlines()
    assert {"Type=notify", "WatchdogSec=30", "RestartPreventExitStatus=2"} <= {*unit}
