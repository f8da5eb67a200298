"""SIGHUP: which settings change at once, and what is logged about the others."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.server_queries import until_blocked
from tests.support.servers import Proxy, Server
from tests.support.worker_counts import alone_or_with


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def _read_again(proxy: Proxy, says: str = "have been reloaded") -> None:
    """Sends SIGHUP, and waits until the proxy has handled it."""
    before = proxy.stderr.count(says)
    os.kill(proxy.pid, signal.SIGHUP)
    wait_until(lambda: proxy.stderr.count(says) > before, says)


def _opened(proxy: Proxy) -> Callable[[], bool]:
    return lambda: "opened by" in proxy.stderr


def test_the_log_level_changes_at_once_and_an_address_takes_a_restart(
    start_server: StartServer, start_proxy: StartProxy, file: Path
) -> None:
    file.write_text('log_level = "info"\n')
    proxy = start_proxy(start_server().url, "--config", str(file))
    with Connection(proxy.port) as client:
        assert client.ask("PING") == b"+PONG\r\n"
    assert not _opened(proxy)()
    file.write_text('log_level = "debug"\nadmin = "127.0.0.1:1"\n')
    _read_again(proxy, "need a restart: admin")
    assert "reloaded: log_level is debug\n" in proxy.stderr
    with Connection(proxy.port) as client:
        assert client.ask("PING") == b"+PONG\r\n"
        wait_until(_opened(proxy), "a line at debug")


def test_settings_that_are_wrong_change_nothing(
    start_server: StartServer, start_proxy: StartProxy, file: Path
) -> None:
    file.write_text("drain_max = 5\n")
    proxy = start_proxy(start_server().url, "--config", str(file))
    file.write_text('drain_max = "soon"\nlog_level = "debug"\nnope = 1\n')
    _read_again(proxy, "nothing changed, because the settings are wrong")
    assert "nope" in proxy.stderr
    with Connection(proxy.port) as client:
        assert client.ask("PING") == b"+PONG\r\n"
    assert not _opened(proxy)()
    file.write_text("drain_max = 5\n")
    _read_again(proxy, "reloaded: no changes applied")


@alone_or_with(2)
def test_a_limit_of_the_drain_changes_also_in_workers(
    start_server: StartServer, start_proxy: StartProxy, file: Path, workers: int
) -> None:
    file.write_text("drain_max = 1000\n")
    server = start_server()
    proxy = start_proxy(server.url, "--config", str(file), "--workers", str(workers))
    with Connection(proxy.port) as one, Connection(proxy.port) as other:
        one.send(command("BLPOP", "l", 0))
        other.send(command("BLPOP", "l", 0))
        until_blocked(server.port, 2)
        file.write_text("drain_max = 0.1\n")
        _read_again(proxy)
        proxy.terminate()
        assert proxy.wait() == 0
    assert "cut off" in proxy.stderr


def test_a_password_that_was_changed_in_its_file_is_used(
    start_server: StartServer, start_proxy: StartProxy, file: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("before\n")
    server = start_server("--requirepass", "before")
    proxy = start_proxy(server.url, "--upstream-password-file", str(secret))
    with Connection(server.port) as direct:
        direct.ask("AUTH", "before")
        direct.ask("CONFIG", "SET", "requirepass", "after")
        secret.write_text("after\n")
        _read_again(proxy)
        direct.ask("CLIENT", "KILL", "TYPE", "normal")
        direct.ask("CLIENT", "KILL", "TYPE", "pubsub")
    assert "need a restart" not in proxy.stderr
    with Connection(proxy.port) as client:
        assert client.ask("AUTH", "after") == b"+OK\r\n"
        client.ask("HSET", "h", "a", 1, "b", 2)
        client.ask("HPEXPIREFIELD", "h", "a", 1)
        wait_until(lambda: client.ask("HLEN", "h") == b":1\r\n", "the field gone")


def _budget_of_a_reap(server: Server, client: Connection) -> int:
    """The time limit of a reap, in µs, that the reap script gets when a field is due."""
    with Connection(server.port) as monitor:
        monitor.ask("MONITOR")
        client.ask("HSET", "h", "a", 1, "b", 2)
        client.ask("HPEXPIREFIELD", "h", "a", 1)
        while True:
            name, *words = re.findall(rb'"((?:[^"\\]|\\.)*)"', monitor.read())
            # The first call of a script carries its text.
            called = name.lower() in (b"eval", b"evalsha")
            if called and words[2:4] == [b"__ttl:schedule", b"__ttl:rules"]:
                _, _, budget, *_ = words[2 + int(words[1]) :]
                return int(budget)


def test_the_time_that_a_reap_may_take_changes_at_once(
    start_server: StartServer, start_proxy: StartProxy, file: Path
) -> None:
    file.write_text("reap_budget_ms = 5\n")
    server = start_server()
    proxy = start_proxy(server.url, "--config", str(file))
    with Connection(proxy.port) as client:
        before = _budget_of_a_reap(server, client)
        file.write_text("reap_budget_ms = 50\n")
        _read_again(proxy)
        assert _budget_of_a_reap(server, client) == 10 * before
