"""The shell output in docs/ is what ttlproxy prints; `...` is what the page leaves out."""

from __future__ import annotations

import doctest
import re
import shlex
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import StartProxy, StartServer
from tests.docs.generated import PAGES
from tests.support.command_line import ttlproxy
from tests.support.redis_client import Client
from tests.support.redis_content import SCHEDULE

pytestmark = pytest.mark.any_server

_BLOCK: Final = re.compile(r"^```console\n\$ (.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LIKE: Final = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF
# Redis's port on the pages.
_PORT: Final = re.compile(r"\b6379\b")


def _blocks(page: Path) -> list[tuple[str, str]]:
    """(the command, its output) for each block."""
    return _BLOCK.findall(page.read_text("utf-8"))


def _compare(typed: str, shown: str) -> None:
    program, *words = shlex.split(typed)
    assert program == "ttlproxy"
    done = ttlproxy(*words)
    checker, example = doctest.OutputChecker(), doctest.Example(typed, shown)
    if not checker.check_output(shown, done.stdout, _LIKE):
        pytest.fail(checker.output_difference(example, done.stdout + done.stderr, _LIKE))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if _blocks(page)], ids=lambda page: page.name
)
def test_a_shell_shows_what_the_page_shows(
    page: Path, start_server: StartServer, start_proxy: StartProxy
) -> None:
    """The server has a key that is missing from the schedule, and no proxy that puts it back."""
    server = start_server()
    proxy = start_proxy(server.url)
    with closing(Client(proxy.port)) as app:
        app.ask("SADDEX", "cart:42", 1000, "apple")
        app.ask("ONEXPIRE", "cart:*", "RPUSH", "tasks")
    proxy.stop()
    with closing(Client(server.port)) as direct:
        direct.ask("DEL", SCHEDULE)
        for block in _blocks(page):
            _compare(*(_PORT.sub(str(server.port), text) for text in block))
