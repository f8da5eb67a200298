"""Requests that concern keys of a database where their client is not: what is due there is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.conversation import let_pass
from tests.support.redis_client import Client, Word
from tests.support.redis_content import LEASE


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


@pytest.fixture(params=[False, True], ids=["hearing", "asking"])
def pair(
    request: pytest.FixtureRequest, start_server: StartServer, start_proxy: StartProxy
) -> Iterator[Pair]:
    server = start_server()
    one, other = (start_proxy(server.url, asks=request.param) for _ in range(2))
    with (
        closing(Client(server.port)) as direct,
        closing(Client(one.port)) as writer,
        closing(Client(other.port)) as stranger,
    ):
        direct.ask("SET", LEASE, "somebody else", "PX", 600_000)
        yield Pair(writer, stranger, direct)


COPIES: list[tuple[Word, ...]] = [
    ("COPY", "s", "t", "DB", 1),
    ("cOpY", "s", "t", "db", "1"),
    ("COPY", "s", "t", "REPLACE", "DB", 1),
    ("MOVE", "t", 1),
    ("mOvE", "t", 1),
]


@pytest.mark.parametrize("words", COPIES, ids=lambda words: " ".join(map(str, words)))
@pytest.mark.parametrize("way", ["alone", "in a pipeline", "in MULTI", "in MULTI step by step"])
def test_a_key_in_another_database_whose_elements_are_due_is_in_nobodys_way(
    pair: Pair, words: tuple[Word, ...], way: str
) -> None:
    stranger = pair.unauthenticated
    stranger.ask_many([("SADD", "s", "a"), ("SADD", "t", "a")])
    pair.put(1, "t", px=20)
    pair.until_due(20)
    if way == "alone":
        done = stranger.ask(*words)
    elif way == "in a pipeline":
        done = stranger.ask_many([("SCARD", "s"), words])[-1]
    elif way == "in MULTI":
        (done,) = stranger.ask_many([words], transaction=True)
    else:
        stranger.ask("MULTI")
        stranger.ask(*words)
        (done,) = stranger.ask("EXEC")
    assert done == 1
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


@pytest.mark.parametrize("way", ["in a pipeline", "in MULTI", "in MULTI step by step"])
def test_what_is_due_in_a_database_does_not_come_with_it(pair: Pair, way: str) -> None:
    stranger, swap, look = pair.unauthenticated, ("SWAPDB", 0, 1), ("EXISTS", "s")
    stranger.ask("SADD", "s", "a")
    pair.put(1, "s", px=20)
    pair.until_due(20)
    if way == "in a pipeline":
        found = stranger.ask_many([swap, look])
    elif way == "in MULTI":
        found = stranger.ask_many([swap, look], transaction=True)
    else:
        for words in (("MULTI",), swap, look):
            stranger.ask(*words)
        found = stranger.ask("EXEC")
    assert found == [b"OK", 0]


def test_a_database_that_redis_lacks_takes_no_key(pair: Pair) -> None:
    stranger = pair.unauthenticated
    stranger.ask("SADD", "s", "a")
    for words in (("COPY", "s", "t", "DB", 99), ("MOVE", "s", 99), ("COPY", "s", "t", "DB", -1)):
        assert "out of range" in str(stranger.ask(*words))
    assert stranger.ask("SMEMBERS", "s") == [b"a"]
