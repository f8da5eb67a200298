"""Ctrl-C ends ttlproxy at any moment, whatever it does: with 130, and without a traceback."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.conftest import StartServer
from tests.support.processes import attempts, free_port, wait_until
from tests.support.redis_client import Client
from tests.support.servers import ROOT, Server
from ttlproxy.errors import INTERRUPTED
from ttlproxy.process.runner import until_interrupted

pytestmark = [pytest.mark.any_server, pytest.mark.slow]

# If ttlproxy's code has not begun yet, the signal itself ends the interpreter: 130 for a shell.
ENDED = (INTERRUPTED, -signal.SIGINT)
# Enough at a time to make the machine busy.
AT_ONCE = 5
STEPS_S = (0.05, 0.2, 0.5)
IN_MAIN = re.compile(r'__main__\.py", line \d+, in main\n')
BEFORE_MAIN = re.compile(r"Traceback|Fatal Python error: init_")
LOST = re.compile(rb'Exception ignored in: .+\nTraceback.+\n +File "<frozen .+\nKeyboardInterrupt')

Started = subprocess.Popen[str]


@pytest.fixture
def server(start_server: StartServer) -> Server:
    """A server with so many keys that the doctor needs some time."""
    server = start_server()
    with closing(Client(server.port)) as direct:
        script = """
            for n = 1, 5000 do
              redis.call('HSET', 'h' .. n, 'a', 1)
              redis.call('ZADD', '__ttl:{h' .. n .. '}', 1, 'a')
              redis.call('ZADD', '__ttl:schedule', 1, 'h' .. n)
            end"""
        direct.ask("EVAL", script, 0)
    return server


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """The processes hear SIGINT also if the tests run in the background of a shell: a process that
    is started there ignores it, and Python leaves that so until `main`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _start(*words: str) -> Started:
    return subprocess.Popen(
        [sys.executable, "-m", "ttlproxy", *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _said(process: Started) -> str:
    """What it has said on stderr when it has ended.

    While the interpreter starts, it may ignore a KeyboardInterrupt that falls into a callback of
    its imports (_get_module_lock of importlib): then it gets another one.
    """
    for _ in attempts(60, "it ends"):
        try:
            return process.communicate(timeout=1)[1]
        except subprocess.TimeoutExpired as waiting:
            if LOST.search(waiting.stderr or b""):
                process.send_signal(signal.SIGINT)
    raise AssertionError


def _interrupted(started: list[Started], step_s: float) -> list[tuple[int, str]]:
    """The exit codes and outputs; each process gets the signal a step later than the one before.

    Leaves out processes that the interpreter ended, with its own message, before `main` began: our
    code cannot act earlier.
    """
    for each in started:
        with suppress(ProcessLookupError):
            each.send_signal(signal.SIGINT)
        time.sleep(step_s)  # another moment for each: there is no event to wait for
    said = [_said(each) for each in started]
    ended = zip([each.returncode for each in started], said, strict=True)
    return [
        (code, text) for code, text in ended if not BEFORE_MAIN.search(text) or IN_MAIN.search(text)
    ]


@pytest.mark.parametrize(
    ("words", "done"),
    [
        (["doctor", "--apply"], (0, 3, 4)),
        (["doctor", "--json"], (0, 3, 4)),
        (["purge", "--apply"], (0,)),
        ([], ()),
        (["--workers", "2"], ()),
    ],
    ids=["fixes", "examines", "purges", "serves", "serves with workers"],
)
def test_ctrl_c_ends_it_at_any_moment(server: Server, words: list[str], done: tuple[int]) -> None:
    flags = ["--upstream", server.url, "--listen", "127.0.0.1:0"]
    for step_s in STEPS_S:
        started = [_start(*words, *flags) for _ in range(AT_ONCE)]
        for code, said in _interrupted(started, step_s):
            assert code in (*ENDED, *done), said
            assert "Traceback" not in said
            assert "KeyboardInterrupt" not in said
            if done and code in ENDED:  # a proxy may have logged something by then
                assert said == ""


def test_ctrl_c_ends_a_proxy_that_has_no_redis_and_one_of_its_own(tmp_path: Path) -> None:
    away = ["--upstream", f"redis://127.0.0.1:{free_port()}"]
    for step_s in STEPS_S:
        ours = [["--data-dir", str(tmp_path / str(number))] for number in range(2)]
        started = [_start("--listen", "127.0.0.1:0", *where) for where in (away, *ours, away)]
        for code, said in _interrupted(started, step_s):
            assert code in ENDED, said
            assert "Traceback" not in said
    for lock in tmp_path.glob("*/redis.sock"):
        wait_until(lambda: not lock.exists(), "the server of its own has ended")  # noqa: B023


def test_ctrl_c_ends_a_health_check_that_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        checking = _start("healthcheck", "--admin", f"127.0.0.1:{deaf.getsockname()[1]}")
        with deaf.accept()[0]:
            assert _interrupted([checking], 0) == [(INTERRUPTED, "")]


@pytest.mark.parametrize("words", [["doctor", "--apply"], ["purge", "--apply"]], ids=" ".join)
def test_ctrl_c_ends_what_waits_for_redis(words: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        waiting = _start(*words, "--upstream", f"redis://127.0.0.1:{port}")
        with silent.accept()[0] as asked:
            asked.recv(1000)
            assert _interrupted([waiting], 0) == [(INTERRUPTED, "")]


def test_ctrl_c_ends_a_proxy_that_serves(server: Server) -> None:
    for workers in ("1", "2"):
        words = ("--upstream", server.url, "--listen", "127.0.0.1:0", "--workers", workers)
        serving = _start(*words)
        assert serving.stdout is not None
        assert "listens on" in serving.stdout.readline()
        ((code, said),) = _interrupted([serving], 0)
        assert (code, "Traceback" in said) == (INTERRUPTED, False)


async def test_an_interrupt_that_is_lost_on_the_way_comes_again() -> None:
    """CPython 3.11's wait_for can lose a cancellation just as it ends; redis-py writes with it."""

    async def deaf_once() -> int:
        with suppress(asyncio.CancelledError):
            signal.raise_signal(signal.SIGINT)
            await asyncio.Event().wait()
        await asyncio.Event().wait()
        return 0

    assert await until_interrupted(deaf_once()) == INTERRUPTED


async def test_what_is_not_interrupted_ends_as_it_would() -> None:
    async def three() -> int:
        return 3

    before = signal.getsignal(signal.SIGINT)
    assert await until_interrupted(three()) == 3
    assert signal.getsignal(signal.SIGINT) is before
