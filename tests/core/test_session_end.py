"""Where a session may end: QUIT, a boundary between requests, replication."""

from __future__ import annotations

import pytest

from tests.support.session_world import NOW_MS, World
from ttlproxy.session import QUIT


@pytest.mark.parametrize("request_", ["PSYNC ? -1", "SYNC"])
def test_behind_what_may_replicate_nothing_of_ours_is_sent_and_requests_are_read_as_ever(
    world: World, request_: str
) -> None:
    world.registry.announced(0, b"h", NOW_MS + 9)
    assert world.names(request_, "REPLCONF ACK 1")[1] == b"REPLCONF"
    assert world.names("HTTLFIELD h f", "HSET h f v", "GET __ttl:x") == [b"EVALSHA"] * 3
    assert world.session.finish() == b""


def test_behind_quit_nothing_goes_to_redis(world: World) -> None:
    assert world.names("GET a", "QUIT", "SET a 1", "HEXPIREFIELD h f 9") == [b"GET", b"QUIT"]
    assert world.session.over
    assert not World().session.over


def test_a_boundary_is_where_nothing_is_half_done(world: World) -> None:
    assert not world.session.unfinished
    world.session.from_client(b"*2\r\n$3\r\nGET\r\n")
    assert world.session.unfinished
    world.session.from_client(b"$1\r\na\r\n")
    assert not world.session.unfinished
    world.say("MULTI")
    assert world.session.unfinished
    world.say("EXEC")
    assert world.session.finish() == QUIT
    assert world.session.finish() == b""


def test_replication_is_relayed_unread_and_has_no_boundary(world: World) -> None:
    assert not world.session.relays
    world.say("PSYNC ? -1")
    assert world.session.relays
    assert world.session.unfinished == "relayed unread"


def test_a_request_that_only_some_servers_read_is_relayed_and_nothing_is_put_behind_it(
    world: World,
) -> None:
    begun = b"*1048577\r\n$4\r\nPING\r\n"
    assert world.take(begun) == begun
    assert world.session.relays
    assert world.session.finish() == b""


def test_behind_what_redis_refuses_to_read_nothing_is_relayed(world: World) -> None:
    world.take(b"*1\r\n:5\r\n")
    assert not world.session.relays
