"""The programs in examples/ run as they stand; docs/recipes.md shows them.

What a program prints is behind the lines that print it. A worker runs for ever: it is given tasks,
paused, killed and ended.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import pytest

from tests.docs.generated import RECIPES, programs
from tests.docs.programs import SLOW, build_go, compare, java, run, tool
from tests.support.made_once import made_once
from tests.support.processes import wait_until
from tests.support.redis_client import Client
from tests.support.requirements import absent
from tests.support.servers import Proxy

# Before 7.0 EXPIRE has no NX.
pytestmark = [pytest.mark.long, pytest.mark.any_server("7.0"), pytest.mark.each_server]

_WORKER: Final = "worker"


def _in_python(program: Path, request: pytest.FixtureRequest) -> list[str]:
    return [sys.executable, str(program)]


def _in_framework(program: Path, request: pytest.FixtureRequest) -> list[str]:
    """Its folder has the framework's name."""
    framework = program.parent.name
    if find_spec(framework) is None:
        absent(framework, f"no {framework} here")
    return _in_python(program, request)


def _in_node(program: Path, request: pytest.FixtureRequest) -> list[str]:
    """It finds ioredis in a folder above its own."""
    folder = mkdtemp(dir=request.getfixturevalue("ioredis"))
    return [tool("node"), str(shutil.copy(program, folder))]


def _in_go(program: Path, request: pytest.FixtureRequest) -> list[str]:
    every = sorted(program.parent.glob("*.go"))
    factory = request.getfixturevalue("tmp_path_factory")
    folder = made_once(factory, "go-examples", lambda folder: build_go(folder, *every))
    return [str(folder / program.stem)]


def _in_java(program: Path, request: pytest.FixtureRequest) -> list[str]:
    lib = request.getfixturevalue("java_clients") / "lib"
    return [*java(), "-cp", f"{lib}/*", str(program)]


# From the program to the command that runs it.
_RUNNERS: Final = {
    "python": _in_python,
    "node": _in_node,
    "go": _in_go,
    "java": _in_java,
    "django": _in_framework,
    "flask": _in_framework,
}
_COMPILED: Final = (pytest.mark.slow, pytest.mark.timeout(SLOW))
_SHORT: Final = [
    pytest.param(
        *(path, language),
        id=f"{recipe}-{language}",
        marks=_COMPILED if language in ("go", "java") else (),
    )
    for recipe in RECIPES
    if recipe != _WORKER
    for language, path in programs(recipe).items()
]


def _env(proxy: Proxy) -> dict[str, str]:
    return {**os.environ, "REDIS_URL": f"redis://127.0.0.1:{proxy.port}"}


@pytest.mark.parametrize(("program", "language"), _SHORT)
def test_a_program_prints_what_it_says(
    program: Path, language: str, proxy: Proxy, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    command = _RUNNERS[language](program, request)
    compare(program.read_text("utf-8"), run(command, tmp_path, env=_env(proxy)))
    if language == "python":  # the others send the same
        run(command, tmp_path, env=_env(proxy))  # again, with what it has left in Redis


class _Worker:
    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)

    def says(self, expected: str) -> None:
        """Returns when it has printed this line next."""
        assert self.child.stdout is not None
        assert self.child.stdout.readline().strip() == expected

    def remove(self) -> None:
        assert self.child.stdout is not None
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()


@pytest.fixture
def start_worker(
    language: str, proxy: Proxy, request: pytest.FixtureRequest
) -> Iterator[Callable[[], _Worker]]:
    command = _RUNNERS[language](programs(_WORKER)[language], request)
    with ExitStack() as owned:

        def start() -> _Worker:
            worker = _Worker(command, _env(proxy))
            owned.callback(worker.remove)
            return worker

        yield start


@pytest.mark.slow
@pytest.mark.timeout(SLOW)
@pytest.mark.parametrize("language", programs(_WORKER))
def test_a_worker_loses_no_task_and_no_task_counts_twice(
    start_worker: Callable[[], _Worker], proxy: Proxy
) -> None:
    client = Client(proxy.port)

    def deadline(task: str) -> int:
        reply = client.ask("SPEXPIRETIMEMEMBER", "tasks:busy", task)
        assert isinstance(reply, int)
        return reply

    def leased(task: str) -> None:
        wait_until(lambda: client.ask("SISMEMBER", "tasks:busy", task) == 1, f"lease of {task}")

    def end_lease(task: str) -> None:
        client.ask("SEXPIREMEMBER", "tasks:busy", task, 0)

    slow = start_worker()
    client.ask("LPUSH", "tasks", "mail:1")
    leased("mail:1")
    first = deadline("mail:1")
    wait_until(lambda: deadline("mail:1") > first, "the lease is renewed")

    slow.child.send_signal(signal.SIGSTOP)
    end_lease("mail:1")
    killed = start_worker()
    killed.says("mail:1 is done")
    slow.child.send_signal(signal.SIGCONT)
    slow.says("mail:1 was done")
    assert client.ask("HGETALL", "tasks:results") in ({b"mail:1": b"sent"}, [b"mail:1", b"sent"])

    slow.child.send_signal(signal.SIGTERM)
    assert slow.child.wait() in (0, 128 + signal.SIGTERM)  # the second is Java's
    client.ask("LPUSH", "tasks", "mail:2")
    leased("mail:2")
    killed.remove()
    end_lease("mail:2")
    last = start_worker()
    last.says("mail:2 is done")

    client.ask("LPUSH", "tasks", "bad")
    for _ in range(4):
        last.says("bad failed: no such task")
    wait_until(lambda: client.ask("LRANGE", "tasks:dead", 0, -1) == [b"bad"], "dead letters")
    assert client.ask("EXISTS", "tasks", "tasks:busy") == 0
    client.close()
