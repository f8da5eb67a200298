"""`ttlproxy healthcheck`, as a container engine calls it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.command_line import ttlproxy
from tests.support.processes import free_port, wait_until
from ttlproxy.addresses import Listen
from ttlproxy.operations.redis_cli import to_proxy

pytestmark = pytest.mark.any_server


_check = partial(ttlproxy, "healthcheck")


def test_a_proxy_that_is_ready_is_well_and_one_without_redis_is_not(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path
) -> None:
    server = start_server()
    admin = f"unix://{tmp_path}/admin.sock"
    start_proxy(server.url, "--admin", admin)
    assert _check("--admin", admin).returncode == 0
    server.stop()
    wait_until(lambda: _check("--admin", admin).returncode == 1, "not ready")
    assert _check("--admin", admin).stderr.startswith("ttlproxy: readyz: ")
    assert _check("--admin", admin, "--probe", "livez").returncode == 0


def test_anywhere_is_asked_at_home(start_server: StartServer, start_proxy: StartProxy) -> None:
    anywhere = f"0.0.0.0:{free_port()}"
    start_proxy(start_server().url, "--admin", anywhere)
    assert _check("--admin", anywhere).returncode == 0


@pytest.mark.parametrize(
    ("listen", "where"),
    [
        ("0.0.0.0:7", "-h 127.0.0.1 -p 7"),
        ("[::]:7", "-h ::1 -p 7"),
        ("[fe80::1]:7", "-h fe80::1 -p 7"),
        ("unix:///run/t.sock", "-s /run/t.sock"),
    ],
)
def test_what_listens_anywhere_is_found_at_home(listen: str, where: str) -> None:
    words = to_proxy(Listen.parse(listen), tls=False)
    assert words == ["redis-cli", *where.split()]


def test_where_nobody_answers_it_is_1() -> None:
    done = _check("--admin", f"127.0.0.1:{free_port()}")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no answer from 127.0.0.1:" in done.stderr
    done = _check()
    assert (done.returncode, "set --admin" in done.stderr) == (1, True)
