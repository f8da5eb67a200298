"""What the log says, in which format, and what it hides."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import StartServer
from tests.support.command_line import ttlproxy
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_content import STATE
from tests.support.servers import Proxy
from ttlproxy.cli import main as cli
from ttlproxy.process import app
from ttlproxy.telemetry import logs

pytestmark = pytest.mark.any_server

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
SECRET = "open sesame"


class JsonProxy(Proxy):
    """A proxy that logs JSON, so its log says where it listens."""

    def __init__(self, upstream: str, *arguments: str) -> None:
        super().__init__(upstream, "--log-format", "json", *arguments, forked=True)

    def lines(self) -> list[dict[str, Any]]:
        """The lines as objects; fails if one is not JSON."""
        return [json.loads(line) for line in self.stderr.splitlines()]

    def until(self, message: str) -> dict[str, Any]:
        """The first line with this message."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = [line for line in self.lines() if re.search(message, line["message"])]
            return bool(found)

        wait_until(is_there, f"a line {message!r}")
        return found[0]

    def _first_line(self) -> str:
        said = self.until("listens on")["message"]
        return f"{said.partition(',')[0]}\n"


StartJson = Callable[..., JsonProxy]


@pytest.fixture
def start_json(request: pytest.FixtureRequest) -> StartJson:
    def start(upstream: str, *arguments: str) -> JsonProxy:
        proxy = JsonProxy(upstream, *arguments)
        request.addfinalizer(proxy.remove)
        proxy.start()
        return proxy

    return start


def test_a_json_log_is_an_object_a_line_and_nothing_else_is_printed(
    start_server: StartServer, start_json: StartJson
) -> None:
    proxy = start_json(start_server().url)
    with Connection(proxy.port) as client:
        client.ask("PING")
    proxy.terminate()
    stdout = proxy.child.stdout
    assert stdout is not None
    assert stdout.read() == b""
    for line in proxy.lines():
        assert TIME.fullmatch(line["time"])
        assert line["level"] == "INFO"
        assert line["logger"].startswith("ttlproxy.")
        assert line["message"]


def test_a_connection_is_a_line_when_it_opens_and_one_when_it_closes(
    start_server: StartServer, start_json: StartJson
) -> None:
    proxy = start_json(start_server().url, "--log-level", "debug")
    for number in (1, 2):
        with Connection(proxy.port) as client:
            peer = "{}:{}".format(*client.socket.getsockname())
            client.ask("PING")
        closed = proxy.until(f"client {number}: closed")
        opened = proxy.until(f"client {number}: opened")
        assert (opened["client"], opened["peer"]) == (number, peer)
        assert opened["level"] == closed["level"] == "DEBUG"
        assert (closed["client"], closed["peer"], closed["why"]) == (number, peer, "client")
        assert closed["seconds"] >= 0


def test_lines_of_workers_name_the_worker(start_server: StartServer, start_json: StartJson) -> None:
    proxy = start_json(start_server().url, "--workers", "2", "--log-level", "debug")
    with Connection(proxy.port) as client:
        pid = re.findall(rb"process_id:(\d+)", client.ask("INFO", "ttlproxy"))[0].decode()
    assert proxy.until("client 1: opened")["process"] == f"worker {pid}"
    assert "process" not in proxy.until("listens on")

    def served() -> set[str]:
        return {line["process"] for line in proxy.lines() if " managed" in line["message"]}

    wait_until(lambda: len(served()) == 2, "both workers serve")


def test_what_ends_a_proxy_is_a_json_line_too(start_server: StartServer) -> None:
    server = start_server()
    with Connection(server.port) as direct:
        direct.ask("HSET", STATE, "layout", "999")
    words = ("--listen", "127.0.0.1:0", "--log-format", "json", "--upstream", server.url)
    ended = ttlproxy(*words)
    assert (ended.returncode, ended.stdout) == (1, "")
    *_, line = map(json.loads, ended.stderr.splitlines())
    assert (line["level"], "layout" in line["message"]) == ("CRITICAL", True)


