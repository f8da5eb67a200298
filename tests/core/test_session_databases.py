"""Which database a client is in, and what SWAPDB does to what is known."""

from __future__ import annotations

import pytest

from tests.support.session_world import NOW_MS, World
from ttlproxy.core.registry import UNKNOWN
from ttlproxy.wire import encode


def test_without_any_managed_key_databases_are_swapped_by_redis_itself(world: World) -> None:
    assert world.names("SWAPDB 0 1") == [b"SWAPDB"]
    world.registry.announced(0, b"h", NOW_MS + 9)
    assert world.names("SWAPDB 0 1") == [b"EVALSHA"]


def test_a_database_that_was_selected_is_only_believed(world: World) -> None:
    (first,) = world.say("HEXPIREFIELD h f 9")
    _, second = world.say("SELECT 3", "HEXPIREFIELD h f 9")
    at = 3 + int(first[2])
    assert (first[at], second[at]) == (b"0 hexpirefield", b"?3,0 hexpirefield")


@pytest.mark.parametrize(
    ("requests", "database"),
    [
        (["SELECT 0"], b"0"),
        (["SELECT 3", "SELECT 5"], b"?5,3,0"),
        (["SELECT 3", "SELECT 5", "SELECT 3"], b"?3,5,0"),
        (["SELECT 3", "SELECT x", "SELECT -1", "SELECT"], b"?3,0"),
        (["SELECT 3", "RESET"], b"?0,3"),
        (["MULTI", "SELECT 3", "DISCARD"], b"?3,0"),
        (
            [f"SELECT {db}" for db in range(20)],
            b"?" + b",".join(b"%d" % db for db in (*range(19, 3, -1), 0)),
        ),
    ],
)
def test_a_script_gets_the_databases_that_its_client_may_be_in(
    world: World, requests: list[str], database: bytes
) -> None:
    *_, call = world.say(*requests, "HEXPIREFIELD h f 9")
    assert database + b" hexpirefield" in call


@pytest.mark.parametrize(
    ("word", "db"), [("3", 3), ("x", 0), ("-1", 0), ("999999999", 999_999_999), ("9999999999", 0)]
)
def test_only_a_number_is_believed_to_be_a_database(world: World, word: str, db: int) -> None:
    world.session.script_calls.families.doubt()
    world.say(f"SELECT {word}", "HEXPIREFIELD h f 9")
    assert world.step.unsure == {(db, b"h")}


def test_after_reset_a_client_is_in_its_first_database(world: World) -> None:
    world.session.script_calls.families.doubt()
    world.say("SELECT 3", "RESET", "HEXPIREFIELD h f 9")
    assert world.step.unsure == {(0, b"h")}


@pytest.mark.parametrize(
    ("words", "is_ours"), [("0 1", True), ("0 x", False), ("x 1", False), ("0", False)]
)
def test_a_swap_of_databases_that_redis_takes_is_announced(
    world: World, words: str, is_ours: bool
) -> None:
    world.registry.announced(0, b"h", NOW_MS + 9)
    world.registry.others(False)
    ((name, *rest),) = world.say(f"SWAPDB {words}")
    assert world.registry.expecting == is_ours
    if is_ours:
        assert name == b"EVALSHA"
        assert rest[-2:] == [b"0", b"1"]
    else:
        assert [name, *rest] == [b"SWAPDB", *words.encode().split()]


def test_a_swap_by_whom_scripts_are_barred_counts_as_one_that_may_come(world: World) -> None:
    world.registry.announced(0, b"h", NOW_MS + 9)
    world.rights.set_users([b"user default on nopass ~* +@all -eval"])
    assert world.take(encode((b"SWAPDB", b"0", b"7"))) == encode((b"SWAPDB", b"0", b"7"))
    assert world.step.look
    assert world.step.reap_databases == {0, 7}
    assert world.registry.until_ms == UNKNOWN
