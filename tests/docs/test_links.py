"""What documents, docstrings and comments refer to exists: files, pages, headings."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from tests.support.servers import ROOT
from ttlproxy.commands.router import LONGER, OVERRIDES, VIRTUALS

PAGES: Final = sorted(
    chain(ROOT.glob("*.md"), *(ROOT.glob(f"{folder}/**/*.md") for folder in ("docs", "deploy")))
)
# Where readers start: on GitHub, and on the site.
INDEXES: Final = [page for page in (ROOT / "README.md", ROOT / "docs/index.md") if page in PAGES]
SOURCES: Final = sorted(
    chain.from_iterable(
        ROOT.glob(f"{folder}/**/*.{suffix}")
        for folder in ("ttlproxy", "tests")
        for suffix in ("py", "lua", "mjs")
    )
)
OTHERS: Final = [
    ROOT / name for name in ("pyproject.toml", "setup.py", "Makefile", "Dockerfile", ".ci/run")
]
NAMES: Final = {path.name for path in (*PAGES, *SOURCES, *OTHERS)}
# A file by its name, or by the end of its path, as `lib/index.lua`.
_CITED: Final = re.compile(r"(?<![\w/.{}*-])(?:[\w.-]+/)*[\w-]+\.(?:py|lua|md)\b")
_REDIS: Final = "src/"
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_FENCED: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)


def _said(path: Path) -> Iterator[str]:
    """What a file says to people: of Python its docstrings and comments, else all."""
    text = path.read_text("utf-8")
    if path.suffix != ".py" or not _CITED.search(text):  # to take it apart takes long
        yield text
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def _cited(path: Path) -> Iterator[str]:
    """The files that it names, except for Redis's own sources."""
    found = chain.from_iterable(map(_CITED.findall, _said(path)))
    return (cited for cited in found if not cited.startswith(_REDIS))


def _is_there(cited: str, path: Path) -> bool:
    if "/" not in cited:
        return cited in NAMES
    beside = (ROOT, ROOT / "ttlproxy", ROOT / "ttlproxy/scripts", ROOT / "tests", path.parent)
    return any((folder / cited).is_file() for folder in beside)


def _links(page: Path) -> list[tuple[Path, str]]:
    """(page or other file, anchor) of each link within the repository."""
    targets = _LINK.findall(_FENCED.sub("", page.read_text("utf-8")))
    parts = [target.partition("#") for target in targets if "://" not in target]
    return [((page.parent / name).resolve() if name else page, at) for name, _, at in parts]


def _anchors(page: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    headings = _HEADING.findall(_FENCED.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_every_file_that_is_cited_is_there() -> None:
    missing = {
        str(path.relative_to(ROOT)): absent
        for path in (*PAGES, *SOURCES, *OTHERS)
        if (absent := [cited for cited in _cited(path) if not _is_there(cited, path)])
    }
    assert missing == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in _links(page):
        assert target.exists(), target
        assert not anchor or anchor in _anchors(target), f"{target}#{anchor}"


@pytest.mark.parametrize("index", INDEXES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_of_the_documentation_can_be_found(index: Path) -> None:
    found, left = {index}, [index]
    while left:
        pages = {target for target, _ in _links(left.pop()) if target.suffix == ".md"}
        left += pages - found
        found |= pages
    assert [page for page in PAGES if page not in found and page not in INDEXES] == []


def test_the_semantics_name_every_command_that_is_rewritten() -> None:
    text = (ROOT / "docs/semantics.md").read_text("utf-8")
    nine = ("FIELD", "MEMBER", "ELEMENT")  # the nine commands of each type are named together
    names = {name for name in (*OVERRIDES, *VIRTUALS, *LONGER) if not name.endswith(nine)}
    assert sorted(name for name in names if not re.search(rf"\b{re.escape(name)}\b", text)) == []


@pytest.mark.parametrize("package", ["ttlproxy", "ttlproxy.link"])
def test_the_tables_of_layers_are_the_contracts(package: str) -> None:
    """The page shows packages in the order in which they may import each other."""
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    _, rest = page.split(f"\n| package in `{package.replace('.', '/')}/` |")
    table, *_ = rest.split("\n\n")
    shown = [re.findall(r"`(\w+)`", row) for row in re.findall(r"^\| (`.+?`) \|", table, re.M)]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    (rooms,) = (each for each in contracts["contracts"] if each.get("containers") == [package])
    assert [{*row} for row in shown] == [{*row.split(" | ")} for row in rooms["layers"]]
