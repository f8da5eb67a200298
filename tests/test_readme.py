"""The README says what tables and settings say; `python -m tests.test_readme` writes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from ttlproxy.admin.routes import ROUTES
from ttlproxy.cli import _flag, _metavar
from ttlproxy.commands import leaderboards
from ttlproxy.commands.rules import LONGER, VIRTUALS
from ttlproxy.commands.spec import Virtual
from ttlproxy.config import Settings
from ttlproxy.doctor.needs import FIELD_TTLS, SINCE, all_scripted, rules
from ttlproxy.figures import FIGURES
from ttlproxy.reload import AT_ONCE

README = Path(__file__).parents[1] / "README.md"
_SECTION = "<!-- {0}: generated -->\n{1}\n<!-- end of {0} -->"


def _commands() -> str:
    lines = []
    ours = [
        virtual
        for virtual in VIRTUALS.values()
        if not virtual.dialect and virtual not in leaderboards.VIRTUALS
    ]
    for group in dict.fromkeys(virtual.group for virtual in ours):
        lines += ["```"]
        for virtual in ours:
            if virtual.group == group:
                lines += [f"{virtual.name} {form}" for form in virtual.forms]
        lines += ["```", "", "| command | what it does | replies |", "|---|---|---|"]
        lines += [
            f"| `{virtual.name}` | {virtual.summary} | {virtual.reply} |"
            for virtual in ours
            if virtual.group == group
        ]
        lines += [""]
    return "\n".join(lines).rstrip()


def _dialect(server: str) -> str:
    both = (*VIRTUALS.values(), *LONGER.values())
    return _table([virtual for virtual in both if virtual.dialect == server])


def _table(rows: Sequence[Virtual]) -> str:
    forms = [f"{virtual.name} {form}" for virtual in rows for form in virtual.forms]
    table = [f"| `{virtual.name}` | {virtual.summary} | {virtual.reply} |" for virtual in rows]
    head = ["| command | what it does | replies |", "|---|---|---|"]
    return "\n".join(["```", *forms, "```", "", *head, *table])


def _settings() -> str:
    lines = ["| flag | what it is | default |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "" if field.default_factory or field.default is None else f"`{field.default}`"
        what = f"{field.description}".replace("|", "\\|")
        metavar = _metavar(name, field).replace("|", "\\|")
        lines.append(f"| `{_flag(name)} {metavar}` | {what} | {default} |")
    return "\n".join(lines)


def _at_once() -> str:
    return ", ".join(f"`{_flag(name)}`" for name in AT_ONCE)


def script_commands() -> list[str]:
    """All that scripts call."""
    return sorted(name.decode() for name in all_scripted())


def _script_commands() -> str:
    return " ".join(f"`{name}`" for name in script_commands())


def _pages() -> str:
    rows = [f"| `{route.method} {route.path}` | {route.tells} |" for route in ROUTES]
    return "\n".join(["| page | what it tells |", "|---|---|", *rows])


def _figures() -> str:
    rows = []
    for figure in FIGURES:
        values = f"`{figure.label}`: {', '.join(figure.values)}" if figure.label else ""
        which = "" if figure.of_many == "sum" else f"; of several workers the {figure.of_many}"
        meaning = figure.meaning + which
        rows.append(f"| `{figure.name}` | {figure.kind} | {values} | {meaning} |")
    return "\n".join(["| metric | type | labels | what it is |", "|---|---|---|---|", *rows])


def _rights() -> str:
    line = f"```\nACL SETUSER ttlproxy on >PASSWORD {' '.join(rules())}\n```"
    later = [
        f"from {'.'.join(map(str, version))} on also "
        + " ".join(f"`{rule}`" for rule in rules((99,)) if SINCE.get(rule) == version)
        for version in sorted(set(SINCE.values()))
    ]
    valkey = " ".join(f"`{rule}`" for rule in rules((99,)) if rule in FIELD_TTLS)
    return f"{line}\n\n{'; '.join(later).capitalize()}; with Valkey 9 {valkey} as well."


SECTIONS: dict[str, Callable[[], str]] = {
    "commands": _commands,
    "leaderboards": partial(_table, leaderboards.VIRTUALS),
    **{
        f"{server}'s commands": partial(_dialect, server)
        for server in ("Redis 8", "KeyDB", "Dragonfly", "Garnet")
    },
    "settings": _settings,
    "settings that change at once": _at_once,
    "script commands": _script_commands,
    "the proxy's rights": _rights,
    "pages": _pages,
    "metrics": _figures,
}


def _generated(name: str) -> str:
    return _SECTION.format(name, SECTIONS[name]())


def _pattern(name: str) -> re.Pattern[str]:
    start, end = (re.escape(part) for part in _SECTION.format(name, "\0").split("\0"))
    return re.compile(start + ".*?" + end, re.DOTALL)


@pytest.mark.parametrize("name", SECTIONS)
def test_the_readme_says_what_the_tables_say(name: str) -> None:
    found = _pattern(name).search(README.read_text("utf-8"))
    assert found
    assert found[0] == _generated(name), "python -m tests.test_readme writes it anew"


if __name__ == "__main__":
    text = README.read_text("utf-8")
    for each in SECTIONS:
        text = _pattern(each).sub(_generated(each).replace("\\", r"\\"), text)
    README.write_text(text, "utf-8")
