"""The pages agree with tables, settings and figures; `python -m tests.docs.generated` writes
them."""

from __future__ import annotations

import pytest

from tests.docs.generated import PAGES, SECTIONS, generated, pattern
from ttlproxy.commands.router import LONGER, VIRTUALS

_TEXTS = {page.name: page.read_text("utf-8") for page in PAGES}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_page_says_what_the_tables_say(name: str) -> None:
    (found,) = (match[0] for text in _TEXTS.values() for match in pattern(name).finditer(text))
    assert found == generated(name), "python -m tests.docs.generated writes it anew"


def test_every_command_is_on_a_page() -> None:
    everything = "\n".join(map(generated, SECTIONS))
    assert [name for name in {**VIRTUALS, **LONGER} if f"`{name}`" not in everything] == []


def test_the_readme_is_short() -> None:
    assert len(_TEXTS["README.md"].splitlines()) <= 250
