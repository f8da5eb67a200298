"""What clients do when a proxy is killed after Redis has carried out a request, before its reply.

docs/clients.md has the table, and the settings that make a client report an error instead.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.conftest import StartProxy, StartServer
from tests.docs.programs import SLOW, build_go, java, javac, run
from tests.support.made_once import made_once
from tests.support.network_path import NetworkPath
from tests.support.npm import CLIENTS
from tests.support.redis_client import Client
from tests.support.relay import Relay
from tests.support.servers import Proxy, Server

pytestmark = [
    *(pytest.mark.long, pytest.mark.slow, pytest.mark.any_server, pytest.mark.each_server),
    pytest.mark.timeout(SLOW),
]

# From the request to what counts how often it was applied.
_COUNTS: Final = {
    "INCR n": lambda client: int(client.ask("GET", "n") or 0),
    "LEASE tasks busy EX 100": lambda client: client.ask("SCARD", "busy"),
    "DEFER EX 100 LPUSH later t": lambda client: len(client.ask("DEFERRED", "later")),
    "DEFER EX 100 ID t LPUSH named t": lambda client: len(client.ask("DEFERRED", "named")),
    "RPUSHEX list 100 a": lambda client: client.ask("LLEN", "list"),
}
_ONCE: Final = {"DEFER EX 100 ID t LPUSH named t"}
_TRANSACTION: Final = {"MULTI INCR m": lambda client: int(client.ask("GET", "m") or 0)}
_RESEND: Final = ("redis-py", "ioredis", "go-redis", "lettuce")


class _Loss:
    """The first proxy's replies stay away from the moment at which Redis has carried out a request,
    which `count` tells."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count, self._lock = count, threading.Lock()
        self.happened, self.over = threading.Event(), threading.Event()

    def on_reply(self, data: bytes) -> None:
        with self._lock:
            if not self.happened.is_set() and self._count():
                self.happened.set()
        if self.happened.is_set():
            self.over.wait(60)


def _command(client: str, settings: str, port: int, request: pytest.FixtureRequest) -> list[str]:
    factory = request.getfixturevalue("tmp_path_factory")
    words = [client, settings, str(port)]
    if client in ("redis-py", "Celery"):
        return [sys.executable, str(CLIENTS / "retries.py"), *words]
    if client in ("ioredis", "node-redis", "BullMQ"):
        return ["node", str(request.getfixturevalue("ioredis") / "retries.mjs"), *words]
    if client == "go-redis":
        folder = made_once(
            factory, "go-retries", lambda folder: build_go(folder, CLIENTS / "retries.go")
        )
        return [str(folder / "retries"), *words]
    lib: Path = request.getfixturevalue("java_clients") / "lib"

    def compile_it(folder: Path) -> None:
        run([*javac(), "-cp", f"{lib}/*", "-d", str(folder), str(CLIENTS / "Retries.java")], folder)

    folder = made_once(factory, "java-retries", compile_it)
    return [*java(), "-cp", f"{folder}:{lib}/*", "Retries", *words]


