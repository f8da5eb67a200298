"""Bytes are requests as `encode` makes them exactly if encoding what is read in them gives the same
bytes again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.raw_client import command
from ttlproxy.wire import PARSER, are_short_as_encoded, bodies, encode, from_bodies, pieces
from ttlproxy.wire.scanner import Scanner

WORD = st.one_of(st.binary(max_size=12), st.sampled_from([b"$1\r\nk\r\n", b"*1\r\n", b"v" * 99]))
REQUESTS = st.lists(st.lists(WORD, min_size=1, max_size=9).map(tuple).map(encode), max_size=4)
PIECES = st.lists(
    st.sampled_from(
        [
            *(b"*1\r\n", b"*2\r\n", b"*01\r\n", b"*0\r\n", b"*-1\r\n", b"$1\r\n", b"$0\r\n"),
            *(
                b"$-1\r\n",
                b"$01\r\n",
                b"$10\r\n",
                b"+k\r\n",
                b":1\r\n",
                b"k",
                b"kk",
                b"\r\n",
                b"\n",
            ),
            *(b"0123456789", b"GET k\r\n"),
        ]
    ),
    max_size=12,
)


def _read(data: bytes) -> list[list[bytes]]:
    """By reading, and encoding again; nothing if that gives other bytes."""
    scanner, found = Scanner(data), list[list[bytes]]()
    while (words := scanner.next()) is not None:
        found.append(words)
    return found if b"".join(encode(tuple(words)) for words in found) == data else []


def _as_encoded(data: bytes) -> bool:
    return bool(_read(data))


def _several(data: bytes) -> list[list[bytes]] | None:
    """The requests, if there are more than one."""
    found = _read(data)
    return found if len(found) > 1 else None


def _one(data: bytes) -> list[bytes] | None:
    """The only request."""
    found = _read(data)
    return found[0] if len(found) == 1 else None


@given(
    requests=st.lists(st.lists(WORD | st.just(b"w" * 100), min_size=1, max_size=3), min_size=1),
    at=st.integers(0, 200),
    byte=st.integers(0, 255),
)
def test_requests_are_cut_where_they_end(requests: list[list[bytes]], at: int, byte: int) -> None:
    expected = [encode(tuple(words)) for words in requests]
    data = b"".join(expected)
    assert pieces(requests, data) == expected
    for are_exact in (True, False):
        cut = bodies(requests, data, are_exact=are_exact)
        assert cut is not None
        assert [from_bodies([body]) for body in cut] == expected
        assert from_bodies(cut) == data
    other = data[:at] + bytes([byte]) + data[at + 1 :]
    commands = PARSER.whole(other)
    if commands is not None and (found := pieces(commands, other)) is not None:
        assert b"".join(found) == other
        assert found == [encode(tuple(words)) for words in commands]
        assert from_bodies(bodies(commands, other, are_exact=False) or ()) == other


@given(requests=REQUESTS, at=st.integers(0, 200), byte=st.integers(0, 255))
def test_requests_are_and_with_another_byte_only_if_they_are_others(
    requests: list[bytes], at: int, byte: int
) -> None:
    data = b"".join(requests)
    assert are_short_as_encoded(data) == bool(data)
    changed = data[:at] + bytes([byte]) + data[at + 1 :]
    assert are_short_as_encoded(changed) == _as_encoded(changed)
    for one in (*requests, data, changed):
        assert PARSER.one_short(one) == _one(one)
        if b"\r\n*" not in one[:-1] or _several(one) is not None:
            assert PARSER.several_short(one) == _several(one)


@given(pieces=PIECES)
def test_pieces_are_only_if_they_can_be_encoded_so(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    assert are_short_as_encoded(data) == _as_encoded(data)
    assert PARSER.one_short(data) == _one(data)
    assert PARSER.several_short(data) in (_several(data), _read(data))


@pytest.mark.parametrize("words", [("SET", "k", "v" * 100), ("DEL", *range(9))])
def test_longer_ones_are_not(words: tuple[str | int, ...]) -> None:
    assert not are_short_as_encoded(command(*words))
    assert PARSER.one_short(command(*words)) is None
    assert PARSER.several_short(command(*words) * 2) is None


def test_many_are() -> None:
    assert are_short_as_encoded(command("GET", "k") * 20_000)
    assert not are_short_as_encoded(command("GET", "k") * 20_000 + b"*")
