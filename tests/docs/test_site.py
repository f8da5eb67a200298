"""The site of the pages builds with all its links, and loads nothing from other sites."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.servers import ROOT

# What a browser loads by itself with a page.
_FETCHED: Final = re.compile(
    r'<(?:script|img|iframe)[^>]*\ssrc="([^"]+)"|<link[^>]*\shref="([^"]+)"'
)
_ELSEWHERE: Final = re.compile(r"https?:|//")


@pytest.mark.timeout(300)
def test_the_site_is_built_and_can_be_searched_and_fetches_nothing(tmp_path: Path) -> None:
    """One test, because building takes seconds; --strict makes a broken link an error."""
    pytest.importorskip("material", reason="no MkDocs with Material here")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"expiry-rules/", "recipes/"} <= _found("ONEXPIRE", tmp_path)
    for page in tmp_path.rglob("*.html"):
        fetched = ("".join(groups) for groups in _FETCHED.findall(page.read_text("utf-8")))
        assert not any(map(_ELSEWHERE.match, fetched)), page
    # GitHub needs a backslash there, the site does not.
    assert "seconds [NX|XX|GT|LT]" in (tmp_path / "commands" / "index.html").read_text("utf-8")


def _found(word: str, site: Path) -> set[str]:
    """The pages that the search finds for a word."""
    docs = json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    return {each["location"].partition("#")[0] for each in docs if word in each["text"]}
