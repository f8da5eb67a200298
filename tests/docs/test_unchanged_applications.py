"""Libraries that know nothing of ttlproxy, with the rules that docs/write-rules.md has for them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.conftest import StartProxy

pytestmark = pytest.mark.any_server

PAGE = Path(__file__).parents[2] / "docs" / "write-rules.md"
RULES = re.findall(r"^\|.*\| `(ONWRITE [^`]*)` \|", PAGE.read_text(), re.MULTILINE)
FAILURES = 5  # as in unchanged.mjs
# How the deadlines of a key's elements are read and set, by its type.
TTL = {"hash": "HTTLFIELD", "set": "STTLMEMBER", "zset": "ZTTLMEMBER", "list": "LTTLELEMENT"}
EXPIRE = {
    "hash": "HEXPIREFIELD",
    "set": "SEXPIREMEMBER",
    "zset": "ZEXPIREMEMBER",
    "list": "LEXPIREELEMENT",
}
ELEMENTS: dict[str, Callable[[redis.Redis, str], Any]] = {
    "hash": lambda client, key: list(client.hgetall(key)),
    "set": lambda client, key: list(client.smembers(key)),
    "zset": lambda client, key: client.zrange(key, 0, -1),
    "list": lambda client, key: client.lrange(key, 0, -1),
}


class Applications:
    """All of them in one process."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        assert child.stdin is not None
        self._out, self._in = child.stdout, child.stdin
        self.token: str = self._next()["token"]

    def find(self) -> dict[str, Any]:
        """What each of them finds now."""
        self._in.write("\n")
        self._in.flush()
        return self._next()

    def _next(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._out.readline())
        return found


@contextmanager
def _applications(folder: Path, port: int) -> Iterator[Applications]:
    child = subprocess.Popen(
        ["node", "unchanged.mjs", str(port)],
        cwd=folder,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield Applications(child)
    finally:
        child.kill()
        child.communicate()


def _written(client: redis.Redis, words: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """(key, type, elements) of the keys that a rule is for."""
    pattern, kind = words[1], words[3]
    for key in client.scan_iter(pattern, _type=kind):
        yield key, kind, ELEMENTS[kind](client, key)


def test_each_rule_gives_deadlines_to_what_its_application_leaves_behind(
    ioredis: Path, serve: StartProxy
) -> None:
    proxy = serve()
    rules = [rule.replace("MAXLEN 1000", f"MAXLEN {FAILURES - 2}").split() for rule in RULES]
    assert len(rules) == 6
    with redis.Redis(port=proxy.port, decode_responses=True) as client:
        for words in rules:
            assert client.execute_command(*words) == "OK", words
        with _applications(ioredis, proxy.port) as applications:
            usual = applications.find()
            assert usual["session"]["id"] == "user7"
            assert usual["session"]["d"] == {"cart": 3}
            assert usual["active"] == 1
            assert usual["seen"] == [True]
            assert usual["cached"] == {"title": "first"}
            assert usual["failures"] == [2, 3, 4]  # the last ones
            for words in rules:
                most_s = int(words[5]) * (1.1 if "JITTER" in words else 1)
                written = list(_written(client, words))
                assert written, words
                for key, kind, elements in written:
                    for element in elements:
                        assert 0 < client.execute_command(TTL[kind], key, element) <= most_s
                        client.execute_command(EXPIRE[kind], key, element, 0)
            assert applications.find() == {
                "session": None,
                "active": 0,
                "seen": [False],  # so it is visited again
                "failures": [],
                "cached": {"title": "first"},  # strings have no elements
            }
