"""The rights of the proxy's own user: exactly those that the sources need."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ttlproxy
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.servers import release
from ttlproxy.core.keys import Keys
from ttlproxy.operations.doctor.required_rights import (
    CONTAINERS,
    OPTIONS,
    SCRIPTS,
    SINCE,
    all_scripted,
    asked,
    rules,
)
from ttlproxy.scripts import Scripts

HOME = Path(ttlproxy.__file__).parent
TABLE = HOME / "operations/doctor/required_rights.py"
# The modules that speak to Redis as the proxy's own user; the doctor's table itself does not, and
# Sentinels have users of their own.
SPEAKERS = [
    *sorted(set((HOME / "link").rglob("*.py")) - {HOME / "link/connecting/sentinels.py"}),
    *sorted((HOME / "admin").glob("*.py")),
    *sorted(set((HOME / "operations/doctor").glob("*.py")) - {TABLE}),
    HOME / "operations/purge.py",
]
# Words in capitals that need no right.
NO_COMMANDS = {"BCAST", "PREFIX", "AUTH", "HELLO", "MULTI", "DISCARD", "PUBLISH", "SPUBLISH"}
# The commands of redis-py's methods, and those that it sends when it connects.
METHODS = {"info": "INFO", "config_get": "CONFIG|GET"}
BY_CONNECTING = {"CLIENT|SETNAME", "CLIENT|SETINFO"}


def _word(node: ast.AST) -> str:
    """The word of a request, if it is a constant; else an empty string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bytes):
        word = node.value.decode("latin-1")
        return word if re.fullmatch("[A-Z][A-Z-]{2,}", word) else ""
    return ""


def _named(words: list[ast.expr]) -> str:
    """The command at the beginning of these words."""
    first = _word(words[0]) if words else ""
    if first.encode() in CONTAINERS and len(words) > 1:
        return f"{first}|{_word(words[1])}"
    return first


def _requests(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple):
            yield _named(node.elts)
        elif isinstance(node, ast.Call):
            yield _named([each for each in node.args if _word(each)])
            function = node.func
            if isinstance(function, ast.Attribute) and "redis" in ast.unparse(function.value):
                yield METHODS.get(function.attr, "")


def _written() -> set[str]:
    """The commands in the sources."""
    found = {name for path in SPEAKERS for name in _requests(ast.parse(path.read_text("utf-8")))}
    return (found | BY_CONNECTING) - NO_COMMANDS - {""}


def test_the_table_has_what_the_sources_ask_and_no_more() -> None:
    table = {right.rule[1:].upper() for right in asked(Keys(clustered=True))} - NO_COMMANDS
    assert table == _written()


def test_the_table_has_the_scripts_that_are_called_and_no_more() -> None:
    names = "|".join(Scripts(b""))
    texts = [path.read_text("utf-8") for path in SPEAKERS]
    called = {name for text in texts for name in re.findall(rf'"({names})"', text)}
    assert called == set(SCRIPTS)


def test_each_word_of_a_script_is_a_command_or_an_option(server: AnyServer, direct: Client) -> None:
    """So no command is missed whose name a script builds."""
    words = [*all_scripted(), *OPTIONS]
    version = release(server.name) if hasattr(server, "name") else (9,)
    for word, row in zip(words, direct.ask("COMMAND", "INFO", *words), strict=True):
        since = SINCE.get(f"+{word.decode().lower()}", (0,))
        if word in OPTIONS or since <= version:
            assert bool(row) == (word not in OPTIONS), word


@pytest.mark.parametrize("word", ["lpush", "hmget", "unlink", "zmscore", "blmove", "xadd"])
def test_what_is_called_by_a_name_that_is_put_together_is_in_the_line(word: str) -> None:
    assert f"+{word}" in rules()
