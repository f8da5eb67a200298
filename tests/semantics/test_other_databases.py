"""Requests that concern keys of a database where their client is not: what is due there is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.semantics.conftest import two_proxies
from tests.support.conversation import let_pass
from tests.support.redis_client import Client, Word
from tests.support.redis_content import LEASE
from tests.support.servers import Binary


class Pair:
    """Clients of two proxies before one Redis, whose reaper sleeps.

    writer: it knows the deadlines; stranger: the other proxy has not named any of these keys yet
    """

    def __init__(self, writer: Client, stranger: Client, direct: Client) -> None:
        self.writer, self.unauthenticated, self._direct = writer, stranger, direct

    def put(self, db: int, key: str, *, px: int) -> None:
        self.writer.ask("SELECT", db)
        self.writer.ask("SADDEX", key, "PX", px, "MEMBERS", 1, "late")
        self.writer.ask("SELECT", 0)

    def until_due(self, ms: int) -> None:
        let_pass(self._direct, ms)


@pytest.fixture(scope="module", params=[False, True], ids=["hearing", "asking"])
def ports(request: pytest.FixtureRequest, binary: Binary) -> Iterator[list[int]]:
    with two_proxies(binary, asks=request.param) as ports:
        yield ports


@pytest.fixture
def pair(ports: list[int]) -> Iterator[Pair]:
    with ExitStack() as opened:
        writer, stranger, direct = (opened.enter_context(Client(port)) for port in ports)
        lease: list[Word] = ["SET", LEASE, "somebody else", "PX", 600_000]
        direct.ask_many([["FLUSHALL"], lease], transaction=True)
        yield Pair(writer, stranger, direct)


def _said(client: Client, way: str, *requests: tuple[Word, ...]) -> list[object]:
    """The replies to requests that are sent in this way."""
    if way == "in MULTI step by step":
        for words in (("MULTI",), *requests):
            client.ask(*words)
        return list(client.ask("EXEC"))
    if way == "one by one":
        return [client.ask(*words) for words in requests]
    return client.ask_many(requests, transaction=way == "in MULTI")


ways = pytest.mark.parametrize(
    "way", ["one by one", "in a pipeline", "in MULTI", "in MULTI step by step"]
)


@ways
@pytest.mark.parametrize("words", ["cOpY s t db 1", "COPY s t REPLACE DB 1", "mOvE t 1"])
def test_a_key_in_another_database_whose_elements_are_due_is_in_nobodys_way(
    pair: Pair, words: str, way: str
) -> None:
    stranger = pair.unauthenticated
    stranger.ask_many([("SADD", "s", "a"), ("SADD", "t", "a")])
    pair.put(1, "t", px=20)
    pair.until_due(20)
    assert _said(stranger, way, ("SCARD", "s"), tuple(words.split())) == [1, 1]
    stranger.ask("SELECT", 1)
    assert stranger.ask("SMEMBERS", "t") == [b"a"]


def test_a_key_that_is_replaced_in_another_database_loses_its_deadlines(pair: Pair) -> None:
    """They would be those of equal elements in the copy."""
    stranger = pair.unauthenticated
    stranger.ask("SADD", "s", "late")
    pair.put(1, "t", px=100_000)
    assert stranger.ask("COPY", "s", "t", "DB", 1, "REPLACE") == 1
    stranger.ask("SELECT", 1)
    assert stranger.ask("STTLMEMBER", "t", "late") == -1


def test_deadlines_are_taken_along_into_another_database(pair: Pair) -> None:
    stranger = pair.unauthenticated
    pair.put(0, "s", px=100_000)
    pair.put(0, "t", px=100_000)
    assert stranger.ask_many([("COPY", "s", "c", "DB", 1), ("MOVE", "t", 1)]) == [1, 1]
    stranger.ask("SELECT", 1)
    assert [stranger.ask("STTLMEMBER", key, "late") > 0 for key in ("c", "t")] == [True] * 2


@ways
def test_what_is_due_in_a_database_does_not_come_with_it(pair: Pair, way: str) -> None:
    pair.unauthenticated.ask("SADD", "s", "a")
    pair.put(1, "s", px=20)
    pair.until_due(20)
    assert _said(pair.unauthenticated, way, ("SWAPDB", 0, 1), ("EXISTS", "s")) == [b"OK", 0]


def test_a_database_that_redis_lacks_takes_no_key(pair: Pair) -> None:
    stranger = pair.unauthenticated
    stranger.ask("SADD", "s", "a")
    for words in (("COPY", "s", "t", "DB", 99), ("MOVE", "s", 99), ("COPY", "s", "t", "DB", -1)):
        assert "out of range" in str(stranger.ask(*words))
    assert stranger.ask("SMEMBERS", "s") == [b"a"]
