"""A round trip is measured from the sending of requests until their last reply, wherever the bytes
are cut, and whatever was owed before."""

from __future__ import annotations

import pytest

from tests.support.raw_client import command
from ttlproxy.proxy.round_trip import RoundTrip

GET = command("GET", "k")
VALUE = b"$5\r\nvalue\r\n"
PUSH = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"


class World:
    """A connection that is watched. now_ms: what the clock shows"""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.sent = b""
        self.taken = b""
        self.ended = 0
        self.trip = RoundTrip(self._send, self._take, self._over)

    def _send(self, data: bytes) -> None:
        self.sent += data

    def _take(self, data: bytes) -> None:
        self.taken += data

    def _over(self, trip: RoundTrip) -> None:
        self.ended += 1

    def ask(self, requests: bytes, *replies: bytes, times: int = 1) -> None:
        """Requests, and the pieces of their replies, each a millisecond after what was before."""
        for _ in range(times):
            self.trip.sends(requests)
            for piece in replies:
                self.now_ms += 1
                self.trip.takes(piece)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr("time.monotonic", lambda: world.now_ms / 1000)
    return world


def _measured(world: World) -> float:
    assert world.ended == 1
    assert world.trip.is_over
    assert world.trip.took_ms is not None
    return world.trip.took_ms


def test_it_ends_with_the_last_reply_however_that_is_cut(world: World) -> None:
    world.ask(GET * 2, VALUE, VALUE[:3], VALUE[3:], times=5)
    assert _measured(world) == pytest.approx(3)
    assert world.trip.request is None
    assert not world.trip.has_failed


@pytest.mark.parametrize("error", [b"-WRONGTYPE no\r\n", b"!12\r\nWRONGTYPE no\r\n"])
def test_an_error_is_noted_however_it_is_cut(world: World, error: bytes) -> None:
    world.ask(GET, VALUE, times=4)
    world.ask(GET, PUSH + error[:1], error[1:5], error[5:] + PUSH)
    assert _measured(world) == pytest.approx(3)
    assert world.trip.has_failed


def test_a_single_request_is_known(world: World) -> None:
    world.ask(GET, VALUE, times=5)
    assert _measured(world) == pytest.approx(1)
    assert world.trip.request == [b"GET", b"k"]


def test_pushes_are_no_replies(world: World) -> None:
    world.ask(GET, PUSH[:9], PUSH[9:] + VALUE, PUSH, times=4)
    world.ask(GET, PUSH[:9], PUSH[9:], VALUE)
    assert _measured(world) == pytest.approx(3)


def test_replies_that_were_owed_before_do_not_count(world: World) -> None:
    """Three of them: they come in place of the first replies, until the client has all."""
    world.ask(GET, VALUE, times=4)
    world.now_ms += 1
    world.trip.takes(VALUE * 3)
    assert not world.ended
    world.ask(GET, VALUE, times=5)
    assert _measured(world) == pytest.approx(1)


def test_who_never_waits_for_all_replies_is_not_measured(world: World) -> None:
    world.trip.sends(GET * 4)
    for _ in range(40):
        world.trip.sends(GET)
        world.trip.takes(VALUE)
    assert world.ended == 1
    assert world.trip.took_ms is None


@pytest.mark.parametrize("follower", [VALUE, VALUE[:4]])
def test_the_replies_to_what_follows_may_come_at_once(world: World, follower: bytes) -> None:
    world.ask(GET, VALUE, times=4)
    world.trip.sends(GET)
    world.trip.sends(GET)
    world.now_ms += 2
    world.trip.takes(VALUE + follower)
    assert _measured(world) == pytest.approx(2)


def test_more_than_was_asked_for_is_no_measure(world: World) -> None:
    world.ask(GET, VALUE, times=4)
    world.ask(GET, VALUE * 2)
    assert world.ended == 1
    assert world.trip.took_ms is None


@pytest.mark.parametrize(
    "request_",
    [
        command("SUBSCRIBE", "c"),
        command("client", "reply", "off"),
        command("BLPOP", "l", 0),
        b"PING\r\n",
        GET[:-3],
    ],
)
def test_what_has_not_one_reply_ends_it(world: World, request_: bytes) -> None:
    world.ask(GET, VALUE)
    world.trip.sends(request_)
    assert world.ended == 1
    assert world.trip.took_ms is None


def test_all_passes_whether_it_is_over_or_not(world: World) -> None:
    world.ask(GET, VALUE, times=20)
    assert world.sent == GET * 20
    assert world.taken == VALUE * 20


def test_no_reply_at_all_ends_it(world: World) -> None:
    world.ask(GET, b"no reply\r\n")
    assert world.ended == 1
    assert world.taken == b"no reply\r\n"


def test_many_lines_are_not_read(world: World) -> None:
    world.ask(GET, b"*2000\r\n" + b":1\r\n" * 2000)
    assert world.ended == 1
