"""What somebody meets who starts ttlproxy for the first time, at a terminal."""

from __future__ import annotations

import re
import resource
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import StartServer
from tests.support.admin_pages import Pages
from tests.support.processes import CLOSED_PORT
from tests.support.raw_client import Connection, command
from tests.support.requirements import absent
from tests.support.server_queries import until_blocked
from tests.support.servers import ROOT
from tests.support.terminal import CTRL_C, Terminal
from ttlproxy.errors import INTERRUPTED
from ttlproxy.process import open_files

pytestmark = pytest.mark.any_server

_ANY: tuple[str, ...] = ("--listen", "127.0.0.1:0")
_TTLPROXY = (sys.executable, "-m", "ttlproxy")


def _port(terminal: Terminal) -> int:
    found = re.search(r"listens on 127.0.0.1:(\d+)", terminal.text)
    assert found
    return int(found[1])


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_at_a_terminal_ends_it_at_once_and_it_says_so(
    start_server: StartServer, workers: str
) -> None:
    """Without a second Ctrl-C, though a client is blocked."""
    server = start_server()
    words = (*_TTLPROXY, server.url, *_ANY, "--workers", workers, "--drain-max", "1000")
    with Terminal(words, ROOT) as terminal:
        terminal.until("HGETALL h")
        with Connection(_port(terminal)) as client:
            client.send(command("BLPOP", "l", "0"))
            until_blocked(server.port, 1)
            terminal.type(CTRL_C)
            assert terminal.end() == INTERRUPTED
        assert "stopping at once, because Ctrl-C was pressed" in terminal.text
        assert "1 client is cut off, because " in terminal.text
        assert "stopped" in terminal.text.splitlines()[-1]


def test_make_run_prints_the_url_of_a_page_and_does_not_call_ctrl_c_an_error(
    tmp_path: Path,
) -> None:
    if not shutil.which("make"):
        absent("make", "make is not installed")
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / ".venv" / "run.stamp").touch()
    (binaries / "python").symlink_to(sys.executable)
    (binaries / "ttlproxy").write_text(f'#!/bin/sh\nexec {sys.executable} -m ttlproxy "$@"\n')
    (binaries / "ttlproxy").chmod(0o755)
    words = (
        "make",
        "run",
        "ADMIN=127.0.0.1:0",
        f"RUN=--listen 127.0.0.1:0 --data-dir {tmp_path}/d",
    )
    with Terminal(words, tmp_path, {"PYTHONPATH": str(ROOT)}) as terminal:
        terminal.until("HGETALL h")
        found = re.search(r"status page: http://127\.0\.0\.1:(\d+)", terminal.text)
        assert found
        assert Pages(int(found[1])).get("/").status == 200
        assert "To begin anew, delete that directory." in terminal.text
        terminal.type(CTRL_C)
        terminal.end()
        assert "stopped" in terminal.text
        assert "***" not in terminal.text


@pytest.mark.parametrize("workers", ["1", "2"])
def test_nothing_is_to_be_tried_while_redis_is_away(workers: str) -> None:
    words = (*_TTLPROXY, f"redis://127.0.0.1:{CLOSED_PORT}", *_ANY, "--workers", workers)
    with Terminal(words, ROOT) as terminal:
        terminal.until("Redis is unavailable, and the log says why.")
        assert "try:" not in terminal.text
        terminal.type(CTRL_C)
        assert terminal.end() == INTERRUPTED


@pytest.mark.parametrize(
    ("hard", "chosen", "told"),
    [(20_000, False, ""), (20_000, True, "max_clients is 9968"), (4096, False, "max_clients is")],
)
def test_a_limit_of_open_files_is_told_if_it_matters(
    hard: int,
    chosen: bool,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    with caplog.at_level("INFO"):
        open_files.make_room(10_000, 1, chosen)
    assert told in caplog.text
    assert bool(told) == bool(caplog.text)
