"""Which bytes may go over a connection to Redis that clients share."""

from __future__ import annotations

import pytest

from tests.support.raw_client import command
from ttlproxy.commands.router import STATEFUL, VIRTUALS, Router
from ttlproxy.session.sharing import LARGEST, read, read_cut

NAMES = {b"GET", b"get", b"SET"}
GET, SET = command("GET", "k"), command("SET", "k", "v\r\n*1\r\n$3\r\nGET\r\n")


def test_whole_requests_may_go() -> None:
    assert read(GET, NAMES) == [[b"GET", b"k"]]
    assert read(GET + SET + GET, NAMES) == [
        [b"GET", b"k"],
        [b"SET", b"k", b"v\r\n*1\r\n$3\r\nGET\r\n"],
        [b"GET", b"k"],
    ]


@pytest.mark.parametrize(
    "words",
    [("CLUSTER", "SLOTS"), ("cluster", "myid"), ("Config", "get", "save"), ("SCRIPT", "LOAD", "x")],
)
def test_a_subcommand_may_go_without_the_others_of_its_command(words: tuple[str, ...]) -> None:
    data, args = command(*words), [word.encode() for word in words]
    assert read(data, NAMES) == [args]
    assert read(GET + data, NAMES) == [[b"GET", b"k"], args]
    assert read(command("SET", "k", "v" * 999) + data, NAMES) is not None


@pytest.mark.parametrize(
    "data",
    [
        command("DEL", "k"),
        command("CLUSTER"),
        command("CLUSTER", "SYNCSLOTS"),
        command("SCRIPT", "FLUSH"),
        command("CONFIG", "SET", "save", ""),
        GET + command("CONFIG", "SET", "save", ""),
        b"*2\r\n$7\r\nCLUSTER\r\n:5\r\n",
        GET + command("MULTI"),
        b"GET k\r\n",
        b"\r\n" + GET,
        GET + b"*0\r\n",
        b"*2\r\n$3\r\nGET\r\n:5\r\n",
        b"*2\r\n$3\r\nGET\r\n+k\r\n",
        b"*2\r\n$3\r\nGET\r\n$-1\r\n",
        b"*3\r\n$3\r\nGET\r\n+foo\r\n=7\r\ntxt:foo\r\n",
        b"*2\r\n$3\r\nGET\r\n*1\r\n$1\r\nk\r\n",
        GET + b"+OK\r\n",
        b"*1\r\n:5\r\n",
        command("SET", "k", "v" * LARGEST),
        GET + command("SET", "k", "v" * LARGEST),
    ],
)
def test_nothing_else_goes(data: bytes) -> None:
    assert read(data, NAMES) is None
    assert read_cut(data, NAMES) is None


def test_a_chunk_may_be_cut_anywhere() -> None:
    data, whole = GET + SET + GET, {0: 0, len(GET): 1, len(GET + SET): 2}
    for cut in range(1, len(data)):
        if cut in whole:
            continue
        part = read_cut(data[:cut], NAMES)
        assert part is not None
        begin = max(end for end in whole if end < cut)
        assert (len(part.requests), part.rest) == (whole[begin], data[begin:cut])


@pytest.mark.parametrize(
    "rest",
    [b"*x\r\n", b"G", b"*2\r\n$3\r\nGET\r\n$99999999\r\nv"],
)
def test_an_end_that_may_not_go_holds_up_what_is_before(rest: bytes) -> None:
    assert read_cut(rest, NAMES) is None
    assert read_cut(GET + rest, NAMES) is None


def test_requests_that_change_state_or_wait_are_not_shareable() -> None:
    shareable = Router().shareable
    waiting = {name for name, row in VIRTUALS.items() if row.may_wait}
    assert waiting == {"LEASE"}
    assert shareable == {
        form
        for name in VIRTUALS.keys() - STATEFUL.keys() - waiting
        for form in (name.encode(), name.lower().encode())
    } | {name for name in shareable if name.upper().decode() not in VIRTUALS}
    assert not {name.upper().decode() for name in shareable} & {*STATEFUL, "BLPOP", "LEASE"}
