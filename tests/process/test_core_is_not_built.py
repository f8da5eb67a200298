"""What a user sees where the compiled core is not built, as on a machine without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing

import pytest

from tests.conftest import StartServer
from tests.support.redis_client import Client
from tests.support.servers import Proxy, Server

pytestmark = pytest.mark.any_server

PURE = {"TTLPROXY_PURE": "1"}
SAYS = "requests are read in Python"


def test_the_log_says_so_once_and_the_proxy_serves(shared_server: Server) -> None:
    with Proxy(shared_server.url, env=PURE) as proxy:
        with closing(Client(proxy.port)) as client:
            assert client.ask("SADDEX", "{core}s", 100, "x", "y") == 2
            assert client.ask("DEL", "{core}s") == 1
        assert proxy.stderr.count(SAYS) == 1


def test_the_doctor_says_so_and_how_it_is_built(start_server: StartServer) -> None:
    command = (sys.executable, "-m", "ttlproxy", "doctor", "--upstream", start_server().url)
    env = {**os.environ, **PURE}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "core           requests and replies are read in Python" in done.stdout
    assert "fix: install a C compiler" in done.stdout
