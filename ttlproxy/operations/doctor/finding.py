"""Findings of the doctor: as text for people, as JSON for programs, and as an exit code. Knows no
Redis."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from textwrap import wrap

from ttlproxy import __version__


class Severity(IntEnum):
    """ok: as it should be; info: worth knowing; warning: a promise is broken, or soon will be;
    error: ttlproxy does not work."""

    OK = 0
    INFO = 1
    WARNING = 2
    ERROR = 3

    def __str__(self) -> str:
        return self.name.lower()


OK, INFO, WARNING, ERROR = Severity
EXIT_CODES = {OK: 0, INFO: 0, WARNING: 3, ERROR: 4}
_COLOURS = {OK: "32", INFO: "36", WARNING: "33", ERROR: "31;1"}
_MARGIN = 25


@dataclass(frozen=True, slots=True)
class Finding:
    """what: the fact; why: why it matters
    fix: the command that repairs it, for redis-cli or, if it begins with `ttlproxy`, for a shell;
    or what else to do
    keys: some of the keys that are affected
    nameless: the fact for readers who may see no names of keys, if `what` has some
    check: the name of the check, if it is not the one that found it
    """

    severity: Severity
    what: str
    why: str = ""
    fix: str = ""
    keys: tuple[bytes, ...] = ()
    nameless: str = ""
    check: str = ""


ok = partial(Finding, OK)
info = partial(Finding, INFO)
warning = partial(Finding, WARNING)
error = partial(Finding, ERROR)


def worst(findings: Sequence[Finding]) -> Severity:
    """Returns the highest severity."""
    return max((finding.severity for finding in findings), default=OK)


def exit_code(findings: Sequence[Finding]) -> int:
    """Returns 0 if nothing is above info, 3 for warnings, 4 for errors."""
    return EXIT_CODES[worst(findings)]


def as_json(upstream: str, findings: Sequence[Finding]) -> str:
    """Returns one object. New versions may add members, but never remove or redefine one."""
    report = {
        "ttlproxy": __version__,
        "upstream": upstream,
        "worst": str(worst(findings)),
        "findings": [
            {
                "check": finding.check,
                "severity": str(finding.severity),
                "what": finding.what,
                "why": finding.why,
                "fix": finding.fix,
                "keys": [key.decode(errors="backslashreplace") for key in finding.keys],
            }
            for finding in findings
        ],
    }
    return json.dumps(report, indent=2)


def as_text(upstream: str, findings: Sequence[Finding], width: int, coloured: bool) -> str:
    """Returns a paragraph for each finding, and the number of findings by severity."""
    lines = [f"ttlproxy {__version__} checks {upstream}", ""]
    for finding in findings:
        lines += _paragraph(finding, width, coloured)
    counts = Counter(finding.severity for finding in findings)
    summary = [f"{counts[severity]} {severity}" for severity in sorted(counts, reverse=True)]
    return "\n".join([*lines, "", ", ".join(summary)])


def _paragraph(finding: Finding, width: int, coloured: bool) -> Iterator[str]:
    word = f"{finding.severity!s:<9}"
    if coloured:
        word = f"\033[{_COLOURS[finding.severity]}m{word}\033[0m"
    margin, room = " " * _MARGIN, max(20, width - _MARGIN)
    first, *rest = _wrapped(finding.what, room)
    yield f"{word} {finding.check:<14} {first}"
    shown = ", ".join(key.decode(errors="backslashreplace") for key in finding.keys)
    if shown:
        rest += _wrapped(f"for example {shown}", room)
    rest += _wrapped(finding.why, room)
    for line in rest:
        yield margin + line
    if finding.fix:
        yield f"{margin}fix: {finding.fix}"  # in one line, to be copied


def _wrapped(text: str, room: int) -> list[str]:
    return wrap(text, room, break_long_words=False, break_on_hyphens=False)
