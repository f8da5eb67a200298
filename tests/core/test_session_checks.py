"""Where it is not known whether something is due: what passes, and what Redis is asked first."""

from __future__ import annotations

import pytest

from tests.support.session_world import NOW_MS, World, passes
from ttlproxy.core.registry import UNKNOWN, Registry
from ttlproxy.core.write_rules import WriteRule, WriteRules, name_of
from ttlproxy.wire import encode

READ = encode((b"SISMEMBER", b"k1", b"m"))
OTHER = encode((b"SISMEMBER", b"other", b"m"))
WRITE = encode((b"HSET", b"k1", b"f", b"v"))
PING = encode((b"PING",))
MULTI = encode((b"MULTI",))
WIDE = b"user default on nopass ~* +@all"


def _read_until(registry: Registry, until_ms: int, **bounds: int) -> None:
    """All that needs attention before is in `bounds`."""
    registry.forget_all()
    reading = registry.begin_reading(max(until_ms, NOW_MS + 100))
    registry.read(0, [(key.encode(), bound) for key, bound in bounds.items()])
    registry.end_reading(reading, until_ms)


@pytest.fixture
def world() -> World:
    """One with a family, whose keys may be due, and users with all rights."""
    world = World()
    world.registry.families.add([b"k"])
    world.rights.set_users([WIDE])
    _read_until(world.registry, UNKNOWN)
    return world


# --- what passes


@pytest.mark.parametrize(
    ("chunk", "count"),
    [
        (OTHER, 1),
        (OTHER + PING + encode((b"HSET", b"other", b"f", b"v")), 3),
        (READ, 0),
        (OTHER + READ, 0),
        (WRITE, 0),
        (OTHER[:-1], 0),
        (MULTI, 0),
    ],
)
def test_unheard_only_what_names_no_key_of_a_known_family_passes(
    world: World, chunk: bytes, count: int
) -> None:
    for bounds in ({}, {"k1": NOW_MS + 50}):
        _read_until(world.registry, NOW_MS + 100, **bounds)
        assert world.session.passes_unheard(chunk) == count, "an earlier one may be announced"
    assert world.counts.forwarded == 2 * count


def test_unheard_nothing_passes_in_a_transaction_and_while_rules_are_in_doubt(world: World) -> None:
    world.registry.rules.doubt([0])
    assert not world.session.passes_unheard(PING)
    world.registry.rules.replace(0, WriteRules({}))
    assert world.session.passes_unheard(PING)
    world.take(MULTI)
    assert not world.session.passes_unheard(PING)


def test_unheard_no_write_passes_where_a_rule_may_match(world: World) -> None:
    write = encode((b"SADD", b"ruled", b"m"))
    assert world.session.passes_unheard(write)
    name = name_of(b"r*")
    world.registry.rules.replace(0, WriteRules({name: WriteRule(9).row((name,))}))
    assert not world.session.passes_unheard(write)


@pytest.mark.parametrize(("until_ms", "expected"), [(NOW_MS, True), (NOW_MS - 1, False)])
@pytest.mark.parametrize("before", [b"", OTHER, PING])
def test_a_read_passes_for_as_long_as_all_that_falls_due_is_known(
    world: World, until_ms: int, expected: bool, before: bytes
) -> None:
    _read_until(world.registry, until_ms)
    assert bool(passes(world.session, before + READ)) == expected
    assert passes(world.session, OTHER), "where nothing can be due it always does"


# --- reads, in front of which Redis is asked


def _asked(world: World, chunk: bytes) -> tuple[list[bytes], int] | None:
    assert not passes(world.session, chunk)
    return world.session.reads(chunk)


@pytest.mark.parametrize(
    ("chunk", "asked"),
    [
        (READ, ([b"k1"], 1)),
        (OTHER + READ + OTHER, ([b"k1"], 3)),
        (READ + encode((b"sismember", b"k2", b"m")), ([b"k1", b"k2"], 2)),
        (READ + PING, None),
        (READ + WRITE, None),
        (WRITE, None),
        (READ + encode((b"HTTLFIELD", b"k1", b"f")), None),
        (READ + MULTI, None),
        (READ + encode((b"SISMEMBER",)), None),
        (READ + encode((b"SISMEMBER", b"__ttl:x", b"m")), None),
        (READ + OTHER[:-1], None),
    ],
)
def test_of_reads_alone_redis_is_asked_first_what_is_due_in_their_keys(
    world: World, chunk: bytes, asked: tuple[list[bytes], int] | None
) -> None:
    assert _asked(world, chunk) == asked


def test_of_keys_about_which_enough_is_known_it_is_not_asked(world: World) -> None:
    _read_until(world.registry, UNKNOWN, k1=NOW_MS)
    assert _asked(world, READ + encode((b"SISMEMBER", b"k2", b"m"))) == ([b"k2"], 2)


def test_a_key_that_is_known_to_be_due_is_reaped_first(world: World) -> None:
    _read_until(world.registry, UNKNOWN, k2=NOW_MS - 1)
    chunk = READ + encode((b"SISMEMBER", b"k2", b"m"))
    assert _asked(world, chunk) is None
    assert world.session.from_client(chunk).reap_places == {(0, b"k1"), (0, b"k2")}


@pytest.mark.parametrize(
    ("users", "asks"),
    [
        ([WIDE], True),
        ([WIDE + b" -eval"], False),
        ([WIDE, b"user narrow on nopass ~__ttl:* +@all"], False),
        ([WIDE, b"user narrow on nopass ~app:* +@all"], True),
    ],
    ids=["all rights", "no scripts", "an untrusted schedule", "a narrow user"],
)
def test_redis_is_asked_only_for_users_with_all_rights_and_in_schedules_that_are_trusted(
    world: World, users: list[bytes], asks: bool
) -> None:
    world.rights.set_users(users)
    assert (_asked(world, READ) is not None) == asks


def test_a_chunk_that_is_put_back_is_read_anew(world: World) -> None:
    assert _asked(world, READ)
    world.session.put_back()
    assert world.session.reads(READ) is None
    step = world.session.from_client(OTHER + READ)
    assert step.to_redis == OTHER + READ
    assert step.reap_places == {(0, b"k1")}


# --- calls that end before the first key in which something is due


WRITES = WRITE + encode((b"HSET", b"k2", b"f", b"v")) + encode((b"HSET", b"k3", b"f", b"v"))


def test_a_call_does_not_stop_if_nothing_is_due(world: World) -> None:
    world.session.may_stop = True
    _read_until(world.registry, NOW_MS)
    world.take(WRITES)
    assert world.step.stopping is None
    assert not world.step.is_held
