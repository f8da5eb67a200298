"""How far long work is: one line of a terminal, or a line now and then."""

from __future__ import annotations

import io

import pytest

from ttlproxy.operations.progress import Progress

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


def test_short_work_tells_nothing_but_its_result(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(print)
    progress.at(lambda: "hardly begun")
    progress.say("done")
    assert capsys.readouterr() == ("done\n", "")
