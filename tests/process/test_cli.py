"""The command as a shell runs it, and its first lines of output."""

import asyncio
import importlib.util
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificates import Authority
from tests.support.command_line import ttlproxy
from tests.support.requirements import absent
from ttlproxy import __version__
from ttlproxy.addresses import Listen, Upstream
from ttlproxy.cli import flags
from ttlproxy.cli import main as cli
from ttlproxy.cli.flags import misspelt_variables
from ttlproxy.cli.output import greeting
from ttlproxy.cli.subcommand import SUMMARIES, find_subcommand
from ttlproxy.config import SETTINGS
from ttlproxy.errors import (
    INTERRUPTED,
    EmbeddedError,
    NoEmbeddedRedis,
    SettingsError,
    TtlproxyError,
)
from ttlproxy.process import app, runner
from ttlproxy.process.embedded import Embedded

pytestmark = pytest.mark.usefixtures("own_log")


def test_version_is_said() -> None:
    said = ttlproxy("--version")
    assert (said.returncode, said.stdout) == (0, f"ttlproxy {__version__}\n")


def test_help_shows_every_setting() -> None:
    said = ttlproxy("--help")
    assert said.returncode == 0
    for name, setting in SETTINGS.items():
        assert f"--{name.replace('_', '-')} " in said.stdout
        assert setting.description
        assert " ".join(setting.description.split()[:2]) in said.stdout


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


def test_help_shows_the_subcommands_and_first_what_most_people_set() -> None:
    text = ttlproxy("--help").stdout
    assert "Exit codes: 0 stopped by SIGTERM, 1 it failed, 2 the settings are wrong, 130" in text
    assert f"ttlproxy {'|'.join(SUMMARIES)} [flags]" in text.split("\n\n")[0]
    usual, _, others = text.partition("\nclients:")
    for name in flags.USUAL:
        assert f"{flags.flag(name)} " in usual
        assert f"  {flags.flag(name)} " not in others


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["doctr"], "doctr: unknown subcommand; did you mean doctor?"),
        (["--upstraem", "geheim"], "--upstraem: unknown flag; did you mean --upstream?"),
        (["--upstraem=geheim"], "--upstraem: unknown flag; did you mean --upstream?"),
        (["--helpp"], "--helpp: unknown flag; did you mean --help?"),
        (["doctor", "--sampel", "4"], "--sampel: unknown flag; did you mean --sample?"),
        (["--quux"], "--quux: unknown flag"),
        (["pruge", "--apply"], "pruge: unknown subcommand; did you mean purge?"),
        (["help"], "help: unknown subcommand; did you mean --help?"),
        (["doctor", "geheim"], "doctor: takes flags only"),
        (["rights", "--match", "*", "geheim"], "rights: takes flags only"),
        (
            ["--log-level", "info", "purge"],
            "purge: a subcommand must be the first word: ttlproxy purge [flags]",
        ),
        (
            ["geheim"],
            "unexpected arguments, which belong to no flag; a Redis is named by its URL,"
            " redis://HOST:PORT; subcommands are adopt, completion, doctor, export, healthcheck,"
            " import, inspect, purge, rights, top",
        ),
    ],
)
def test_a_misspelt_word_gets_the_name_that_may_be_meant(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    assert capsys.readouterr().err.splitlines()[1:] == [f"  {problem}"]


def _imported(module: str) -> list[str]:
    program = f"import sys; import {module}; print(*sys.modules)"
    return subprocess.check_output([sys.executable, "-c", program], text=True).split()


def test_a_proxy_keeps_no_subcommands_and_no_admin_pages_in_memory() -> None:
    large = (
        "ttlproxy.admin",
        "ttlproxy.cli",
        "ttlproxy.operations.doctor",
        "ttlproxy.proxy.routed",
    )
    assert not [name for name in _imported("ttlproxy.process.app") if name.startswith(large)]


def test_the_version_is_said_without_the_proxy_redis_and_an_event_loop() -> None:
    """They take 0.7 s to import."""
    large = ("ttlproxy.link", "ttlproxy.process", "ttlproxy.operations", "redis", "asyncio", "ssl")
    assert not [name for name in _imported("ttlproxy.cli.main") if name.startswith(large)]


def test_each_setting_is_in_one_group_of_help() -> None:
    grouped = [name for _, names in flags.groups(SETTINGS) for name in names]
    assert sorted(grouped) == sorted(SETTINGS)
    assert "\nTLS for clients:\n  --tls-cert" in ttlproxy("--help").stdout


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_subcommand_lists_its_flags_and_the_settings_that_it_uses(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    text = capsys.readouterr().out
    subcommand = find_subcommand(name)
    for each in (*subcommand.flags, *map(flags.flag, subcommand.settings)):
        assert f"  {each} " in text
    assert "--config FILE" in text
    first = text.partition("settings, as of ttlproxy itself:")[2].split()[0]
    usual = [flags.flag(each) for each in subcommand.settings if each in flags.USUAL]
    assert first in (usual or [first])


_OWN_FLAGS = [
    (name, flag, how)
    for name in SUMMARIES
    for flag, how in find_subcommand(name).flags.items()
    if how.get("action") != "store_true"
]


@pytest.mark.parametrize(("name", "flag", "how"), _OWN_FLAGS)
def test_no_value_of_a_flag_of_a_subcommand_is_dropped(
    name: str, flag: str, how: dict[str, Any]
) -> None:
    one, other, *_ = how.get("choices", ["1", "2"])
    words = [name, flag, one, flag, other]
    if how.get("action") == "append":
        own, _ = find_subcommand(name).flagged(words)
        assert [one, other] in vars(own).values()
        return
    with pytest.raises(SettingsError, match=f"{flag}: is given twice"):
        find_subcommand(name).flagged(words)


@pytest.mark.parametrize("name", ["config", *SETTINGS])
def test_a_setting_is_given_once(name: str) -> None:
    flag = flags.flag(name)
    with pytest.raises(SettingsError, match=f"{flag}: is given twice"):
        cli.load([flag, "1", f"{flag}=2"])


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_subcommand_tells_its_exit_codes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    _, _, told = " ".join(capsys.readouterr().out.split()).partition("Exit codes: ")
    for code in (0, 1, 2, 3, 4, INTERRUPTED):
        assert re.search(rf"(^|, ){code} [a-z]", told)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("TTLPROXY_UPSTREM", "TTLPROXY_UPSTREAM"),
        ("ttlproxy_reap_bach", "TTLPROXY_REAP_BATCH"),
        ("TTLPROXY_CONFG", "TTLPROXY_CONFIG"),
    ],
)
def test_a_variable_that_is_nearly_a_setting_is_a_warning(variable: str, meant: str) -> None:
    [sentence] = misspelt_variables([variable, "PATH"], SETTINGS)
    assert sentence == f"{variable} is not a setting; did you mean {meant}?"


