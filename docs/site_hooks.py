"""Fits the pages, which are written for a reader of the repository, to the site that MkDocs builds.

Pages of the root folder become pages of the site, README.md its first one. Links between them and
docs/ are turned the right way; what the site does not have, such as a source file, keeps its words
and loses its link. Diagrams need mermaid.js, which `make docs` fetches: without it, they stay text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
MERMAID: Final = ROOT / ".venv" / "site" / "mermaid.min.js"
# Which page of the site is made of which file of the root folder.
FROM_ROOT: Final = {
    "index.md": "README.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
_PLACES: Final = {source: page for page, source in FROM_ROOT.items()}
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_FENCE: Final = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
# In a table GitHub wants `a\|b` where MkDocs wants `a|b`.
_CELL: Final = re.compile(r"`[^`]*`")
_SCRIPT: Final = "assets/mermaid.min.js"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    if MERMAID.exists():
        config.extra_javascript.insert(0, _SCRIPT)
    else:
        config.mdx_configs["pymdownx.superfences"]["custom_fences"] = []
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for page, source in FROM_ROOT.items():
        if (ROOT / source).exists():
            files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    if MERMAID.exists():
        files.append(File.generated(config, _SCRIPT, abs_src_path=str(MERMAID)))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Every second part is a block of code, which is left as it is."""
    parts = _FENCE.split(markdown)
    return "".join(
        part if at % 2 else _LINK.sub(lambda match: _linked(match, page, files), _cells(part))
        for at, part in enumerate(parts)
    )


def _cells(text: str) -> str:
    return "\n".join(
        _CELL.sub(lambda match: match[0].replace(r"\|", "|"), line) if line[:1] == "|" else line
        for line in text.split("\n")
    )


def _linked(match: re.Match[str], page: Page, files: Files) -> str:
    picture, words, target = match.groups()
    path, mark, anchor = target.partition("#")
    if "://" in path or not path:
        return match[0]
    uri = page.file.src_uri
    source = FROM_ROOT.get(uri) or f"docs/{uri}"
    meant = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    place = _PLACES.get(meant) or meant.removeprefix("docs/")
    found = files.get_file_from_path(place) or files.get_file_from_path(f"{place}/README.md")
    if found is None or not (meant.startswith("docs/") or meant in _PLACES):
        # A page that is missing stays a link, so that MkDocs names it.
        return match[0] if meant.startswith("docs/") else words
    there = posixpath.relpath(found.src_uri, posixpath.dirname(uri) or ".")
    return f"{picture}[{words}]({there}{mark}{anchor})"
