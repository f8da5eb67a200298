"""The command as a shell runs it, and its first lines of output."""

import asyncio
import importlib.util
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.requirements import absent
from ttlproxy import __version__
from ttlproxy.cli import main as cli
from ttlproxy.config import Settings
from ttlproxy.errors import EmbeddedError, NoEmbeddedRedis, TtlproxyError
from ttlproxy.process import app, runner
from ttlproxy.process.embedded import Embedded


def ttlproxy(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ttlproxy", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_version_is_said() -> None:
    said = ttlproxy("--version")
    assert (said.returncode, said.stdout) == (0, f"ttlproxy {__version__}\n")


def test_help_shows_every_setting() -> None:
    said = ttlproxy("--help")
    assert said.returncode == 0
    for name, field in Settings.model_fields.items():
        assert f"--{name.replace('_', '-')} " in said.stdout
        assert field.description
        assert " ".join(field.description.split()[:2]) in said.stdout


def test_all_problems_are_listed_at_once_with_exit_code_2_and_no_traceback() -> None:
    said = ttlproxy("--listen", "nowhere", "--reap-batch", "0", "--nope", "--upstream", "http://h")
    assert (said.returncode, said.stdout) == (2, "")
    first, *problems = said.stderr.splitlines()
    assert first == "ttlproxy: the settings are wrong:"
    assert [problem.partition(":")[0].strip() for problem in problems] == [
        "--nope",
        "--listen",
        "--upstream",
        "--reap-batch",
    ]


def test_a_flag_without_its_value_is_a_problem_and_no_traceback() -> None:
    said = ttlproxy("--listen")
    assert said.returncode == 2
    assert said.stderr.splitlines()[1:] == ["  --listen: expected one argument"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NoEmbeddedRedis(), 2),
        (EmbeddedError("it ended"), 1),
        (TtlproxyError("something"), 1),
        (OSError(98, "Address already in use"), 1),
    ],
)
def test_trouble_while_serving_is_one_message_and_an_exit_code(
    error: Exception,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def serve(*_: object) -> int:
        raise error

    monkeypatch.setattr(app, "serve", serve)
    assert cli.main([]) == code
    assert capsys.readouterr().err == f"ttlproxy: {error}\n"


def test_the_exit_code_of_serve_is_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(*_: object) -> int:
        return 3

    monkeypatch.setattr(app, "serve", serve)
    assert cli.main([]) == 3


@pytest.mark.parametrize(
    ("choice", "module"), [("auto", "uvloop"), ("uvloop", "uvloop"), ("asyncio", "asyncio")]
)
def test_the_event_loop_is_the_chosen_one(
    choice: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("uvloop") is None:
        absent("uvloop", "uvloop is not installed")

    async def serve(*_: object) -> int:
        return int(type(asyncio.get_running_loop()).__module__.startswith(module))

    monkeypatch.setattr(app, "serve", serve)
    assert cli.main(["--event-loop", choice]) == 1


def test_without_uvloop_auto_is_asyncio_and_uvloop_a_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert runner.loop_factory("auto") is None
    assert cli.main(["--event-loop", "uvloop"]) == 2
    assert "--event-loop: uvloop is not installed" in capsys.readouterr().err


def test_the_greeting_before_an_upstream_can_be_typed_in() -> None:
    assert cli.greeting("127.0.0.1:6380", "redis://h:6379", None).splitlines() == [
        f"ttlproxy {__version__} listens on 127.0.0.1:6380",
        "in front of redis://h:6379",
        "try:",
        "  redis-cli -p 6380 HSET h a 1 b 2",
        "  redis-cli -p 6380 HEXPIREFIELD h a 1",
        "  redis-cli -p 6380 HTTLFIELD h a",
        "  redis-cli -p 6380 HGETALL h",
    ]


@pytest.mark.parametrize(
    ("listen", "client"),
    [
        ("0.0.0.0:1", "redis-cli -p 1"),
        ("[::]:1", "redis-cli -p 1"),
        ("[::1]:1", "redis-cli -h ::1 -p 1"),
        ("10.0.0.1:1", "redis-cli -h 10.0.0.1 -p 1"),
        ("unix:///run/t.sock", "redis-cli -s /run/t.sock"),
    ],
)
def test_the_greeting_calls_redis_cli_at_the_right_address(listen: str, client: str) -> None:
    lines = cli.greeting(listen, "redis://h:6379", None).splitlines()
    assert lines[0] == f"ttlproxy {__version__} listens on {listen}"
    assert lines[-1] == f"  {client} HGETALL h"


def test_the_greeting_says_what_runs_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ttlproxy.process.embedded.find_server", lambda: Path("/opt/redis-server"))
    server = Embedded(tmp_path)
    server.version, server.pid = "7.0.15", 42
    text = cli.greeting("127.0.0.1:1", "unix:///x", server)
    for what in ("redis-server 7.0.15", "/opt/redis-server (pid 42)", f"{tmp_path}/redis.sock"):
        assert what in text


def test_log_lines_have_time_level_and_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def serve(*_: object) -> int:
        logging.getLogger("ttlproxy").warning("it is said")
        logging.getLogger("ttlproxy").info("it is not said")
        return 0

    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(app, "serve", serve)
    assert cli.main(["--log-level", "warning"]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(" WARNING it is said")
