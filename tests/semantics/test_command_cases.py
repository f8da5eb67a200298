"""Every row of the command tables does to deadlines what command_cases.py says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.semantics.command_cases import NEWER, SINCE, TYPES
from tests.support.containers import AnyServer
from tests.support.conversation import (
    WORD,
    Talk,
    pipelined,
    resp3,
    resp3_in_multi,
    talking,
    talking_to_masters,
)
from tests.support.per_type import said_of
from tests.support.redis_client import Client
from tests.support.servers import release
from ttlproxy.commands.router import OVERRIDES, VIRTUALS


@pytest.fixture(params=[pipelined, resp3_in_multi, resp3], ids=lambda way: way.__name__)
def talk(request: pytest.FixtureRequest, version: str) -> Iterator[Talk]:
    """In each of the two protocols, inside MULTI and outside; RESP3 to three masters."""
    way = request.param
    if way is resp3:
        talking_so = talking_to_masters(request.getfixturevalue("masters"), way)
    else:
        proxy, server = map(request.getfixturevalue, ("proxy", "server"))
        talking_so = talking(proxy, server, way)
    with talking_so as say:
        yield say


# type, first release (None: each server that has the command), request and reply in the type's own
# words, then keys with four numbers each.
Row = tuple[str, tuple[int, ...] | None, str, list[str]]


def _rows() -> Iterator[Row]:
    tables: list[tuple[str, tuple[int, ...] | None, str]] = [
        *((type_, (6, 2), table) for type_, table in TYPES.items()),
        *((type_, since, table) for (type_, since), table in SINCE.items()),
        *((type_, None, table) for type_, table in NEWER.items()),
    ]
    for type_, since, table in tables:
        for line in said_of(type_, table).splitlines():
            said, *left = line.split(" ;")
            yield type_, since, said, [each for each in map(str.strip, left) if each]


ROWS = list(_rows())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}: {row[2].split('->')[0].strip()}")
def test_a_command_leaves_the_deadlines_that_it_should(
    talk: Talk, server: AnyServer, row: Row
) -> None:
    type_, since, said, left = row
    if not (has_command(server, said) if since is None else release(server.name) >= since):
        pytest.skip("the server lacks the command")
    talk(
        said_of(
            type_,
            f"""
            ADD k a b c                     -> 3
            ADD to z                        -> 1
            HEXPIREFIELD k 100 FIELDS 2 a b -> [1, 1]
            wait 0
            {said}
            wait 0
            """,
        )
        + "".join(look(type_, each) for each in left)
    )


def has_command(server: AnyServer, said: str) -> bool:
    client = Client(server.port)
    (row,) = client.ask("COMMAND", "INFO", said.split()[0])
    client.close()
    return row is not None


def look(type_: str, expected: str) -> str:
    key, *seconds = expected.split()
    return "\n" + said_of(type_, f"HTTLFIELD {key} FIELDS 4 a b c d -> [{', '.join(seconds)}]")


def test_no_row_of_the_command_tables_is_without_a_case() -> None:
    covered = {WORD.findall(said)[0] for _, _, said, _ in ROWS}
    assert {*OVERRIDES, *VIRTUALS} - covered == set()
