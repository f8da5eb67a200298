"""`ttlproxy inspect`: a key's elements and deadlines, the rules that match, and what waits."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.support.command_line import ttlproxy
from tests.support.containers import AnyServer
from tests.support.processes import CLOSED_PORT, wait_until
from tests.support.redis_client import Client
from tests.support.servers import Proxy
from ttlproxy.cli.output import left
from ttlproxy.core.keys import Keys

pytestmark = pytest.mark.any_server


@pytest.fixture
def filled(proxy: Proxy, server: AnyServer, client: Client) -> str:
    """The URL of a Redis with keys."""
    client.ask("HSET", "cart:42", "apple", 1, "pear", 2, "fig", 3)
    client.ask("HEXPIREFIELD", "cart:42", "pear", 50)
    client.ask("HEXPIREFIELD", "cart:42", "apple", 4000)
    client.ask("PEXPIRE", "cart:42", 9_000_000)
    client.ask("ONEXPIRE", "cart:*", "RPUSH", "tasks")
    client.ask("ONWRITE", "cart:*", "TYPE", "hash", "EX", 100)
    client.ask("ONWRITE", "*", "TYPE", "set", "EX", 100)
    client.ask("DEFER", "EX", 100, "ID", "later", "DEL", "cart:42")
    client.ask("ONEXPIRE", "seen", "KEEP")
    client.ask("SADDEX", "seen", "MAXLEN", 1, "EVICT", "EX", 1000, "MEMBERS", 1, "old")
    client.ask("SADDEX", "seen", "MAXLEN", 1, "EVICT", "EX", 1000, "MEMBERS", 1, "new")
    kept = Keys().kept(b"seen")
    with closing(Client(server.port)) as direct:
        wait_until(lambda: direct.ask("EXISTS", kept) == 1, "the reaper keeps the other")
    return server.url


def _inspect(url: str, *words: str) -> CompletedProcess[str]:
    return ttlproxy("inspect", *words, "--upstream", url)


def _as_json(url: str, *words: str) -> list[dict[str, Any]]:
    done = _inspect(url, *words, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    keys: list[dict[str, Any]] = json.loads(done.stdout)["keys"]
    return keys


def test_a_key_is_shown_with_all_there_is(filled: str) -> None:
    done = _inspect(filled, "cart:42")
    assert (done.returncode, done.stderr) == (0, "")
    first, own, *rows = done.stdout.splitlines()
    assert first == "cart:42: hash, 3 elements, of which 2 have a deadline"
    assert own.startswith("  the key itself expires in 2 h ")
    assert [row.partition("  in ")[0] for row in rows[:2]] == ["  pear ", "  apple"]
    assert rows[2:4] == [
        "  rule  ONEXPIRE cart:* RPUSH tasks",
        "  rule  ONWRITE cart:* TYPE hash EX 100",
    ]
    assert re.fullmatch(r"  deferred  DEL, in 1 min \d+ s, id later", rows[4])


def test_programs_get_json(filled: str) -> None:
    (cart,) = _as_json(filled, "cart:42", "--limit", "1")
    assert [row["name"] for row in cart["elements"]] == ["pear"]
    assert 0 < cart["elements"][0]["ms_left"] <= 50_000
    assert (cart["type"], cart["size"], cart["timed"]) == ("hash", 3, 2)
    assert [rule["command"] for rule in cart["rules"]] == ["ONEXPIRE", "ONWRITE"]
    assert [row["command"] for row in cart["deferred"]] == ["DEL"]
    (seen,) = _as_json(filled, "seen")
    assert (seen["kept"], [row["name"] for row in seen["elements"]]) == (1, ["new"])


def test_a_pattern_shows_the_keys_with_deadlines_that_match(filled: str) -> None:
    assert [each["key"] for each in _as_json(filled, "--match", "*")] == ["cart:42", "seen"]
    assert [each["key"] for each in _as_json(filled, "--match", "s*n")] == ["seen"]
    assert len(_as_json(filled, "--match", "*", "--limit", "1")) == 1


def test_the_redis_is_named_by_its_url_alone_too(filled: str) -> None:
    for words in (("cart:42", filled), ("--match", "cart*", filled)):
        done = ttlproxy("inspect", *words)
        assert (done.returncode, done.stdout.partition(":")[0]) == (0, "cart")


def test_no_key_is_exit_code_1(filled: str) -> None:
    for words in (("nosuch",), ("--match", "nosuch*"), ("cart:42", "--db", "3")):
        assert _inspect(filled, *words).returncode == 1


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        ((), 2, "give one KEY"),
        (("a", "--match", "b"), 2, "give one KEY"),
        (("a",), 1, f"nothing listens at 127.0.0.1:{CLOSED_PORT}"),
    ],
)
def test_what_cannot_be_shown_is_said(words: tuple[str, ...], code: int, problem: str) -> None:
    done = _inspect(f"redis://127.0.0.1:{CLOSED_PORT}", *words)
    assert (done.returncode, problem in done.stderr) == (code, True)


def test_without_a_redis_it_says_how_to_name_one(tmp_path: Path) -> None:
    done = ttlproxy("inspect", "a", "--data-dir", str(tmp_path))
    assert (done.returncode, "--upstream" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (-5, "due"),
        (0, "due"),
        (1240, "in 1.2 s"),
        (59_999, "in 59 s"),
        (60_000, "in 1 min"),
        (7_500_000, "in 2 h 5 min"),
        (90_000_000, "in 1 d 1 h"),
    ],
)
def test_times_are_in_words(ms: int, words: str) -> None:
    assert left(ms) == words