@contextmanager
def _program(command: list[str]) -> Iterator[Callable[[str], Callable[[], str]]]:
    """Sends a line, and returns what reads the answer."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        stdin, stdout = child.stdin, child.stdout
        assert stdin is not None
        assert stdout is not None

        def send(line: str) -> Callable[[], str]:
            print(line, file=stdin, flush=True)
            return lambda: stdout.readline().strip()

        try:
            yield send
        finally:
            child.kill()


def _ended(
    line: str,
    count: Callable[[Client], int],
    send: Callable[[str], Callable[[], str]],
    server: Server,
    switch: NetworkPath,
    start_proxy: StartProxy,
    other: Proxy,
    end: str,
) -> tuple[str, int]:
    """(the answer that the program got, how often the request was applied)"""
    with Client(other.port) as client:
        loss = _Loss(lambda: count(client))
        with Relay(server.port, 1 << 16, on_reply=loss.on_reply) as relay:
            proxy = start_proxy(f"redis://127.0.0.1:{relay.port}")
            switch.target = proxy.port
            answer = send(line)
            assert loss.happened.wait(60), line
            switch.target = other.port
            getattr(proxy, end)()
            loss.over.set()
            return answer(), count(client)


@pytest.mark.parametrize(
    ("client", "settings", "end"),
    [
        *((client, settings, "kill") for client in _RESEND for settings in ("usual", "safe")),
        ("node-redis", "usual", "kill"),
        ("jedis", "usual", "kill"),
        *((client, "usual", "terminate") for client in _RESEND),
    ],
)
def test_a_client_sends_a_request_again_or_reports_an_error(
    client: str,
    settings: str,
    end: str,
    start_server: StartServer,
    start_proxy: StartProxy,
    request: pytest.FixtureRequest,
) -> None:
    """Killed: applied twice, and a reply; or once, and an error. A proxy that is told to end
    replies first."""
    server = start_server()
    other = start_proxy(server.url)
    killed = end == "kill"
    resends = killed and settings == "usual" and client in _RESEND
    counts = _COUNTS | (_TRANSACTION if client in ("redis-py", "ioredis") else {})
    with Client(other.port) as pushing:
        pushing.ask("RPUSH", "tasks", "t1", "t2", "t3")
    with NetworkPath(other.port) as switch:
        command = _command(client, settings, switch.port, request)
        with _program(command) as send:
            for line, count in counts.items():
                answer, times = _ended(line, count, send, server, switch, start_proxy, other, end)
                assert (answer == "error") is (killed and not resends), (line, answer)
                assert times == (2 if resends and line not in _ONCE else 1), (line, answer)


# From the line of a program to the list with its tasks.
_TASKS: Final = {
    "Celery": {"emails": "emails"},
    "BullMQ": {"a": "bull:a:wait", "b ID": "bull:b:wait"},
}


@pytest.mark.parametrize("settings", ["usual", "safe"])
@pytest.mark.parametrize("library", _TASKS)
def test_a_task_may_be_there_twice_unless_it_has_an_id(
    library: str,
    settings: str,
    start_server: StartServer,
    start_proxy: StartProxy,
    request: pytest.FixtureRequest,
) -> None:
    """As above: these libraries use redis-py and ioredis."""
    server = start_server()
    other = start_proxy(server.url)
    with (
        NetworkPath(other.port) as switch,
        _program(_command(library, settings, switch.port, request)) as send,
    ):
        for line, key in _TASKS[library].items():
            count = partial(_length, key)
            answer, times = _ended(line, count, send, server, switch, start_proxy, other, "kill")
            assert (answer == "error") is (settings == "safe"), (line, answer)
            assert times == (2 if settings == "usual" and "ID" not in line else 1), line


def _length(key: str, client: Client) -> int:
    length = client.ask("LLEN", key)
    assert isinstance(length, int)
    return length


@pytest.mark.parametrize("settings", ["usual", "safe"])
def test_redis_py_sends_again_what_only_took_too_long(settings: str, proxy: Proxy) -> None:
    over = threading.Event()
    safe: dict[str, Any] = {"retry": Retry(NoBackoff(), 0)} if settings == "safe" else {}

    def first_is_late(data: bytes) -> None:
        if data == b":1\r\n":
            over.wait(60)

    with Relay(proxy.port, 1 << 16, on_reply=first_is_late) as relay:
        with redis.Redis(port=relay.port, socket_timeout=0.5, **safe) as client:
            if settings == "usual":
                assert client.incr("n") == 2
            else:
                with pytest.raises(redis.TimeoutError):
                    client.incr("n")
        over.set()
    with Client(proxy.port) as looking:
        assert looking.ask("GET", "n") == (b"2" if settings == "usual" else b"1")
