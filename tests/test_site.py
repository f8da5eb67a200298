"""The site of the pages builds, with all its links, and takes nothing from elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.generated import ROOT

pytestmark = pytest.mark.timeout(300)
# Of what a browser fetches by itself when it shows a page.
_FETCHED = re.compile(r'<(?:script|img|iframe)[^>]*\ssrc="([^"]+)"|<link[^>]*\shref="([^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with --strict, so that a link that leads nowhere is an error."""
    pytest.importorskip("material", reason="no MkDocs with Material here")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_is_built_and_can_be_searched(site: Path) -> None:
    assert "HEXPIREFIELD" in (site / "index.html").read_text()
    found = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    pages = {each["location"].partition("#")[0] for each in found if "ONEXPIRE" in each["text"]}
    assert {"expiry-rules/", "recipes/"} <= pages


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        for groups in _FETCHED.findall(page.read_text()):
            assert not re.match(r"https?:|//", "".join(groups)), page


def test_what_a_table_shows_as_code_has_no_backslash(site: Path) -> None:
    assert "seconds [NX|XX|GT|LT]" in (site / "commands" / "index.html").read_text()
