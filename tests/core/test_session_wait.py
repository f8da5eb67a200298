"""A request that waits ends the step: what follows it is given again, wherever it was cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.session_world import World
from ttlproxy.wire import Requests, encode

LEASE = encode((b"LEASE", b"src", b"dst", b"EX", b"9", b"BLOCK", b"0"))
BEFORE = encode((b"GET", b"a")) + b"PING\r\n"
LARGE = encode((b"SET", b"k", b"x" * 100_000))
BEHIND = encode((b"GET", b"b")) + LEASE + b"\r\n*0\r\nPING\r\n" + LARGE + encode((b"GET", b"c"))


def _taken(world: World, chunks: list[bytes]) -> list[bytes | str]:
    """The bytes for Redis, and "wait" where a request waits, as a socket handles the chunks."""
    out: list[bytes | str] = [b""]
    for chunk in chunks:
        while chunk:
            sent = world.take(chunk)
            out[-1] += sent  # type: ignore[operator]
            chunk = world.step.withheld
            if world.step.wait is not None:
                out += ["wait", b""]
    return out


@settings(deadline=None, max_examples=100)
@given(st.sets(st.integers(1, len(BEFORE + LEASE + BEHIND) - 1), max_size=6))
def test_requests_behind_a_wait_come_again_wherever_the_stream_is_cut(cuts: set[int]) -> None:
    stream = BEFORE + LEASE + BEHIND
    places = [0, *sorted(cuts), len(stream)]
    chunks = [stream[begin:end] for begin, end in itertools.pairwise(places)]
    first, _, second, _, third = _taken(World(), chunks)
    assert first == BEFORE
    assert second == encode((b"GET", b"b"))
    assert isinstance(third, bytes)
    assert third.removeprefix(b"\r\n*0\r\n") == b"PING\r\n" + LARGE + encode((b"GET", b"c"))


def test_a_refused_request_behind_a_wait_is_met_later() -> None:
    world = World()
    assert _taken(world, [LEASE + b"*1\r\n+what\r\n"]) == [b"", "wait", b"*1\r\n+what\r\n"]
    assert world.session.over


def test_an_attempt_is_a_script_call_and_nothing_more_need_be_sure() -> None:
    world = World()
    world.session.script_calls.families.doubt()
    assert world.take(LEASE) == b""
    wait = world.step.wait
    assert wait
    assert (wait.source, wait.target, wait.limit_ms) == ((0, b"src"), (0, b"dst"), 0)
    ((name, *words),) = Requests().feed(world.session.attempt(wait))
    assert name == b"EVALSHA"
    assert words[-1] == b"0+9000/1"
    assert not world.session.step.unsure


@pytest.mark.parametrize("first", [b"MULTI", b"CLIENT REPLY OFF"])
def test_nobody_waits_in_a_transaction_or_without_replies(first: bytes) -> None:
    world = World()
    world.take(encode(tuple(first.split())))
    assert world.take(LEASE)
    assert world.step.wait is None
