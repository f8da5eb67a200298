"""The parts of pages that are generated from tables and settings, the man pages, and the manifest
with the alerts; `python -m tests.docs.generated` writes them.

A part is between two comments that name it. Each part is on one page, once.
"""

from __future__ import annotations

import re
import runpy
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.docs import quoted_figures, scale_figures
from tests.docs.man_pages import man_pages
from ttlproxy.admin.routes import ROUTES
from ttlproxy.cli.completion import completion_of
from ttlproxy.cli.flags import USUAL, flag, groups, metavar
from ttlproxy.commands.features import leaderboards
from ttlproxy.commands.router import LONGER, VIRTUALS
from ttlproxy.commands.spec import Virtual
from ttlproxy.config import SETTINGS
from ttlproxy.operations.doctor.required_rights import FIELD_TTLS, SINCE, all_scripted, rules
from ttlproxy.process.reload import AT_ONCE
from ttlproxy.telemetry.metric_spec import BY_NODE, BY_SCRIPT, BY_WORKER
from ttlproxy.telemetry.metrics_catalogue import METRICS

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PROMETHEUS: Final = ROOT / "deploy" / "prometheus"
MAN: Final = ROOT / "man"
COMPLETIONS: Final = ROOT / "completions"
# The file of each shell, as its shell looks for it.
_COMPLETED: Final = {"bash": "ttlproxy", "zsh": "_ttlproxy", "fish": "ttlproxy.fish"}
_RULE: Final = """\
# alerts.yaml for the Prometheus Operator: python -m tests.docs.generated writes it.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: ttlproxy
spec:
"""
EXAMPLES: Final = ROOT / "examples"
# (folder, language of its blocks, how the reader knows it)
LANGUAGES: Final = (
    ("python", "python", "Python"),
    ("node", "js", "Node (ioredis)"),
    ("go", "go", "Go (go-redis)"),
    ("java", "java", "Java (Jedis)"),
    ("django", "python", "Django"),
    ("flask", "python", "Flask"),
)
_SECTION: Final = "<!-- {0}: generated -->\n{1}\n<!-- end of {0} -->"
# The names of a type's nine commands: a letter, one of these, and a noun.
_OPERATIONS: Final = (
    *("EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"),
    *("TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "PERSIST"),
)
_OURS: Final = {
    "hash fields": ("H", "FIELD"),
    "set members": ("S", "MEMBER"),
    "sorted-set members": ("Z", "MEMBER"),
    "list elements": ("L", "ELEMENT"),
}
_THEIRS: Final = {
    "Redis 8, Valkey 9: hash fields": ("H", ""),
    "Garnet: sorted-set members": ("Z", ""),
}
# What stands in labels that have no list of values.
_OPEN: Final = {
    BY_NODE: "the server's `host:port`",
    BY_SCRIPT: "its name, once it was called",
    BY_WORKER: "its number, from 1 on",
}
# The words for an element of each type.
_NOUN: Final = re.compile(
    r"\b(hash |set |sorted-set |list )?(num)?(field|member|element)(s?)\b", re.I
)


def _named(prefix: str, noun: str) -> list[Virtual]:
    return [VIRTUALS[f"{prefix}{operation}{noun}"] for operation in _OPERATIONS]


def _deadlines(columns: Mapping[str, tuple[str, str]]) -> str:
    """A row for each of the nine, with its name for each type."""
    families = [_named(*words) for words in columns.values()]
    rows = []
    for kin in zip(*families, strict=True):
        (summary,) = {_of_elements(virtual.summary) for virtual in kin}
        rows.append([summary, *(f"`{virtual.name}`" for virtual in kin)])
    names = quoted_figures.table(("what it does", *columns), rows)
    arguments = []
    for virtuals in _alike(families):
        assert len({tuple(map(_of_elements, virtual.forms)) for virtual in virtuals}) == 1
        assert len({_of_elements(virtual.reply) for virtual in virtuals}) == 1
        first = [virtual for virtual in virtuals if virtual in families[0]]
        called = ", ".join(f"`{virtual.name}`" for virtual in first)
        cells = (f"`{_cell(form)}`" for form in first[0].forms)
        arguments.append([called, *cells, first[0].reply])
    forms = ("short form", "long form") if len(arguments[0]) > 3 else ("arguments",)
    words = [family[0].forms[-1].split()[-5:-3] for family in families]
    others = list(dict.fromkeys(f"`{' '.join(each)}`" for each in words))
    note = (
        f"Shown for hash fields; the others have {' or '.join(others[1:])} instead of {others[0]}."
    )
    return "\n\n".join([names, quoted_figures.table(("command", *forms, "reply"), arguments), note])


def _alike(families: Sequence[Sequence[Virtual]]) -> list[list[Virtual]]:
    """Commands with the same arguments and replies, of all families."""
    groups: dict[tuple[tuple[str, ...], str], list[Virtual]] = {}
    for kin in zip(*families, strict=True):
        groups.setdefault((kin[0].forms, kin[0].reply), []).extend(kin)
    return list(groups.values())


def _of_elements(text: str) -> str:
    """The same text for every type."""

    def one(match: re.Match[str]) -> str:
        noun = f"{match[2] or ''}element{match[4]}"
        return noun.upper() if match[3].isupper() else noun

    return _NOUN.sub(one, text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _table(rows: Sequence[Virtual]) -> str:
    forms = [f"{virtual.name} {form}" for virtual in rows for form in virtual.forms]
    table = [(f"`{virtual.name}`", virtual.summary, virtual.reply) for virtual in rows]
    listed = quoted_figures.table(("command", "what it does", "reply"), table)
    return "\n".join(["```", *forms, "```", "", listed])


def _of(*names: str) -> Callable[[], str]:
    return partial(_table, [VIRTUALS[name] for name in names])


def _dialect(server: str) -> str:
    family = {virtual.name for words in _THEIRS.values() for virtual in _named(*words)}
    both = (*VIRTUALS.values(), *LONGER.values())
    rows = [each for each in both if each.dialect == server and each.name not in family]
    return _table(rows)


def _settings() -> str:
    """A table for each group, as in --help."""
    others = groups(name for name in SETTINGS if name not in USUAL)
    return "\n\n".join(_group(*each) for each in (("the usual settings", USUAL), *others))


def _group(title: str, names: Iterable[str]) -> str:
    rows = []
    for name in names:
        setting = SETTINGS[name]
        default = f"`{setting.default}`" if setting.has_fixed_default else ""
        what = f"`{flag(name)} {_cell(metavar(name, setting))}`"
        rows.append((what, _cell(setting.description), default))
    table = quoted_figures.table(("flag", "what it is", "default"), rows)
    return f"## {title[0].upper()}{title[1:]}\n\n{table}"


def _at_once() -> str:
    return ", ".join(f"`{flag(name)}`" for name in AT_ONCE)


def script_commands() -> list[str]:
    """All commands that scripts call."""
    return sorted(name.decode() for name in all_scripted())


def _script_commands() -> str:
    return " ".join(f"`{name}`" for name in script_commands())


def _pages() -> str:
    rows = [(f"`{route.method} {route.path}`", route.tells) for route in ROUTES]
    return quoted_figures.table(("page", "what it shows"), rows)


def _metrics() -> str:
    rows = []
    for metric in METRICS:
        known = metric.values or [_OPEN[metric.label]] if metric.label else ()
        values = f"`{metric.label}`: {', '.join(known)}" if metric.label else ""
        which = "" if metric.of_many == "sum" else f"; of several workers the {metric.of_many}"
        rows.append((f"`{metric.name}`", metric.kind, values, metric.meaning + which))
    return quoted_figures.table(("metric", "type", "labels", "what it is"), rows)


def _rights() -> str:
    line = f"```\nACL SETUSER ttlproxy on >PASSWORD {' '.join(rules())}\n```"
    later = [
        f"from {'.'.join(map(str, version))} on also "
        + " ".join(f"`{rule}`" for rule in rules((98,)) if SINCE.get(rule) == version)
        for version in sorted({SINCE[rule] for rule in rules((98,)) if rule in SINCE})
    ]
    valkey = " ".join(f"`{rule}`" for rule in rules((98,)) if rule in FIELD_TTLS)
    more = sorted({*rules(clustered=True)} - {*rules()})
    cluster = " ".join(f"`{rule}`" for rule in more)
    return (
        f"{line}\n\n{'; '.join(later).capitalize()}; with Valkey 9 {valkey} as well."
        f" With a Cluster also {cluster}."
    )


def programs(recipe: str) -> dict[str, Path]:
    """The program of a recipe in each language that has it, by the language's folder."""
    files = [
        file for file in EXAMPLES.glob("*/*.*") if _recipe_of(file) == _recipe_of(Path(recipe))
    ]
    named = {file.parent.name: file for file in files}
    return {folder: named[folder] for folder, _, _ in LANGUAGES if folder in named}


def _recipe_of(file: Path) -> str:
    """`unpaidorders` of UnpaidOrders.java and of unpaid_orders.go."""
    return file.stem.replace("_", "").lower()


def _recipe(recipe: str) -> str:
    """The whole programs, all but Python's folded. tests/docs/test_recipe_programs.py runs them;
    tests/docs/test_examples.py leaves out blocks with a title."""
    found = programs(recipe)
    parts = []
    for folder, block, language in LANGUAGES:
        if folder in found:
            title = found[folder].relative_to(ROOT)
            text = f'```{block} title="{title}"\n{found[folder].read_text("utf-8")}```'
            details = "<details markdown open>" if folder == "python" else "<details markdown>"
            parts.append(f"{details}<summary>{language}</summary>\n\n{text}\n\n</details>")
    return "\n\n".join(parts)


RECIPES: Final = sorted(file.stem for file in EXAMPLES.glob("python/*.py"))
SECTIONS: Final[Mapping[str, Callable[[], str]]] = {
    "deadlines": partial(_deadlines, _OURS),
    "writing with a deadline": _of("HSETEX", "SADDEX", "ZADDEX", "LPUSHEX", "RPUSHEX"),
    "looking at deadlines": _of("DUE", "TTLPROXY"),
    "expiry rules": _of("ONEXPIRE", "TAKE"),
    "write rules": _of("ONWRITE"),
    "queues": _of("LEASE", "UNLEASE", "RENEW", "DEFER", "UNDEFER", "DEFERRED"),
    "leaderboards": partial(_table, leaderboards.VIRTUALS),
    "limiters": _of("CL.THROTTLE", "INCREX"),
    "deadlines of other servers": partial(_deadlines, _THEIRS),
    **{
        f"{server}'s commands": partial(_dialect, server)
        for server in ("Redis 8", "KeyDB", "Dragonfly")
    },
    "settings": _settings,
    "settings that change at once": _at_once,
    "script commands": _script_commands,
    "the proxy's rights": _rights,
    "pages": _pages,
    "metrics": _metrics,
    **{f"programs of {recipe}": partial(_recipe, recipe) for recipe in RECIPES},
    **quoted_figures.SECTIONS,
    **scale_figures.SECTIONS,
}


def generated(name: str) -> str:
    """The part as it must be on its page, comments included."""
    return _SECTION.format(name, SECTIONS[name]())


def pattern(name: str) -> re.Pattern[str]:
    """Finds the part on a page, whatever its content."""
    start, end = (re.escape(part) for part in _SECTION.format(name, "\0").split("\0"))
    return re.compile(start.removesuffix("\\\n") + ".*?" + end.removeprefix("\\\n"), re.DOTALL)


def completions() -> dict[str, str]:
    """The text of each shell's completion, by the name of its file."""
    return {file: f"{completion_of(shell)}\n" for shell, file in _COMPLETED.items()}


def alerts() -> str:
    """Those in alerts.yaml; where their runbooks are follows from the repository's address."""
    runbooks = f"{runpy.run_path(str(ROOT / 'setup.py'))['ADDRESS']}/blob/main/docs/runbooks.md"
    written = (PROMETHEUS / "alerts.yaml").read_text("utf-8")
    return re.sub("(?<=runbook_url: )[^#]*", runbooks, written)


def prometheus_rule() -> str:
    """A PrometheusRule with the alerts."""
    text = alerts()
    return _RULE + textwrap.indent(text[text.index("groups:") :], "  ")


if __name__ == "__main__":
    (PROMETHEUS / "alerts.yaml").write_text(alerts(), "utf-8")
    (PROMETHEUS / "prometheus-rule.yaml").write_text(prometheus_rule(), "utf-8")
    for folder, files in ((MAN, man_pages()), (COMPLETIONS, completions())):
        for name, text in files.items():
            (folder / name).write_text(text, "utf-8")
    for page in PAGES:
        text = page.read_text("utf-8")
        for each in SECTIONS:
            text = pattern(each).sub(generated(each).replace("\\", r"\\"), text)
        page.write_text(text, "utf-8")
