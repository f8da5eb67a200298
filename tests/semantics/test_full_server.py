"""A server that has no memory left: refused writes change nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.conversation import hold
from tests.support.raw_client import Connection
from tests.support.redis_client import Client


@pytest.fixture
def full(app: Connection, direct: Client) -> Iterator[None]:
    """A managed set in a server that has no memory left."""
    hold(app, direct, "SADDEX s 100 a b -> 2\nSADD other a -> 1\nSELECT 0 -> OK")
    direct.ask("CONFIG", "SET", "maxmemory", 1)
    yield
    direct.ask("CONFIG", "SET", "maxmemory", 0)


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("write", ["SET s v", "SUNIONSTORE s other", "COPY s new", "COPY s s DB 1",
                                   "COPY other s REPLACE", "SORT other ALPHA STORE s"])  # fmt: skip
def test_a_full_server_refuses_a_write_and_nothing_has_changed(
    app: Connection, direct: Client, write: str
) -> None:
    hold(
        app,
        direct,
        f"""
        {write}                             -> OOM command not allowed when used memory*
        STTLMEMBER s MEMBERS 2 a b          -> [100, 100]
        EXISTS new                          -> 0
    """,
    )


@pytest.mark.usefixtures("full")
def test_a_full_server_moves_keys_and_swaps_databases_as_ever(
    app: Connection, direct: Client
) -> None:
    hold(
        app,
        direct,
        """
        MOVE s 1                            -> 1
        SWAPDB 0 1                          -> OK
        STTLMEMBER s MEMBERS 2 a b          -> [100, 100]
        EXISTS other                        -> 0
    """,
    )
