"""DUE: which elements have a deadline, and how long they have left."""

from __future__ import annotations

import pytest

from tests.support.conversation import Talk
from tests.support.per_type import said_of
from tests.support.redis_client import Client

TYPES = ["hash", "set", "zset", "list"]


@pytest.mark.parametrize("type_", TYPES)
def test_the_soonest_comes_first_and_what_has_no_deadline_is_not_told(
    client: Client, type_: str
) -> None:
    for line in said_of(
        type_,
        """ADD k a b c d
        HEXPIREFIELD k 300 FIELDS 1 a
        HEXPIREFIELD k 100 FIELDS 1 b
        HEXPIREFIELD k 200 FIELDS 1 c""",
    ).splitlines():
        assert not isinstance(client.ask(*line.split()), Exception), line
    reply = client.ask("DUE", "k")
    assert [element for element, _ in reply] == [b"b", b"c", b"a"]
    for (_, left_ms), most_ms in zip(reply, (100_000, 200_000, 300_000), strict=True):
        assert most_ms - 30_000 < left_ms <= most_ms
    assert [element for element, _ in client.ask("due", "k", "count", 2)] == [b"b", b"c"]


@pytest.mark.parametrize("type_", TYPES)
def test_what_is_past_its_deadline_is_not_told(talk: Talk, type_: str) -> None:
    talk(
        said_of(
            type_,
            """
            ADD k a b                           -> 2
            HPEXPIREFIELD k 20 FIELDS 1 a       -> [1]
            HPEXPIREFIELD k 100000 FIELDS 1 b   -> [1]
            wait 20
            DUE k                               -> [["b", *
            DUE k COUNT 1                       -> [["b", *
            """,
        )
    )


def test_a_key_without_deadlines_has_none_to_tell(talk: Talk) -> None:
    talk("""
        SET s x                             -> OK
        SADD k a                            -> 1
        DUE s                               -> []
        DUE k                               -> []
        DUE none COUNT 5                    -> []
        DUE k COUNT                         -> ERR syntax error
        DUE k COUNT 1 1                     -> ERR syntax error
        DUE k LIMIT 1                       -> ERR syntax error
        DUE k COUNT 0                       -> ERR count should be greater than 0
        DUE k COUNT x                       -> ERR count should be greater than 0
    """)


def test_an_element_that_a_script_removed_is_not_told(client: Client, direct: Client) -> None:
    client.ask("SADDEX", "k", 100, "a", "b")
    direct.ask("SREM", "k", "a")
    assert [element for element, _ in client.ask("DUE", "k")] == [b"b"]
    direct.ask("DEL", "k")
    assert client.ask("DUE", "k") == []


def test_of_thousands_all_are_told(client: Client) -> None:
    client.ask("SADDEX", "k", 100, *range(2500))
    assert len(client.ask("DUE", "k")) == 2500
    assert len(client.ask("DUE", "k", "COUNT", 1500)) == 1500
