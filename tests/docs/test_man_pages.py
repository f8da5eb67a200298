"""The man pages and completions are those of the tables, and man shows them without a complaint."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.docs.generated import COMPLETIONS, MAN, completions
from tests.docs.man_pages import man_pages
from tests.support.requirements import absent

PAGES = man_pages()


def test_the_man_pages_say_what_the_tables_say() -> None:
    written = {path.name: path.read_text("utf-8") for path in MAN.iterdir()}
    assert written == PAGES, "python -m tests.docs.generated writes them anew"


def test_the_completions_say_what_the_tables_say() -> None:
    written = {path.name: path.read_text("utf-8") for path in COMPLETIONS.iterdir()}
    assert written == completions(), "python -m tests.docs.generated writes them anew"


@pytest.mark.parametrize("name", PAGES)
def test_man_shows_a_page_without_a_complaint(name: str) -> None:
    """What begins with a dot by chance, for example, would be lost."""
    groff = shutil.which("groff")
    if groff is None:
        absent("groff", "groff is not here")
    done = subprocess.run(
        (groff, "-man", "-ww", "-Tascii", "-P-bcou", MAN / name),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    for words in ("NAME", "SYNOPSIS", "--config FILE", "EXIT STATUS"):
        assert words in done.stdout
