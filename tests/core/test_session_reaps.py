"""What must happen beside forwarding: elements to reap before a request, indexes to sweep."""

from __future__ import annotations

import pytest

from tests.support.session_world import KEYS, NOW_MS, World, passes
from ttlproxy.core.write_rules import WriteRule, WriteRules, name_of
from ttlproxy.wire import encode


@pytest.mark.parametrize("db", [0, 1])
def test_a_read_of_a_managed_key_passes_until_something_is_past_its_deadline(
    world: World, db: int
) -> None:
    """In the database that its client is in."""
    read = encode((b"SISMEMBER", b"s", b"m"))
    world.say(f"SELECT {db}")
    world.answer(b"+OK\r\n")
    world.registry.announced(db, b"s", NOW_MS)
    world.registry.announced(1 - db, b"s", NOW_MS - 1)
    assert passes(world.session, read * 3)
    world.registry.announced(db, b"s", NOW_MS - 1)
    assert not passes(world.session, read)
    assert world.take(read) == read
    assert world.step.reap_places == {(db, b"s")}


def test_an_increment_that_keeps_its_deadline_passes_like_a_read_without_a_rule(
    world: World,
) -> None:
    increment = encode((b"HINCRBY", b"h", b"n", b"1"))
    world.registry.announced(0, b"h", NOW_MS)
    assert passes(world.session, increment * 3)
    world.registry.rules.replace(
        0, WriteRules({name_of(b"h*"): WriteRule(9).row((name_of(b"h*"),))})
    )
    assert not passes(world.session, increment)
    assert world.names("HINCRBY h n 1") == [b"EVALSHA"]
    world.registry.rules.replace(0, WriteRules({}))
    world.registry.announced(0, b"h", NOW_MS - 1)
    assert not passes(world.session, increment)
    assert world.take(increment) == increment
    assert world.step.reap_places == {(0, b"h")}


def test_a_large_read_of_a_managed_key_is_looked_at_when_it_is_complete(world: World) -> None:
    read = encode((b"SISMEMBER", b"s", b"m" * 100_000))
    assert world.take(read[:90_000]) == read[:90_000]
    assert world.take(read[90_000:]) == read[90_000:]
    world.registry.announced(0, b"s", NOW_MS)
    assert world.take(read[:90_000]) == b""
    world.registry.announced(0, b"s", NOW_MS - 1)
    world.take(read[90_000:])
    assert world.step.reap_places == {(0, b"s")}


@pytest.mark.parametrize(
    "request_",
    ["HGET h f", "HLEN h", "HSET h f v", "DEL x h", "HTTLFIELD h f", "MYSTERY x h"],
)
def test_a_due_key_is_reaped_before_any_command_that_names_it(world: World, request_: str) -> None:
    world.registry.announced(0, b"h", NOW_MS)
    world.say("PING", request_)
    assert not world.step.reap_places
    world.registry.announced(0, b"h", NOW_MS - 1)
    world.say("PING", request_)
    assert world.step.reap_places == {(0, b"h")}


@pytest.mark.parametrize("request_", ["BLMOVE l due LEFT LEFT 0", "BRPOPLPUSH l due 0"])
def test_a_key_that_a_blocking_command_fills_is_swept_before_it(
    world: World, request_: str
) -> None:
    world.registry.announced(0, b"due", NOW_MS + 9)
    world.say(request_)
    assert world.step.sweep_before == {(0, b"due")}


@pytest.mark.parametrize(
    ("request_", "modifies"),
    [
        ("HSET h f v", True),
        ("HEXPIREFIELD h f 9", True),
        ("HTTLFIELD h f", False),
        ("SISMEMBER h m", False),
    ],
)
def test_reads_need_not_wait_while_writes_are_paused(
    world: World, request_: str, modifies: bool
) -> None:
    world.registry.announced(0, b"h", NOW_MS - 1)
    world.say(request_)
    assert world.step.reap_places == {(0, b"h")}
    assert world.step.modifies == modifies


def test_a_word_that_is_no_key_is_neither_reaped_nor_swept(world: World) -> None:
    world.registry.announced(0, b"h", NOW_MS - 1)
    world.say("HGET other h", "HINCRBY other h 1", "PING h")
    assert not world.step.reap_places
    assert not world.step.sweep_after


def test_a_write_without_an_override_is_swept_afterwards(world: World) -> None:
    world.registry.announced(0, b"h", NOW_MS + 9)
    world.say("APPEND h v", "APPEND other v")
    assert world.step.sweep_after == {b"h"}
    world.say("HINCRBY h n 1")
    assert not world.step.sweep_after


def test_all_that_is_due_goes_before_the_keys_are_looked_over(world: World) -> None:
    world.say("DBSIZE")
    assert not world.step.reap_databases
    world.registry.announced(3, b"h", NOW_MS - 1)
    world.say("DBSIZE")
    assert world.step.reap_databases == {0}
    world.say("SELECT 3", "DBSIZE")
    assert world.step.reap_databases == {3, 0}, "Redis may refuse the SELECT"


def test_a_key_that_gets_deadlines_while_a_large_value_comes_is_swept(world: World) -> None:
    request = encode((b"APPEND", b"k", b"v" * 200_000))
    assert world.take(request[:100_000]) == request[:100_000]
    world.registry.announced(0, b"k", NOW_MS + 9)
    assert not world.step.sweep_after
    assert world.take(request[100_000:]) == request[100_000:]
    assert world.step.sweep_after == {b"k"}


def test_a_key_is_watched_with_its_index_and_reaped_before(world: World) -> None:
    world.registry.announced(0, b"b", NOW_MS - 1)
    assert world.say("WATCH a b") == [[b"WATCH", b"a", b"b", KEYS.index(b"a"), KEYS.index(b"b")]]
    assert world.step.reap_places == {(0, b"b")}
    world.rights.set_users([b"user default on nopass ~a ~b +@all"])
    assert world.say("WATCH a b") == [[b"WATCH", b"a", b"b"]]


def test_work_that_is_deferred_for_a_key_is_done_before_it_is_asked_about(world: World) -> None:
    later = KEYS.deferred(b"q")
    world.session.script_calls.families.doubt()
    world.say("UNDEFER q job")
    assert world.step.unsure == {(0, later)}
    world.registry.announced(0, later, NOW_MS - 1)
    world.say("UNDEFER q job")
    assert world.step.reap_places == {(0, later)}


def test_a_key_that_a_blocking_command_took_from_is_swept_with_the_next_request(
    world: World,
) -> None:
    world.registry.announced(0, b"l", NOW_MS + 9)
    world.say("BLMOVE l other LEFT LEFT 0")
    world.say("PING")
    assert world.step.sweep_after == {b"l"}
    world.say("PING")
    assert not world.step.sweep_after
