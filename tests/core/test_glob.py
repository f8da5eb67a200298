"""Patterns are read as Redis reads them, and what stars match is found without backtracking."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from ttlproxy.core.glob import Glob, matching, stars


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        (b"h*", b"hget", True),
        (b"H?et", b"hget", True),
        (b"h.*", b"hget", False),
        (b"[a-h]get", b"hget", True),
        (b"[^h]get", b"hget", False),
        (b"h\\*", b"h*", True),
        (b"h\\*", b"hget", False),
        (b"[z-a]", b"b", True),
        (b"[h", b"[h", False),
        (b"[h", b"H", True),
        (b"[^]", b"h", True),
        (b"[]", b"[]", False),
        (b"[\\]]", b"]", True),
        (b"[a\\-z]", b"b", False),
        (b"", b"hget", False),
    ],
)
def test_a_pattern_is_read_as_redis_reads_it(pattern: bytes, name: bytes, matches: bool) -> None:
    assert bool(matching(pattern, in_any_case=True).fullmatch(name)) is matches


@pytest.mark.parametrize(
    ("pattern", "key", "captured"),
    [
        (b"held:*", b"held:7", (b"7",)),
        (b"*:*", b"a:b:c", (b"a", b"b:c")),
        (b"a*b*c", b"aXbYbZc", (b"X", b"YbZ")),
        (b"**", b"any\n\xff", (b"any\n\xff",)),
        (b"\\**", b"*7", (b"7",)),
        (b"a*a", b"a", None),
        (b"A*", b"a", None),
        (b"[+--]*", b",x", (b"x",)),
        (b"[a--]*", b"ax", (b"x",)),
        (b"[--a]*", b"Ax", (b"x",)),
    ],
)
def test_each_star_gives_what_it_matched(
    pattern: bytes, key: bytes, captured: tuple[bytes, ...] | None
) -> None:
    found = matching(pattern).fullmatch(key)
    assert (found and found.groups()) == captured
    assert stars(pattern) == (len(captured) if captured else 1)


def test_many_stars_are_matched_without_a_search() -> None:
    """With backtracking it would take longer than the time limit of every test."""
    for pattern in (b"*a" * 20 + b"b", b"*[a]" * 20 + b"b"):
        assert not matching(pattern).fullmatch(b"a" * 5000)
        assert not Glob(pattern).match(b"a" * 5000)


def test_a_long_pattern_is_read_in_one_go() -> None:
    """The time grows linearly with its length, not quadratically."""
    assert stars(b"[]" * 200_000 + b"*") == 1


@settings(deadline=None)
@given(st.text("ab[-]^\\*?", max_size=8), st.text("ab[\\*", max_size=8))
def test_a_glob_matches_as_the_regular_expression_does(pattern: str, name: str) -> None:
    glob, key = Glob(pattern.encode()), name.encode()
    found = matching(pattern.encode()).fullmatch(key)
    assert glob.match(key) == (found and found.groups())
    if found:
        assert key.startswith(glob.head)
        assert key.endswith(glob.tail)
        assert glob.core in key
        assert glob.head == glob.tail or len(glob.head) + len(glob.tail) <= len(key)


@settings(deadline=None)
@given(pattern=st.text("ac*?[]^-\\", max_size=8), name=st.text("abc]-\\", min_size=1, max_size=4))
def test_redis_finds_the_same_keys(shared_server: AnyServer, pattern: str, name: str) -> None:
    with closing(Client(shared_server.port)) as direct:
        direct.ask("MSET", name, 1)
        found = name.encode() in direct.ask("KEYS", pattern)
        direct.ask("DEL", name)
    assert bool(matching(pattern.encode()).fullmatch(name.encode())) is found
    assert (Glob(pattern.encode()).match(name.encode()) is not None) is found