def test_a_misspelt_variable_is_logged_without_its_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def serve(*_: object) -> int:
        return 0

    monkeypatch.setattr(app, "serve", serve)
    monkeypatch.setenv("TTLPROXY_UPSTREM", "geheim")
    assert cli.main([]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(
        " WARNING TTLPROXY_UPSTREM is not a setting; did you mean TTLPROXY_UPSTREAM?"
    )


@pytest.mark.parametrize("service", ["TTLPROXY", "TTLPROXY_ADMIN", "TTLPROXY_LISTEN"])
def test_variables_of_a_service_in_kubernetes_are_no_warning(service: str) -> None:
    variables = [
        f"{service}_{end}"
        for end in (
            "SERVICE_HOST",
            "SERVICE_PORT",
            "SERVICE_PORT_ADMIN",
            "PORT",
            "PORT_6380_TCP",
            "PORT_6380_TCP_PROTO",
            "PORT_6380_TCP_PORT",
            "PORT_6380_TCP_ADDR",
        )
    ]
    settings = [*(f"TTLPROXY_{name.upper()}" for name in SETTINGS), "TTLPROXY_CONFIG"]
    assert misspelt_variables([*variables, *settings], SETTINGS) == []


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


def _serves(listen: str = "127.0.0.1:6380", **more: Any) -> app.Serves:
    return app.Serves(Listen.parse(listen), Upstream.parse("redis://h:6379"), **more)


def test_the_greeting_before_an_upstream_can_be_typed_in() -> None:
    assert greeting(_serves()).splitlines() == [
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
        ("[::]:1", "redis-cli -h ::1 -p 1"),
        ("[::1]:1", "redis-cli -h ::1 -p 1"),
        ("10.0.0.1:1", "redis-cli -h 10.0.0.1 -p 1"),
        ("unix:///run/t.sock", "redis-cli -s /run/t.sock"),
    ],
)
def test_the_greeting_calls_redis_cli_at_the_right_address(listen: str, client: str) -> None:
    lines = greeting(_serves(listen)).splitlines()
    assert lines[0] == f"ttlproxy {__version__} listens on {listen}"
    assert lines[-1] == f"  {client} HGETALL h"


@pytest.mark.parametrize(("has_tls", "client"), [(True, "6380 --tls"), (False, "6380")])
def test_the_greeting_of_a_proxy_with_tls_calls_redis_cli_with_tls(
    has_tls: bool,
    client: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def serve(settings: object, started: app.Started, read: object) -> int:
        started(_serves())
        return 0

    monkeypatch.setattr(app, "serve", serve)
    cert, key = Authority(tmp_path).issue("h")
    assert cli.main(["--tls-cert", str(cert), "--tls-key", str(key)] if has_tls else []) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"  redis-cli -p {client} HGETALL h"


def test_the_greeting_says_what_runs_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ttlproxy.process.embedded.find_server", lambda: Path("/opt/redis-server"))
    server = Embedded(tmp_path)
    server.version, server.pid = "7.0.15", 42
    text = greeting(_serves(embedded=server))
    for what in ("redis-server 7.0.15", "/opt/redis-server (pid 42)", f"{tmp_path}/redis.sock"):
        assert what in text


def test_log_lines_have_time_level_and_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def serve(*_: object) -> int:
        logging.getLogger("ttlproxy").warning("it is said")
        logging.getLogger("ttlproxy").info("it is not said")
        return 0

    monkeypatch.setattr(app, "serve", serve)
    assert cli.main(["--log-level", "warning"]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(" WARNING it is said")
