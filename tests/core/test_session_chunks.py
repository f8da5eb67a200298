"""Requests that arrive in pieces, and requests that are large."""

from __future__ import annotations

import itertools
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.session_world import NOW_MS, World
from ttlproxy.core.families import ALL
from ttlproxy.wire import Requests, encode


@pytest.mark.parametrize(("begun", "name"), [("MULTI", b"APPEND"), ("PING", b"HSET")])
def test_a_large_write_that_may_meet_a_deadline_is_kept_until_it_is_whole(
    world: World, begun: str, name: bytes
) -> None:
    world.say(begun)
    write = encode((name, b"h", b"f", b"v" * 100_000))
    assert world.take(write[:90_000]) == b""
    assert world.take(write[90_000:]) == write


_REQUESTS = st.sampled_from(
    [
        encode((b"GET", b"k")),
        encode((b"HEXPIREFIELD", b"h", b"f", b"9")),
        encode((b"HSET", b"h", b"f", b"v")),
        encode((b"MULTI",)),
        encode((b"EXEC",)),
        b"PING\r\n",
        b"\r\n",
        b"saddex s 9 'a b'\r\n",
    ]
)


@settings(deadline=None)
@given(st.lists(_REQUESTS, max_size=8), st.lists(st.integers(0, 1000), max_size=8))
def test_redis_reads_the_same_however_the_client_s_bytes_are_cut(
    requests: list[bytes], cuts: list[int]
) -> None:
    """But for which of them become one call: those of a chunk."""
    stream = b"".join(requests)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    whole, pieces = World(), World()
    for world in (whole, pieces):  # what all proxies know, this one does
        world.registry.families.add([ALL])
    with mock.patch("ttlproxy.session.fast_path.MOST_TOGETHER", 1):
        sent = [pieces.take(stream[a:b]) for a, b in itertools.pairwise(places)]
    assert b"".join(sent) == whole.session.from_client(stream).to_redis


@pytest.mark.parametrize("request_", ["GET __ttl:x", "DEL a __ttl:x", "HLEN __ttl:x"])
def test_an_internal_key_s_name_is_found_however_the_client_s_bytes_are_cut(request_: str) -> None:
    request = encode(tuple(request_.encode().split()))
    for cut in range(len(request)):
        world = World()
        sent = b"".join(world.take(piece) for piece in (request[:cut], request[cut:]) if piece)
        ((name, sha, *_),) = Requests().feed(sent)
        assert (name, sha) == (b"EVALSHA", world.scripts["refuse"].sha), cut


@pytest.mark.parametrize("request_", [b"GET __ttl:x\r\n", b'GET "\\x5f_ttl:x"\r\n', b""])
@pytest.mark.parametrize("rest", [0, 900])
def test_an_internal_key_s_name_is_found_beside_long_values(request_: bytes, rest: int) -> None:
    longs = encode((b"SET", b"k", b"v" * 5_000 + b"__ttl:x")) * 4
    chunk = longs + (request_ or encode((b"GET", b"__ttl:x")))
    world = World()
    sent = Requests().feed(world.take(chunk + longs[:rest]))
    assert [words[0] for words in sent] == [b"SET"] * 4 + [b"EVALSHA"]
    assert sent[-1][1] == world.scripts["refuse"].sha


def test_redis_refuses_words_that_are_no_bulk_strings_beside_long_values_too() -> None:
    chunk = encode((b"SET", b"k", b"v" * 9_000)) + b"*1\r\n:5\r\n"
    assert World().take(chunk) == chunk


@pytest.mark.parametrize("words", [200_000, 200_001])
def test_a_command_of_ours_with_too_many_words_is_refused(world: World, words: int) -> None:
    request = encode((b"HEXPIREFIELD", b"h", b"9", b"FIELDS", *[b"a"] * (words - 4)))
    ((_, sha, *_),) = world.say(request)
    assert (sha == world.scripts["refuse"].sha) == (words > 200_000)


@pytest.mark.parametrize("in_multi", [False, True])
def test_a_request_that_is_larger_than_is_kept_is_refused_and_the_next_is_read(
    in_multi: bool,
) -> None:
    world = World(max_request_bytes=100_000)
    if in_multi:
        world.say("MULTI")
    large = encode((b"HSETEX", b"h", b"FIELDS", b"1", b"f", b"v" * 200_000))
    stream = large + encode((b"HTTLFIELD", b"h", b"f"))
    sent = b"".join(world.take(stream[at : at + 70_000]) for at in range(0, len(stream), 70_000))
    refused, called = Requests().feed(sent)
    if in_multi:
        assert refused == [b"TOO-LARGE-FOR-MAX-REQUEST-BYTES"]
        assert called[0] == b"EVAL"
    else:
        assert refused[1] == world.scripts["refuse"].sha
        assert called[1] == world.scripts["hash_ttl"].sha


def test_a_request_that_is_larger_than_is_kept_waits_for_nothing() -> None:
    world = World(max_request_bytes=100)
    (refused,) = world.say("LEASE jobs " + "x" * 100 + " EX 9 BLOCK 0")
    assert refused[1] == world.scripts["refuse"].sha
    assert not world.step.pauses


@pytest.mark.parametrize("length", [100, 101])
def test_a_request_may_be_as_large_as_the_limit_says(length: int) -> None:
    world = World(max_request_bytes=100)
    frame = len(encode((b"HTTLFIELD", b"h", b"f" * 50))) - 50
    ((_, sha, *_),) = world.say(encode((b"HTTLFIELD", b"h", b"f" * (length - frame))))
    assert (sha == world.scripts["refuse"].sha) == (length > 100)


@pytest.mark.parametrize(
    ("words", "goes_on"),
    [
        ((b"SET", b"k"), True),
        ((b"SET", b"__ttl:x"), False),
        ((b"SET", b"managed"), False),
        ((b"MYSTERY", b"k"), False),
        ((b"PING",), True),
    ],
)
def test_a_large_request_goes_on_before_it_is_whole_where_its_beginning_says_all(
    world: World, words: tuple[bytes, ...], goes_on: bool
) -> None:
    world.registry.announced(0, b"managed", NOW_MS + 9)
    begun = encode((*words, b"v" * 100_000))[:90_000]
    assert world.take(begun) == (begun if goes_on else b"")
    assert world.session.streams == goes_on
