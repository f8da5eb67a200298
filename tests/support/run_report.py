"""What a run shows on the terminal: the tests that are left, and what could not run here.

Knows pytest's reports; knows no server.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Final

import pytest

from tests.support.requirements import NOT_HERE

_LINES: Final = 20  # of progress, if a line cannot be overwritten


class Progress:
    """One progress line instead of a character for each test; a terminal shows it in place."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal
        self._total = 0
        self._done = 0
        self._failed = 0
        self._started_s = 0.0
        self._is_line_open = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._begin(len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._begin(len(ids))

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> tuple[str, str, str] | None:
        """pytest's own categories, without the character and the word that pytest would print."""
        if report.failed:
            return ("failed" if report.when == "call" else "error"), "", ""
        if report.skipped or report.when == "call":
            return report.outcome, "", ""
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed += 1
            self._close_line()
            self._terminal.write_line(f"FAILED {report.nodeid}", red=True)
        if report.when == "teardown":
            self._done += 1
            self._show()

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self) -> None:
        self._close_line()

    def _begin(self, total: int) -> None:
        if total > self._total:  # each worker of xdist reports its own
            self._total = total
            self._started_s = time.monotonic()

    def _show(self) -> None:
        if self._terminal.isatty:
            self._terminal.rewrite(self._line(), erase=True)
            self._is_line_open = True
        elif self._done == self._total or self._done % max(1, self._total // _LINES) == 0:
            self._terminal.write_line(self._line())

    def _line(self) -> str:
        gone_s = time.monotonic() - self._started_s
        left = self._total - self._done
        left_s = gone_s / self._done * left
        return (
            f"{self._done:,} of {self._total:,} tests, {self._failed} failed, "
            f"{_clock(gone_s)} gone, about {_clock(left_s)} left"
        )

    def _close_line(self) -> None:
        if self._is_line_open:
            self._terminal.line("")
            self._is_line_open = False


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def not_run(terminal: pytest.TerminalReporter, servers: Iterable[str]) -> list[str]:
    """One line for each thing that this machine lacks. servers: the lines for absent servers."""
    reasons: Counter[str] = Counter()
    for report in terminal.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple):
            _, found, reason = report.longrepr[2].partition(NOT_HERE)
            if found:
                reasons[reason] += 1
    return [*servers, *(f"{reason} ({count} tests)" for reason, count in reasons.items())]