def test_a_log_says_nothing_that_a_client_has_sent(
    start_server: StartServer, start_json: StartJson
) -> None:
    server = start_server("--requirepass", SECRET)
    url = f"redis://:{SECRET.replace(' ', '%20')}@127.0.0.1:{server.port}"
    proxy = start_json(url, "--log-level", "debug")
    with Connection(proxy.port) as client:
        client.ask("AUTH", SECRET)
        client.ask("HSET", "a-key", "a-field", "a-value")
        client.ask("HPEXPIREFIELD", "a-key", "a-field", 1)
        client.ask("CONFIG", "SET", "masterauth", "a-value")
        client.ask("ACL", "SETUSER", "u", ">a-value")
        client.send(command("AUTH", "a-value", "a-value") + b"*1\r\n:a-value\r\n")
        client.read_to_end()
    proxy.until("client 1: closed")
    for secret in (SECRET, "a-key", "a-field", "a-value"):
        assert secret not in proxy.stderr


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.usefixtures("own_log")
def test_a_traceback_has_no_bytes_and_is_one_line(
    form: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(*_: object) -> int:
        raise KeyError(b"it's AUTH " + SECRET.encode())

    monkeypatch.setattr(app, "serve", serve)
    assert cli.main(["--log-format", form]) == 1
    said = capsys.readouterr().err
    assert SECRET not in said
    assert said.count("\n") == 1
    if form == "json":
        line = json.loads(said)
        assert line["level"] == "CRITICAL"
        assert "\n" in line["exc_info"]
        assert line["exc_info"].endswith("KeyError: b'***'")
    else:
        assert "internal error: KeyError: b'***' (at test_logs.py:" in said


def _text(message: str, *arguments: object, trouble: BaseException | None = None) -> str:
    """A line of a text log."""
    exc_info = (type(trouble), trouble, trouble.__traceback__) if trouble is not None else None
    record = logging.LogRecord("a", logging.ERROR, "a.py", 1, message, arguments, exc_info)
    return logs._Text("").format(record)


@pytest.mark.parametrize(
    ("said", "logged"),
    [
        ("one\ntwo\r\nthree", r"one\ntwo\r\nthree"),
        ("\x1b[31mred\x07\x00", r"\x1b[31mred\x07\x00"),
        ("\u202egpj.exe\u2028\x85", r"\u202egpj.exe\u2028\x85"),
        ("\udc80", r"\udc80"),
        ("grün 100 %", "grün 100 %"),
    ],
)
def test_whatever_is_logged_is_one_line_without_control_characters(said: str, logged: str) -> None:
    assert _text("user %s", said).endswith(f" ERROR user {logged}")
    assert _text("gone", trouble=ValueError(said)).endswith(
        f" ERROR gone: ValueError: {logged} (at an unknown place)"
    )


def test_a_line_tells_what_an_exception_came_from() -> None:
    def inner() -> None:
        raise KeyError("a\nkey")

    try:
        try:
            inner()
        except KeyError as error:
            raise ValueError("of it") from error
    except ValueError as error:
        line = _text("gone", trouble=error)
    assert re.search(r"gone: ValueError: of it \(at test_logs.py:\d+ \w+\), from KeyError: ", line)
    assert re.search(r"\(at test_logs.py:\d+ inner < test_logs.py:\d+ test_a_line_\w+\)$", line)


@pytest.mark.parametrize(
    ("said", "logged"),
    [
        (r"KeyError: b'it\'s \\' at 7", "KeyError: b'***' at 7"),
        ("""[b"it's", b'', 'ours']""", "[b'***', b'***', 'ours']"),
        ("redis://app:word@host/0 is away", "redis://app:***@host/0 is away"),
        ("redis://:word@host", "redis://:***@host"),
        ("redis://host:6379 at 10:15", "redis://host:6379 at 10:15"),
        ("unknown command 'X', with args beginning with: 'word' ",
         "unknown command 'X', with args beginning with: ***"),
    ],
)  # fmt: skip
def test_what_is_kept_out_of_a_line(said: str, logged: str) -> None:
    assert logs.redacted(said) == logged
