"""`ttlproxy top`: a running proxy, live in the terminal."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import FLAGS, pages
from tests.support.command_line import ttlproxy
from tests.support.processes import CLOSED_PORT
from tests.support.redis_client import Client
from tests.support.servers import ROOT
from tests.support.terminal import CTRL_C, Terminal
from ttlproxy.addresses import Listen
from ttlproxy.cli.top import screen
from ttlproxy.errors import INTERRUPTED

pytestmark = pytest.mark.any_server

_SERIES = (
    *("requests", "round_trip_ms", "bytes_in", "bytes_out", "reaped", "lag_p50_ms", "lag_p99_ms"),
    *("managed_keys", "overdue", "clients"),
)


def _found(**other: object) -> dict[str, Any]:
    """What is known of a proxy that has just started: nothing."""
    return {
        "version": "1",
        "upstream": "redis://h:6379",
        "uptime_s": 0,
        "why_not": "",
        "series": {name: [] for name in _SERIES},
        "clients": {},
        "parked": {},
        "due": {},
        **other,
    }


def _screen(found: dict[str, Any], width: int = 100, height: int = 40) -> list[str]:
    return screen(Listen("127.0.0.1", 9380), found, width, height)


def test_what_is_not_known_is_no_0() -> None:
    text = "\n".join(_screen(_found()))
    assert "requests/s               -" in text
    assert "parked keys              -" in text
    assert "not shown: see --inspector" in text
    assert "0" not in text.partition("requests/s")[2].replace("p50", "")


def test_a_screen_keeps_to_the_size_of_the_terminal() -> None:
    due = {"keys": [{"name": "x" * 300, "ms_left": 1500}] * 50}
    lines = _screen(_found(why_not="a long reason " * 20, due=due), 60, 24)
    assert len(lines) == 23
    assert max(map(len, lines)) == 60
    assert sum("long reason" in line for line in lines) > 3, "a reason is told to its end"
    assert any(line.startswith("  in 1.5 s        xxx") for line in lines)


def test_the_terminal_shows_a_proxy_whose_redis_dies(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url, *FLAGS)
    client = Client(proxy.port)
    client.ask("SADDEX", "visits", 1000, "a")
    client.close()
    words = ("ttlproxy", "top", "--admin", f"127.0.0.1:{pages(proxy).where}")
    with Terminal((sys.executable, "-m", *words), ROOT) as terminal:
        terminal.until("ready, up ")
        terminal.until("in 16 min")
        assert "visits" in terminal.text
        server.kill()
        terminal.until("the link to Redis is down")
        terminal.type(b"q")
        assert terminal.end() == 0
        assert terminal.text.endswith("\x1b[?1049l"), "the screen from before"


def test_ctrl_c_ends_it_and_gives_the_terminal_back(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(start_server().url, *FLAGS)
    words = ("ttlproxy", "top", "--admin", f"127.0.0.1:{pages(proxy).where}")
    with Terminal((sys.executable, "-m", *words), ROOT) as terminal:
        terminal.until("ready, up ")
        terminal.type(CTRL_C)
        assert terminal.end() == INTERRUPTED
        assert terminal.text.endswith("\x1b[?1049l")


def test_without_a_terminal_it_is_one_screen(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(start_server().url, *FLAGS)
    done = ttlproxy("top", "--admin", f"127.0.0.1:{pages(proxy).where}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("managed keys") == 1
    assert "\x1b" not in done.stdout


def test_where_nobody_answers_it_says_what_to_name() -> None:
    done = ttlproxy("top", "--admin", f"127.0.0.1:{CLOSED_PORT}")
    assert done.returncode == 1
    assert done.stderr.endswith("Connection refused; name the --admin of the proxy\n")
