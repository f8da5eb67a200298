"""Ordinary use by clients of further languages, with subscriptions and blocking pops.

Each program of tests/support/clients ends with 0 if all replies are right.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.docs.programs import SLOW, build_go, fetch, run, tool
from tests.support.made_once import made_once
from tests.support.npm import CLIENTS
from tests.support.requirements import absent
from tests.support.servers import Proxy

pytestmark = [pytest.mark.any_server, pytest.mark.long]

_EREDIS: Final = "halt(case code:which(eredis) of non_existing -> 1; _ -> 0 end)."
_PHPREDIS: Final = 'exit((int) !(class_exists("Redis") && function_exists("pcntl_fork")));'
# From a program to what runs it, and to a command that fails where its client is not installed.
_INTERPRETED: Final = {
    "redis_rb.rb": ("ruby", ["ruby", "-rredis", "-e", ""]),
    "phpredis.php": ("php", ["php", "-r", _PHPREDIS]),
    "predis.php": ("php", ["php", "-r", 'require "Predis/autoload.php";']),
    "eredis.escript": ("escript", ["erl", "-noshell", "-eval", _EREDIS]),
}


@pytest.mark.parametrize("program", _INTERPRETED)
def test_a_client_of_a_distribution(program: str, proxy: Proxy, tmp_path: Path) -> None:
    interpreter, probe = _INTERPRETED[program]
    tool(interpreter)
    if subprocess.run(probe, cwd=tmp_path, capture_output=True, check=False).returncode:
        absent(program, f"the client of {program} is not installed")
    run([interpreter, str(CLIENTS / program), str(proxy.port)], tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(SLOW)
def test_rueidis_which_caches_what_it_reads(
    proxy: Proxy, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    def make(folder: Path) -> None:
        build_go(folder, CLIENTS / "rueidis.go", module="github.com/redis/rueidis")

    folder = made_once(tmp_path_factory, "rueidis", make)
    run([str(folder / "rueidis"), str(proxy.port)], tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(SLOW)
def test_redis_rs(proxy: Proxy, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    cargo = tool("cargo")
    tool("cc")  # which links what it builds

    def make(folder: Path) -> None:
        run([cargo, "init", "--quiet", "--vcs", "none", "--name", "redis_rs"], folder)
        options = ("--no-default-features", "--features", "script")
        fetch("redis-rs", [cargo, "add", "--quiet", "redis", *options], folder)
        fetch("redis-rs", [cargo, "fetch", "--quiet"], folder)
        shutil.copy(CLIENTS / "redis_rs.rs", folder / "src" / "main.rs")
        run([cargo, "build", "--quiet"], folder)

    folder = made_once(tmp_path_factory, "redis-rs", make)
    run([str(folder / "target" / "debug" / "redis_rs"), str(proxy.port)], tmp_path)
