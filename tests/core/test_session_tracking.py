"""Requests of ours among those of a client that caches what it reads (CLIENT TRACKING)."""

from __future__ import annotations

import pytest

from tests.support.session_world import KEYS, NATIVES, World, passes
from ttlproxy.commands import Native, Router
from ttlproxy.wire import encode

INDEX = KEYS.index(b"k")
EXISTS = [b"EXISTS", INDEX]
READ = "SISMEMBER k e"
SENT = READ.encode().split()
ON = "CLIENT TRACKING ON"


@pytest.fixture
def world() -> World:
    asking = Native("ASKING", 1, frozenset())
    return World(router=Router([*NATIVES, asking]))


def test_the_reply_to_a_request_of_ours_is_not_the_clients(world: World) -> None:
    world.say(ON)
    assert world.say("PING", READ) == [[b"PING"], EXISTS, SENT]
    (told,) = world.step.told
    assert (told.before, world.step.requests) == (1, 3)
    assert told.tell is not None
    assert not told.tell(b":0\r\n")
    with pytest.raises(RuntimeError):
        told.tell(None)


@pytest.mark.parametrize(
    "requests",
    [
        [],
        [f"{ON} BCAST"],
        [f"{ON} OPTIN"],
        ["CLIENT CACHING YES"],
        [ON, "CLIENT TRACKING OFF"],
        [ON, "RESET"],
        [f"{ON} OPTIN", "CLIENT CACHING YES", "PING"],
    ],
)
def test_a_client_whose_reads_are_not_tracked_costs_nothing(
    world: World, requests: list[str]
) -> None:
    for request in requests:
        world.say(request)
        world.answer(b"+OK\r\n")
    world.say("PING")
    assert passes(world.session, encode(tuple(SENT)))


def test_a_client_that_may_not_track_costs_nothing(world: World) -> None:
    world.say(ON)
    world.answer(b"-NOPERM this user has no permissions\r\n")
    assert world.say(READ) == [SENT]


def test_until_tracking_has_ended_for_certain_reads_are_tracked(world: World) -> None:
    world.say(ON)
    world.answer(b"+OK\r\n")
    assert world.say("CLIENT TRACKING OFF", READ)[1:] == [EXISTS, SENT]
    world.answer(b"-NOPERM this user has no permissions\r\n")
    assert world.say(READ) == [EXISTS, SENT]
    world.say("MULTI", "CLIENT TRACKING OFF", "DISCARD")
    assert world.say(READ) == [EXISTS, SENT]


@pytest.mark.parametrize("standing", ["ASKING", "CLIENT CACHING YES", "CLIENT CACHING NO"])
def test_asking_or_caching_holds_for_the_next_request_of_the_client(
    world: World, standing: str
) -> None:
    world.say(ON)
    words = standing.encode().split()
    assert world.say(standing) == [words]
    assert world.say(READ) == [EXISTS, words, SENT]
    assert world.say(READ) == [EXISTS, SENT]


def test_a_read_of_a_large_member_is_tracked_though_it_passes_in_parts(world: World) -> None:
    world.say(ON)
    chunk = encode((b"SISMEMBER", b"k", b"m" * 300_000))
    sent = world.take(chunk[:200_000])
    assert sent == encode(tuple(EXISTS)) + chunk[:200_000]
    assert world.take(chunk[200_000:]) == chunk[200_000:]
    assert world.say(READ) == [EXISTS, SENT]


def test_in_front_of_what_redis_may_not_read_nothing_of_ours_is_sent(world: World) -> None:
    world.say(ON)
    chunk = encode(tuple(SENT)) + b"*2\r\n$3\r\nGET\r\n$99999999999\r\n"
    assert world.take(chunk) == chunk
    assert world.step.uncounted


@pytest.mark.parametrize("request_", ["MONITOR", "CLIENT REPLY SKIP", "PSYNC ? -1"])
def test_before_replies_are_counted_no_more_ours_must_have_come(
    world: World, request_: str
) -> None:
    world.say(ON)
    world.owes = True
    assert world.say(READ, request_) == [EXISTS, SENT]
    assert not world.step.uncounted
    assert world.step.awaits
    withheld = world.step.withheld
    world.owes = False
    assert world.take(withheld) == withheld
    assert world.step.uncounted
    assert world.say(READ) == [SENT]
