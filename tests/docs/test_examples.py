"""README and docs/ do what they say: each block is typed into redis-cli or run as a program."""

from __future__ import annotations

import doctest
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import pytest

from tests.docs.generated import PAGES
from tests.docs.programs import SLOW, run, run_go, run_java, run_node
from tests.support.requirements import absent
from tests.support.servers import Proxy

pytestmark = pytest.mark.long

_SECTION: Final = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# redis-cli prints how long a command took if it was half a second or more.
_TOOK: Final = re.compile(r"^\(\d+\.\d\ds\)\n", re.MULTILINE)
# The port for clients on the pages.
_PORT: Final = re.compile(r"\b6380\b")
_LIKE: Final = doctest.ELLIPSIS | doctest.REPORT_NDIFF


def _sections() -> list[tuple[str, str, str]]:
    """(page and heading, language, all blocks in that language) for each section of a page."""
    found: dict[tuple[str, str], str] = {}
    for page in PAGES:
        parts = ["", *_SECTION.split(page.read_text())]
        for heading, text in zip(parts[::2], parts[1::2], strict=True):
            for language, block in _BLOCK.findall(text):
                key = (f"{page.stem} {heading}", language)
                found[key] = found.get(key, "") + block
    return [(place, language, blocks) for (place, language), blocks in found.items()]


def _lines(session: str) -> list[tuple[str, str]]:
    """(the line that is typed, the output) for each line."""
    parts = session.removeprefix("> ").split("\n> ")
    return [(typed, reply) for typed, _, reply in (part.partition("\n") for part in parts)]


def _type_into_redis_cli(session: str, proxy: Proxy, folder: Path) -> None:
    binary = shutil.which("redis-cli")
    if binary is None:
        absent("redis-cli", "no redis-cli here")
    typed = "".join(f"{line}\n" for line, _ in _lines(session))
    expected = "".join(f"{reply.rstrip()}\n" for _, reply in _lines(session))
    printed = run([binary, "--no-raw", "-p", str(proxy.port)], folder, typed)
    _compare(typed, expected, _TOOK.sub("", printed))


def _compare(typed: str, expected: str, printed: str) -> None:
    checker = doctest.OutputChecker()
    if not checker.check_output(expected, printed, _LIKE):
        pytest.fail(checker.output_difference(doctest.Example(typed, expected), printed, _LIKE))


def _run_python(session: str, proxy: Proxy, folder: Path) -> None:
    examples = doctest.DocTestParser().get_doctest(session, {}, "docs", None, 0)
    said: list[str] = []
    failed, tried = doctest.DocTestRunner(optionflags=_LIKE).run(examples, out=said.append)
    assert tried
    assert not failed, "".join(said)


def _in_node(session: str, proxy: Proxy, folder: Path) -> None:
    run_node(session, folder)


def _in_go(session: str, proxy: Proxy, folder: Path) -> None:
    run_go(session, folder)


def _in_java(session: str, proxy: Proxy, folder: Path) -> None:
    run_java(session, folder)


# `console` is for tests/docs/test_shell_blocks.py; a diagram does nothing.
_RUNNERS: Final[dict[str, Callable[[str, Proxy, Path], None]]] = {
    "redis": _type_into_redis_cli,
    "python": _run_python,
    "js": _in_node,
    "go": _in_go,
    "java": _in_java,
}
# The fixture with the clients for a language.
_CLIENTS: Final = {"js": "ioredis", "java": "java_clients"}
_COMPILED: Final = (pytest.mark.any_server, pytest.mark.slow, pytest.mark.timeout(SLOW))


@pytest.mark.parametrize(
    ("language", "session"),
    [
        pytest.param(
            *(language, session),
            id=f"{place}-{language}".replace(" ", "-"),
            marks=_COMPILED if language in ("go", "java") else (),
        )
        for place, language, session in _sections()
        if language not in ("console", "mermaid")
    ],
)
def test_a_page_does_what_it_shows(
    language: str, session: str, proxy: Proxy, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = tmp_path
    if language in _CLIENTS:
        folder = Path(mkdtemp(dir=request.getfixturevalue(_CLIENTS[language])))
    _RUNNERS[language](_PORT.sub(str(proxy.port), session), proxy, folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_heading_of_the_list_is_a_section(page: Path) -> None:
    text = page.read_text()
    listed = re.findall(r"^- \[.+\]\(#(.+)\)$", text, re.MULTILINE)
    headings = [re.sub(r"[^\w -]", "", each).lower() for each in _SECTION.findall(text)]
    if listed:
        assert listed == [heading.replace(" ", "-") for heading in headings]
