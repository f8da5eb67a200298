"""How far long work is: one line of a terminal, or a line now and then."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import logging
import re
import sys

import pytest

from ttlproxy.net import progress as module
from ttlproxy.net.progress import Progress
from ttlproxy.net.tasks import cancel
from ttlproxy.telemetry import logs

CLEAR = "\r\x1b[K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class World:
    """Work that goes on: each step takes so many seconds."""

    def __init__(self, out: io.StringIO) -> None:
        self.said: list[str] = []
        self.out = out
        self._now_s = 100.0
        self.progress = Progress(self.said.append, out, lambda: self._now_s)

    def steps(self, *seconds: float) -> None:
        for number, each_s in enumerate(seconds, 1):
            self._now_s += each_s
            self.progress.at(lambda: f"step {number}")  # noqa: B023


def test_a_terminal_has_one_line_which_gives_way_to_results() -> None:
    world = World(Terminal())
    world.steps(0.05, 0.06, 0.01, 0.2)
    assert world.out.getvalue() == f"{CLEAR}step 2{CLEAR}step 4"
    world.progress.say("done")
    world.progress.clear()
    assert world.out.getvalue() == f"{CLEAR}step 2{CLEAR}step 4{CLEAR}"
    assert world.said == ["done"]


def test_elsewhere_there_is_a_line_every_few_seconds() -> None:
    world = World(io.StringIO())
    world.steps(1, 3, 1, 4, 2)
    world.progress.say("done")
    assert world.out.getvalue() == "step 3\nstep 5\n"


@pytest.mark.usefixtures("own_log")
def test_a_proxy_has_lines_of_its_log_unless_it_writes_to_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_NOTED_S", 0.0)
    monkeypatch.setattr(module, "_TERMINAL_S", 0.0)

    def written(out: io.StringIO, level: str, form: str, *, may_replace: bool) -> str:
        monkeypatch.setattr(sys, "stderr", out)
        logs.set_up(level, form)
        progress = Progress.logged(logging.getLogger("ttlproxy"), may_replace=may_replace)
        progress.at(lambda: "half of it")
        logging.getLogger("ttlproxy").warning("all of it")
        return out.getvalue()

    time = r"[0-9T:.Z-]{24}"
    before, half, after = written(Terminal(), "info", "text", may_replace=True).split(CLEAR)
    assert (before, half) == ("", "half of it")
    assert re.fullmatch(rf"{time} WARNING all of it\n", after)
    both = rf"{time} INFO half of it\n{time} WARNING all of it\n"
    assert re.fullmatch(both, written(io.StringIO(), "info", "text", may_replace=True))
    on_terminal = written(Terminal(), "info", "text", may_replace=False)
    assert re.fullmatch(both, on_terminal.replace(CLEAR, ""))
    assert "half of it" not in written(Terminal(), "warning", "text", may_replace=True)
    first, second = written(Terminal(), "info", "json", may_replace=False).splitlines()
    assert json.loads(first)["message"] == "half of it"
    assert json.loads(second)["message"] == "all of it"


async def test_work_that_does_not_tell_by_itself_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.0)
    out, steps, looked = Terminal(), itertools.count(), asyncio.Event()

    def how_far() -> str:
        looked.set()
        return "on and on"

    progress = Progress(print, out, lambda: float(next(steps)))
    telling = asyncio.create_task(progress.keep_telling(how_far))
    await looked.wait()
    await cancel(telling)
    assert out.getvalue().endswith(f"{CLEAR}on and on{CLEAR}")


def test_short_work_tells_nothing_but_its_result(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(print)
    progress.at(lambda: "hardly begun")
    progress.say("done")
    assert capsys.readouterr() == ("done\n", "")
