"""Sentinels that cannot be asked: whom clients, probes and the doctor then hear of."""

from __future__ import annotations

import json

import pytest

from tests.conftest import StartProxy, StartServer
from tests.faults.conftest import StartSentinel, is_refused, sentinel_url, until_served_by
from tests.support.admin_pages import FLAGS, pages
from tests.support.command_line import ttlproxy
from tests.support.processes import free_port, wait_until
from tests.support.raw_client import Connection
from tests.support.sentinels import NAME, follow

SOON = ("--hold-max", "0.1")
NOWHERE = "nowhere.invalid"


def test_while_all_are_away_the_master_is_served_as_long_as_it_is_one(
    start_server: StartServer, start_sentinel: StartSentinel, start_proxy: StartProxy
) -> None:
    old, new = start_server(), start_server()
    follow(new, old)
    sentinel = start_sentinel(old.port)
    # The first deadline of a family waits for all proxies, on a busy machine for longer than SOON.
    proxy = start_proxy(sentinel_url(sentinel.port), "--hold-max", "1")
    with Connection(proxy.port) as client:
        assert client.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "a", 1) == b":1\r\n"
        sentinel.stop()
        place = f"the Sentinel at 127.0.0.1:{sentinel.port} is of no use"
        wait_until(lambda: place in proxy.stderr, "a warning")
        assert client.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "b", 1) == b":1\r\n"
        assert client.ask("WAIT", 1, 0) == b":1\r\n"
        with Connection(new.port) as direct:
            assert direct.ask("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
        follow(old, new)
        assert client.read_to_end() == b""
    is_refused(proxy, f"127.0.0.1:{sentinel.port}: ")
    sentinel.restart()
    sentinel.ask("REMOVE", NAME)
    sentinel.ask("MONITOR", NAME, "127.0.0.1", str(new.port), "1")
    until_served_by(new, proxy)
    with Connection(proxy.port) as client:
        assert client.ask("HPERSISTFIELD", "h", "b") == b":1\r\n"


def test_a_name_that_leads_nowhere_is_told_and_another_sentinel_is_enough(
    start_server: StartServer, start_sentinel: StartSentinel, start_proxy: StartProxy
) -> None:
    server = start_server()
    sentinel = start_sentinel(server.port)
    proxy = start_proxy(sentinel_url(NOWHERE, sentinel.port))
    until_served_by(server, proxy)
    wait_until(lambda: f"the Sentinel at {NOWHERE}:26379 is of no use" in proxy.stderr, "its name")
    is_refused(
        start_proxy(sentinel_url(NOWHERE), *SOON),
        f"{NOWHERE}:26379: the name {NOWHERE} is not found",
    )
    is_refused(start_proxy(f"redis://{NOWHERE}", *SOON), f"the name {NOWHERE} is not found")


def _healthcheck(port: int | str) -> tuple[int, str]:
    done = ttlproxy("healthcheck", "--admin", f"127.0.0.1:{port}")
    return done.returncode, done.stdout + done.stderr


@pytest.mark.any_server
def test_probes_and_pages_say_which_sentinels_give_no_answer(
    start_server: StartServer, start_sentinel: StartSentinel, start_proxy: StartProxy
) -> None:
    """Each of two workers."""
    server, away = start_server(), free_port()
    sentinel = start_sentinel(server.port)
    sentinel.stop()
    proxy = start_proxy(sentinel_url(sentinel.port, away), *FLAGS, "--workers", "2")
    admin = pages(proxy)

    def says_why() -> bool:
        said = admin.get("/readyz")
        names = [f"127.0.0.1:{port}: " for port in (sentinel.port, away)]
        return said.status == 503 and all(name in said.text for name in names)

    wait_until(says_why, "why it is not ready")
    code, said = _healthcheck(admin.where)
    assert (code, f"127.0.0.1:{away}: " in said) == (1, True)
    assert json.loads(admin.get("/status.json").text)["upstream"].endswith(f"#{NAME}")
    assert admin.get("/livez").status == 200
    sentinel.restart()
    assert admin.until("/readyz", 200)
    assert _healthcheck(admin.where)[0] == 0
    at = f"#{NAME} (127.0.0.1:{server.port})"  # another worker may be ready before this one
    wait_until(
        lambda: json.loads(admin.get("/status.json").text)["upstream"].endswith(at), "where it is"
    )
