"""What `make test` and CI choose to run, and what they say of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.require import servers_here

ROOT = Path(__file__).parents[1]
ON_A_SERVER = "tests/test_histogram.py", "tests/test_maxlen.py"


def _pytest(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=ROOT,
        env={**os.environ, "TTLPROXY_REQUIRE": "", **env},
        capture_output=True,
        text=True,
        check=False,
    )


def _servers(*words: str, **env: str) -> set[str]:
    """Those that tests would run on."""
    chosen = _pytest("--collect-only", *ON_A_SERVER, *words, **env)
    assert chosen.returncode == 0, chosen.stdout
    return set(re.findall(r"\[redis-((?:valkey-)?[\d.]+)", chosen.stdout))


def test_tests_are_chosen_for_the_servers_that_are_here() -> None:
    assert _servers() == set(servers_here())


def test_a_quick_run_is_on_the_newest_server_alone() -> None:
    assert _servers("--quick") == set(servers_here()[-1:])


def test_tests_are_chosen_for_the_servers_that_are_required() -> None:
    first = servers_here()[:1]
    assert _servers(TTLPROXY_REQUIRE=",".join(first)) == set(first)


def test_without_redis_none_of_the_tests_needs_a_server() -> None:
    assert _servers("-m", "not redis") == set()


def test_what_is_required_and_absent_is_one_failure() -> None:
    absent = "5.0, valkey-7.2, chromium"
    ended = _pytest(*ON_A_SERVER, TTLPROXY_REQUIRE=absent, PATH=os.devnull)
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert ended.stderr.strip() == f"ERROR: TTLPROXY_REQUIRE has what is not here: {absent}"


def test_progress_is_told_in_lines_where_nothing_can_be_written_over() -> None:
    told = _pytest("--progress", "tests/test_histogram.py").stdout
    found = re.findall(r"^(\d+) of (\d+) tests, 0 failed, \S+ gone, about \S+ left$", told, re.M)
    total = int(found[0][1])
    assert found == [(str(done), str(total)) for done in range(1, total + 1)]
