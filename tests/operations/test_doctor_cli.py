"""`ttlproxy doctor` on the command line: its output and its exit codes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import closing
from functools import partial

import pytest

from tests.conftest import StartServer
from tests.support.command_line import ttlproxy
from tests.support.processes import free_port
from tests.support.redis_client import Client
from tests.support.redis_content import STATE
from tests.support.servers import ROOT
from ttlproxy.operations.doctor import CHECKS

pytestmark = pytest.mark.any_server

COMMAND = (sys.executable, "-m", "ttlproxy", "doctor")


_doctor = partial(ttlproxy, "doctor")


def test_a_healthy_server_is_0_and_every_check_has_its_line(start_server: StartServer) -> None:
    done = _doctor("--upstream", start_server().url)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\033" not in done.stdout
    assert {
        line[10:].split()[0] for line in done.stdout.splitlines() if line[:2] in ("ok", "in")
    } == {*CHECKS}
    assert done.stdout.splitlines()[-1].endswith(" ok")


def test_a_warning_is_3_and_an_error_4_and_the_worst_stands_first(
    start_server: StartServer,
) -> None:
    server = start_server()
    with closing(Client(server.port)) as direct:
        direct.ask("CONFIG", "SET", "maxmemory", "1gb")
        direct.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        warned = _doctor("--upstream", server.url)
        direct.ask("HSET", STATE, "layout", 99)
    assert warned.returncode == 3
    assert "fix: CONFIG SET maxmemory-policy noeviction" in warned.stdout
    failed = _doctor("--upstream", server.url)
    assert failed.returncode == 4
    assert [line.split()[0] for line in failed.stdout.splitlines()[2:] if line[:1].strip()][:2] == [
        "error",
        "warning",
    ]


def test_json_has_a_stable_shape_and_nothing_secret(start_server: StartServer) -> None:
    server = start_server("--requirepass", "se:cret")
    done = _doctor("--json", "--upstream", f"redis://:se%3Acret@127.0.0.1:{server.port}")
    report = json.loads(done.stdout)
    assert (done.returncode, report["worst"]) == (0, "info")
    assert report.keys() == {"ttlproxy", "upstream", "worst", "findings"}
    for finding in report["findings"]:
        assert finding.keys() == {"check", "severity", "what", "why", "fix", "keys"}
        assert finding["severity"] in ("ok", "info", "warning", "error")
    assert "cret" not in done.stdout


def test_a_redis_that_is_away_is_4_in_json_too() -> None:
    done = _doctor("--json", "--upstream", f"redis://127.0.0.1:{free_port()}")
    assert (done.returncode, done.stderr) == (4, "")
    assert json.loads(done.stdout)["findings"][0]["check"] == "connection"


@pytest.mark.slow
def test_what_is_fixed_is_told(start_server: StartServer) -> None:
    server = start_server()
    with closing(Client(server.port)) as direct:
        direct.ask("SET", "a", 1)
    line = "database 0: checked 0 keys, dropped 0 deadlines without an element"
    done = _doctor("--apply", "--upstream", server.url)
    assert done.stdout.startswith(line)
    done = _doctor("--apply", "--json", "--upstream", server.url)
    assert done.stderr.startswith(line)
    assert json.loads(done.stdout)["worst"] == "info"


def test_wrong_flags_are_2() -> None:
    for flags, said in (
        (("--sample", "0"), "--sample: must be a whole number of at least 1"),
        (("--nosuch", "x"), "--nosuch: unknown flag"),
    ):
        done = _doctor(*flags)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr


def test_help_tells_the_exit_codes() -> None:
    done = _doctor("--help")
    assert done.returncode == 0
    for word in ("--json", "--sample N", "--apply", "Exit codes: 0 "):
        assert word in done.stdout


def test_a_terminal_has_colours_unless_it_wants_none() -> None:
    for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        terminal, its_side = pty.openpty()
        flags = ("--upstream", f"redis://127.0.0.1:{free_port()}")
        inherited = {name: word for name, word in os.environ.items() if name != "NO_COLOR"}
        subprocess.run(
            [*COMMAND, *flags],
            cwd=ROOT,
            env=inherited | environment,
            stdout=its_side,
            check=False,
            timeout=60,
        )
        os.close(its_side)
        said = os.read(terminal, 65536)
        os.close(terminal)
        assert (b"\033[31;1merror" in said) is coloured
