"""Requests inside MULTI: how they go to Redis, and what has to happen before EXEC."""

from __future__ import annotations

import pytest

from tests.support.session_world import NOW_MS, World


def test_inside_a_transaction_scripts_go_as_text_and_unknown_keys_count(world: World) -> None:
    world.registry.announced(0, b"other", NOW_MS + 9)
    assert world.names("MULTI", "HSET h f v", "HTTLFIELD h f", "EXEC", "HSET h f v") == [
        b"MULTI",
        b"ZREM",  # says that one of the scripts writes
        b"EVAL",
        b"EVAL",
        b"EXEC",
        b"HSET",
    ]


def test_a_key_that_falls_due_before_exec_is_reaped_then(world: World) -> None:
    world.registry.announced(0, b"h", NOW_MS + 5)
    world.say("MULTI", "HLEN h")
    assert not world.step.reap_places
    world.registry.announced(0, b"h", NOW_MS - 1)
    world.say("EXEC")
    assert world.step.reap_places == {(0, b"h")}


def test_without_any_managed_key_a_transaction_passes_raw(world: World) -> None:
    assert world.names("MULTI", "HSET h f v", "EXEC") == [b"MULTI", b"HSET", b"EXEC"]


def test_a_flush_inside_a_transaction_counts_when_exec_comes(world: World) -> None:
    world.say("MULTI", "SCRIPT FLUSH")
    world.scripts.loaded = True  # loaded again meanwhile
    assert world.names("EXEC", "HTTLFIELD h f") == [b"EXEC", b"EVAL"]


def test_a_string_written_in_a_transaction_goes_as_it_came_and_is_swept_after_exec(
    world: World,
) -> None:
    world.registry.announced(0, b"other", NOW_MS + 9)
    sent = world.names("MULTI", "SET h v", "SET other v")
    assert sent == [b"MULTI", b"SET", b"ZREM", b"EVAL"]
    world.registry.announced(0, b"h", NOW_MS + 9)
    assert b"h" not in world.step.sweep_after
    world.say("EXEC")
    assert b"h" in world.step.sweep_after


def test_a_key_that_a_transaction_fills_is_looked_for_when_it_is_carried_out(world: World) -> None:
    world.say("MULTI")
    world.session.fills([b"l"])
    assert not world.step.sweep_before
    world.registry.announced(0, b"l", NOW_MS + 9)
    world.say("EXEC")
    assert world.step.sweep_before == {(0, b"l")}


def test_a_second_multi_keeps_what_the_first_has_begun(world: World) -> None:
    world.say("MULTI", "HLEN h", "MULTI")
    world.registry.announced(0, b"h", NOW_MS - 1)
    world.say("EXEC")
    assert world.step.reap_places == {(0, b"h")}


@pytest.mark.parametrize(
    ("request_", "modifies"),
    [("HEXPIREFIELD h f 9", True), ("APPEND k v", True), ("HTTLFIELD h f", False), ("PING", False)],
)
def test_exec_writes_where_a_request_before_it_does(
    world: World, request_: str, modifies: bool
) -> None:
    world.say("MULTI", request_)
    assert not world.step.modifies
    world.say("EXEC")
    assert world.step.modifies == modifies


def test_families_of_a_transaction_must_be_known_also_when_it_is_carried_out(world: World) -> None:
    """Other proxies may have come since."""
    world.session.script_calls.families.doubt()
    for request in ("HEXPIREFIELD h f 9", "EXEC"):
        world.say("MULTI", request)
        assert world.step.unsure == {(0, b"h")}
    world.say("PING", "EXEC")
    assert not world.step.unsure


def test_a_key_that_falls_due_before_exec_is_gone_before_the_keys_are_looked_over(
    world: World,
) -> None:
    world.say("MULTI", "DBSIZE")
    assert not world.step.reap_databases
    world.registry.announced(0, b"h", NOW_MS - 1)
    world.say("EXEC")
    assert world.step.reap_databases == {0}
