"""The compiled core and its twin in Python: both say the same of any bytes, and the twin is right.

Where the core is not built, what compares the two is skipped.
"""

from __future__ import annotations

import shutil
import sys
import tracemalloc
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.core_fuzzer import sanitized
from tests.support.raw_client import command
from tests.support.replies import PUSH, REPLIES
from tests.support.requirements import absent
from ttlproxy.commands import ANY_KEY, KEPT_KEY, NO_KEY, ONE_KEY, READ_KEY, Router
from ttlproxy.core.keys import Keys, slot
from ttlproxy.core.write_rules import ANY_BYTE, NO_BYTE
from ttlproxy.wire import NOTHING_DUE, Names, Template, bulks, cut, encode, pieces, twin, whole
from ttlproxy.wire.reply_ends import ReplyEnds
from ttlproxy.wire.scanner import Scanner

try:
    core: Any = import_module("ttlproxy.wire._core")
except ImportError:
    core = twin

BOTH = pytest.mark.parametrize("of", [core, twin] if core is not twin else [twin])
COMPARED = pytest.mark.skipif(core is twin, reason="the core is not built: there is no compiler")

WORD = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([b"$1\r\nk\r\n", b"*1\r\n", b"v" * 99, b"w" * 1000, b"__ttl:x", b"__ttl"]),
)
NAME = st.sampled_from([b"GET", b"get", b"SET", b"MGET", b"PING", b"HMGET", b"LATER", b""])
KEY = st.sampled_from([b"", b"a", b"b", b"cart:1", b"cart", b"car", b"d"])
REQUEST = st.one_of(
    st.lists(WORD, min_size=1, max_size=9),
    st.lists(KEY, max_size=4).flatmap(lambda keys: NAME.map(lambda name: [name, *keys])),
)
FRAGMENT = st.sampled_from(
    [
        *(b"*1\r\n", b"*2\r\n", b"*01\r\n", b"*0\r\n", b"*-1\r\n", b"$1\r\n", b"$0\r\n", b"*"),
        *(b"$-1\r\n", b"$01\r\n", b"$10\r\n", b"+k\r\n", b":1\r\n", b"k", b"kk", b"\r\n", b"\n"),
        *(b"0123456789", b"GET k\r\n", b"$", b"\r", b"*1048576\r\n", b"*1048577\r\n"),
        *(b"$536870912\r\n", b"$999999999\r\n", b"*9999999999\r\n", b"$18446744073709551617\r\n"),
    ]
)
ENCODED = REQUEST.map(lambda words: encode(tuple(words)))
CHUNK = st.one_of(
    st.lists(ENCODED, max_size=5).map(b"".join),
    st.lists(ENCODED | FRAGMENT, max_size=8).map(b"".join),
    st.binary(max_size=40),
)


def _changed(data: bytes, at: int, byte: int) -> bytes:
    return data[:at] + bytes([byte]) + data[at + 1 :]


CHANGED = st.builds(_changed, CHUNK, st.integers(0, 200), st.integers(0, 255))


def _result(call: Callable[..., Any], *args: Any) -> object:
    """What a call returns, or its error."""
    try:
        return call(*args)
    except (ValueError, TypeError) as error:
        return type(error), str(error)


@given(CHUNK | CHANGED, st.integers(0, 60))
@COMPARED
def test_both_cut_the_same_requests(data: bytes, begin: int) -> None:
    assert core.cut(data) == twin.cut(data)
    assert _result(core.request_ends, data, begin) == _result(twin.request_ends, data, begin)


@given(CHUNK | CHANGED)
def test_a_cut_request_is_what_redis_reads(data: bytes) -> None:
    requests, end = twin.cut(data)
    scanner = Scanner(data)
    assert [scanner.next() for _ in requests] == requests
    assert scanner.start == end
    assert b"".join(encode(tuple(words)) for words in requests) == data[:end], "as clients send it"


@given(st.lists(ENCODED, min_size=1, max_size=6), st.integers(0, 2000))
@BOTH
def test_every_whole_request_is_cut(of: Any, encoded: list[bytes], cut: int) -> None:
    data = b"".join(encoded)
    assert pieces(data) == encoded
    assert of.request_ends(data, 0) == [
        sum(map(len, encoded[: number + 1])) for number in range(len(encoded))
    ]
    assert of.cut(data) == (whole(data), len(data))
    part = data[: min(cut, len(data) - 1)]
    requests, end = of.cut(part)
    assert end == max([at for at in (0, *of.request_ends(data, 0)) if at <= len(part)])
    assert requests == (whole(data) or [])[: len(requests)]


REPLY_PIECE = st.sampled_from(
    [
        *(b"$5\r\n", b"$-1\r\n", b"*2\r\n", b"%1\r\n", b"|1\r\n", b">1\r\n", b"+OK\r\n", b"\r"),
        *(b"|-1\r\n", b"*-1\r\n", b"$ 5\r\n", b"$1_0\r\n", b"$\r\n", b"\r\n", b"\n", b"x", b"*"),
        *(b"*999999999999999999\r\n", b"*1000000000000000000\r\n", b"$999999999999999999\r\n"),
        *(b"%999999999999999999\r\n", b"=4\r\n", b"!1\r\n", b"~1\r\n", b"(1\r\n", b"#t\r\n"),
    ]
)
STREAM = st.lists(REPLIES | st.just(PUSH) | REPLY_PIECE, max_size=8).map(b"".join)
STREAMS = st.one_of(
    STREAM,
    st.builds(_changed, STREAM, st.integers(0, 200), st.integers(0, 255)),
    st.binary(max_size=40),
)


@given(STREAMS, st.lists(st.integers(0, 200), max_size=6))
@COMPARED
def test_both_find_the_same_ends_of_replies_wherever_they_are_cut(
    data: bytes, cuts: list[int]
) -> None:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    left = size = kind = 0
    head = b""
    for begin, end in pairwise(places):
        chunk = head + data[begin:end]
        found = _result(core.reply_ends, chunk, left, size, kind)
        assert found == _result(twin.reply_ends, chunk, left, size, kind)
        assert core.whole_replies(chunk) == twin.whole_replies(chunk)
        if not isinstance(found, tuple) or len(found) != 6:
            return  # no reply
        _, _, left, size, kind, at = found
        head = chunk[at:]


@given(STREAMS)
def test_a_stream_without_a_reply_is_refused_and_nothing_is_taken_of_it(data: bytes) -> None:
    ends = ReplyEnds()
    try:
        found = ends.feed(data)
    except ValueError:
        return
    assert found == sorted(set(found))
    assert not found or found[-1] <= len(data)


KINDS = {
    b"PING": NO_KEY,
    b"MGET": ANY_KEY,
    b"SET": ONE_KEY,
    b"HMGET": KEPT_KEY,
    b"GET": READ_KEY,
    b"get": READ_KEY,
}
MANAGED = st.dictionaries(KEY, st.sampled_from([0, 5, 1 << 46, NOTHING_DUE]), max_size=3)
HEADS = st.sampled_from([(), (b"",), (b"cart:",), (b"cart", b"b"), (b"d",)])


def _begins(heads: tuple[bytes, ...]) -> tuple[bool, ...]:
    """As RuleBook makes it."""
    if b"" in heads:
        return ANY_BYTE
    return tuple(byte in {head[0] for head in heads} for byte in range(256)) if heads else NO_BYTE


@given(
    CHUNK | CHANGED, MANAGED, HEADS, HEADS, st.sampled_from([(), (b"__ttl:",), (b"x", b"__ttl")])
)
@COMPARED
def test_both_let_the_same_chunks_pass(
    data: bytes,
    managed: dict[bytes, int],
    heads: tuple[bytes, ...],
    ruled: tuple[bytes, ...],
    hidden: tuple[bytes, ...],
) -> None:
    args = (data, hidden, managed, _begins(heads), heads, ruled)
    assert core.Table(KINDS).plain(*args) == twin.Table(KINDS).plain(*args)


@BOTH
@pytest.mark.parametrize(
    ("words", "managed", "heads", "passes"),
    [
        (["PING"], {}, (), True),
        (["GET"], {}, (), True),
        (["GET"], {b"a": 9}, (), False),
        (["LATER", "a"], {}, (), False),
        (["SET", "a", "1"], {b"b": 9}, (), True),
        (["SET", "a", "1"], {b"a": 9}, (), False),
        (["HMGET", "a", "1"], {b"a": 9}, (), True),
        (["HMGET", "a", "1"], {b"a": 9}, (b"z",), True),
        (["HMGET", "a", "1"], {b"a": 9}, (b"a",), False),
        (["HMGET", "family", "1"], {}, (b"z",), True),
        (["SET", "family", "1"], {}, (b"z",), False),
        (["GET", "a"], {b"a": 9}, (b"z",), True),
        (["MGET", "b", "a"], {b"a": 9}, (), False),
        (["MGET", "b", "c"], {b"a": 9}, (), True),
        (["MGET", "b"], {}, (b"z",), True),
        (["MGET", "b", "zb"], {}, (b"z",), False),
        (["SET", "cart:1", "1"], {}, (b"cart:",), False),
        (["SET", "cart", "1"], {}, (b"cart:",), True),
        (["GET", "cart:1"], {}, (b"cart:",), True),
        (["SET", "k", "__ttl:x"], {}, (), False),
        (["SET", "k", "x__ttl:"], {}, (), True),
    ],
)
def test_a_request_passes_if_it_certainly_meets_no_deadline(
    of: Any, words: list[str], managed: dict[bytes, int], heads: tuple[bytes, ...], passes: bool
) -> None:
    data = command("PING") + command(*words)
    prefixes = (*heads, b"family") if heads else heads
    known = (managed, _begins(prefixes), prefixes, heads)
    count, first = of.Table(KINDS).plain(data, (b"__ttl:",), *known)
    assert count == 2 * passes
    reads_managed = passes and words[1:] == ["a"] and words[0] == "GET"
    keeps_managed = passes and words[:2] == ["HMGET", "a"]
    assert first == (9 if reads_managed or keeps_managed else NOTHING_DUE)


@BOTH
def test_keys_of_several_databases_are_for_python_to_look_at(of: Any) -> None:
    class Several(dict[bytes, int]):
        pass

    assert of.Table(KINDS).plain(command("PING"), (), Several(), NO_BYTE, (), ()) == (
        0,
        NOTHING_DUE,
    )


@BOTH
def test_a_table_of_all_commands_knows_each(of: Any) -> None:
    kinds = Router().passthrough | {b"x" * 64: NO_KEY, b"y" * 65: NO_KEY}
    table = of.Table(kinds)
    for name in kinds:
        known = table.plain(encode((name, b"k")), (), {}, NO_BYTE, (), ())[0]
        assert known == (len(name) <= 64), name
    assert table.plain(command("NOTHING", "k"), (), {}, NO_BYTE, (), ())[0] == 0


NAMES = Names(b"__ttl:", Keys().all_words, bulks(b"__ttl:schedule"))
WRITE = ("write", bulks(b"1" * 40), bulks(b"HSET"), 1, b"", False, 0)
SCORED = ("add", bulks(b"2" * 40), b"", 0, b"+1", False, 0)
DATED = ("set", bulks(b"3" * 40), bulks(b"0 saddex", b"04102444800000"), 2, b"", True, 20)
SETS = ("set", bulks(b"3" * 40), bulks(b"0 saddex", b"0+100"), 2, b"", True, 0)


def head(count: int, *words: bytes) -> bytes:
    """How a request of so many words begins, without its key."""
    return b"*%d\r\n%b" % (count, bulks(*words))


ALL_HEADS: dict[bytes, int | Template] = {
    head(3, b"HSET"): WRITE,
    head(4, b"HSET"): WRITE,
    head(2, b"hset"): WRITE,
    head(4, b"ZADD"): SCORED,
    head(2, b"ZADD"): SCORED,
    head(5, b"SADDEX"): 3,
    head(5, b"SADDEX", b"100"): SETS,
    head(6, b"SADDEX"): 4,
    head(6, b"SADDEX", b"PXAT", b"#" * 13) + b"#": DATED,
    head(6, b"SADDEX", b"EXAT", b"#" * 10) + b"#": (*DATED[:6], 99),
    head(6, b"SADDEX", b"EXAT", b"1111111111"): SETS,
    head(4, b"HEXP"): 2,
    head(4, b"HEXP", b"100"): SETS,
    head(3, b"HEXP"): 2,
    head(5, b"HEXP"): 9,
    head(6, b"HEXP"): 1,
    head(6, b"HSET"): 4,
    head(3, b"SADDEX"): 2,
    head(3, b"SADDEX", b""): SETS,
}
CALLED = st.sampled_from([b"HSET", b"ZADD", b"SADDEX", b"HEXP", b"GET", b"PING", b"hset", b"SET"])
CALL_WORD = st.sampled_from(
    [
        b"100",
        b"PXAT",
        b"EXAT",
        b"1111111111",
        b"4102444800001",
        b"#" * 10,
        b"+1",
        b"a",
        b"",
        b"__ttl:x",
        b"cart:1",
        b"v" * 300,
        b"{a}",
    ]
)
CALL_KEY = st.sampled_from([b"cart:1", b"cart:2", b"b", b"{cart:}b", b"{}b", b"", b"other"])
CALL = st.builds(
    lambda name, key, words: encode((name, key, *words)),
    CALLED,
    CALL_KEY,
    st.lists(CALL_WORD, max_size=4),
)
CALLS = st.one_of(
    st.lists(CALL, min_size=1, max_size=6).map(b"".join),
    st.builds(
        _changed,
        st.lists(CALL, min_size=1, max_size=2).map(b"".join),
        st.integers(0, 99),
        st.integers(0, 255),
    ),
    st.lists(CALL | FRAGMENT, max_size=4).map(b"".join),
)
BOUNDS = st.dictionaries(CALL_KEY, st.sampled_from([0, 5, 1 << 46]), max_size=3)
FAMILIES = st.sampled_from([(b"cart:", b"{"), (b"",), (b"b",), ()])


@given(
    CALLS,
    st.sets(st.sampled_from([*ALL_HEADS]), max_size=4),
    BOUNDS,
    FAMILIES,
    st.sampled_from([(b"cart:",), (b"",), ()]),
    st.sampled_from([(), (), (b"cart:2",), (b"",), (b"b", b"{")]),
    st.sampled_from([0, 5, NOTHING_DUE]),
    st.sampled_from([0, 5, 9]),
    st.sampled_from([1, 2, 128]),
    st.booleans(),
)
@COMPARED
def test_both_make_the_same_calls(
    data: bytes,
    unknown: set[bytes],
    bounds: dict[bytes, int],
    families: tuple[bytes, ...],
    sure: tuple[bytes, ...],
    ruled: tuple[bytes, ...],
    other: int,
    now: int,
    most: int,
    may_stop: bool,
) -> None:
    heads = {name: became for name, became in ALL_HEADS.items() if name not in unknown}
    hidden = (b"__ttl:",)
    prefixes, begins = (*families, *ruled), _begins((*families, *ruled))
    known = (bounds, begins, prefixes, families, sure, ruled)
    args = (data, heads, hidden, *known, NAMES, other, now, most, may_stop)
    assert core.Table(KINDS).calls(*args) == twin.Table(KINDS).calls(*args)


def _called(of: Any, *requests: tuple[str, ...], **changed: Any) -> Any:
    data = b"".join(command(*words) for words in requests)
    args: dict[str, Any] = {
        "heads": ALL_HEADS,
        "hidden": (b"__ttl:",),
        "managed": {b"cart:due": 1},
        "first_bytes": ANY_BYTE,
        "prefixes": (b"cart:", b"rule:"),
        "families": (b"cart:",),
        "sure": (b"cart:",),
        "ruled": (b"rule:", b"cart:ruled"),
        "names": NAMES,
        "other": NOTHING_DUE,
        "now": 5,
        "most": 128,
        "may_stop": False,
    }
    return of.Table(KINDS).calls(data, *(args | changed).values())


@BOTH
def test_requests_become_calls_of_their_scripts(of: Any) -> None:
    write, date = ("HSET", "cart:1", "f", "v"), ("HEXP", "cart:{t}", "f", "100")
    to_redis, requests, calls, writes, setters, stops = _called(of, write, ("PING",), date, write)
    index = Keys().index(b"cart:1")
    schedule = b"__ttl:schedule"
    written = (b"EVALSHA", b"1" * 40, b"3", b"cart:1", index, schedule, b"HSET", b"f", b"v")
    dated = (b"EVALSHA", b"3" * 40, b"3", b"cart:{t}", b"__ttl:t:cart:{t}", schedule)
    expected = [written, (b"PING",), (*dated, b"0 saddex", b"0+100", b"f"), written]
    assert cut(to_redis)[0] == list(map(list, expected))
    assert calls == [("write", 0, 1), ("set", 2, 1), ("write", 3, 1)]
    assert (requests, writes, setters, stops) == (4, 2, 1, False)


@BOTH
def test_requests_in_a_row_become_one_call(of: Any) -> None:
    write = ("HSET", "cart:1", "f", "v")
    index, schedule = Keys().index(b"cart:1"), b"__ttl:schedule"
    keys = (schedule, *2 * (b"cart:1", index))
    argv = 2 * (b"3", b"HSET", b"f", b"v")
    found = _called(of, write, write, write, most=2)
    (first, second), _ = cut(found[0])
    assert first == [b"EVALSHA", b"1" * 40, b"5", *keys, *argv]
    assert second[2] == b"3"
    assert found[1:] == (2, [("write", 0, 2), ("write", 1, 1)], 3, 0, False)
    stopping, *counts = _called(of, write, write, other=1, may_stop=True)
    assert cut(stopping)[0] == [[b"EVALSHA", b"1" * 40, b"6", *keys, schedule, *argv]]
    assert counts == [1, [("write", 0, 2)], 2, 0, True]


@BOTH
@pytest.mark.parametrize(
    ("requests", "changed"),
    [
        ([("GET", "b")], {}),
        ([("HSET", "cart:due", "f", "v")], {}),
        ([("HSET", "cart:1", "f", "v")], {"other": 1}),
        ([("HSET", "cart:1", "f", "v"), ("PING",)], {"other": 1, "may_stop": True}),
        ([("HSET", "cart:1", "f", "v")] * 2, {"other": 1, "may_stop": True, "most": 1}),
        ([("HSET", "cart:1", "f", "v", "g")], {}),
        ([("HSET", "b", "f", "v"), ("GET", "b")], {}),
        ([("HSET", "cart:1", "f", "v"), ("HSET", "cart:ruled", "f", "v")], {}),
        ([("HSET", "cart:1", "f", "v"), ("SET", "rule:1", "v")], {}),
        ([("SADDEX", "cart:1", "100", "a", "b")], {"sure": ()}),
        ([("SADDEX", "b", "100", "a", "b")], {}),
        ([("SADDEX", "cart:1", "101", "a", "b")], {}),
        ([("SADDEX", "cart:1", "100", "a", "b"), ("GET", "cart:1")], {}),
        ([("SADDEX", "cart:1", "100", "a", "b")] * 129 + [("GET", "cart:2")], {}),
        (
            [("SADDEX", f"cart:{each}", "100", "a", "b") for each in range(128)]
            + [("GET", "cart:127")],
            {},
        ),
        ([("ZADD", "cart:1", "NX", "a")], {}),
        ([("ZADD", "cart:1")], {}),
        ([("HSET", "cart:1", "f", "v"), ("SET", "cart:1", "v")], {}),
        ([("HSET", "cart:1", "f", "v"), ("GET", "__ttl:x")], {}),
        ([("HSET", "cart:1", "f", "v"), ("LATER", "b")], {}),
    ],
)
def test_python_looks_at_what_is_not_certain(
    of: Any, requests: list[tuple[str, ...]], changed: dict[str, Any]
) -> None:
    assert _called(of, *requests, **changed) is None


@BOTH
@pytest.mark.parametrize("number", ["1111111111111", "4102444800001"])
def test_another_number_goes_into_the_hole(of: Any, number: str) -> None:
    found = _called(of, ("SADDEX", "cart:1", "PXAT", number, "a", "b"))
    ((*_, origin, how, one, other),) = cut(found[0])[0]
    assert (origin, how, one, other) == (b"0 saddex", b"0" + number.encode(), b"a", b"b")


@BOTH
@pytest.mark.parametrize("word", ["0102444800001", "#" * 13, "410244480000", "41024448000010"])
def test_no_other_word_does(of: Any, word: str) -> None:
    assert _called(of, ("SADDEX", "cart:1", "PXAT", word, "a", "b")) is None


@BOTH
def test_a_key_without_deadlines_is_written_as_it_came(of: Any) -> None:
    requests = [("SADDEX", "cart:1", "100", "a", "b"), ("SET", "b", "v"), ("GET", "cart:2")]
    to_redis, count, calls, *_ = _called(of, *requests)
    assert (count, calls) == (3, [("set", 0, 1)])
    assert to_redis.endswith(command("SET", "b", "v") + command("GET", "cart:2"))


@BOTH
@given(st.binary(max_size=20) | CALL_KEY)
def test_the_name_of_an_index_is_in_the_slot_of_its_key(of: Any, key: bytes) -> None:
    name = of.index_name(b"__ttl:", NAMES[1], key)
    assert slot(name) == slot(key)
    assert name.startswith(b"__ttl:")
    assert name.endswith(key)
    assert Keys().data(name) == key


@COMPARED
@pytest.mark.parametrize(
    "call",
    [
        lambda: core.index_name("p", NAMES[1], b"k"),
        lambda: _called(core, ("HSET", "cart:1", "a"), heads={head(3, b"HSET"): (1, 2)}),
        lambda: _called(core, ("HSET", "cart:1", "a"), heads={head(3, b"HSET"): "x"}),
        lambda: _called(core, ("HSET", "cart:1", "a"), heads=[]),
        lambda: _called(core, ("HSET", "cart:1", "a"), sure=("cart:",)),
        lambda: _called(core, ("HSET", "cart:1", "a"), families=(1,)),
        lambda: _called(core, ("HSET", "cart:1", "a"), first_bytes=(True,)),
        lambda: _called(core, ("HSET", "cart:1", "a"), managed={b"cart:1": "x"}),
        lambda: core.cut("text"),
        lambda: core.request_ends("text", 0),
        lambda: core.request_ends(b"", "0"),
        lambda: core.request_ends(b""),
        lambda: core.reply_ends("text", 0, 0, 0),
        lambda: core.whole_replies("text"),
        lambda: core.reply_ends(b"", 0),
        lambda: core.Table([]),
        lambda: core.Table({"GET": 0}),
        lambda: core.Table({b"GET": "0"}),
        lambda: core.Table(KINDS).plain(b"", (), {}, NO_BYTE, ()),
        lambda: core.Table(KINDS).plain(b"", (), {}, NO_BYTE, (), (1,)),
        lambda: core.Table(KINDS).plain("", (), {}, NO_BYTE, (), ()),
        lambda: core.Table(KINDS).plain(b"", ("x",), {}, NO_BYTE, (), ()),
        lambda: core.Table(KINDS).plain(b"", (), {}, (True,), (), ()),
        lambda: core.Table(KINDS).plain(command("GET", "a"), (), {b"a": "b"}, NO_BYTE, (), ()),
    ],
)
def test_a_wrong_argument_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(TypeError):
        call()


@BOTH
@pytest.mark.parametrize(("left", "size"), [(-1, 0), (0, -1), (1 << 62, 0)])
def test_a_wrong_position_is_refused(of: Any, left: int, size: int) -> None:
    with pytest.raises(ValueError, match="out of range"):
        of.reply_ends(b"+OK\r\n", left, size, 0)
    with pytest.raises(ValueError, match="outside"):
        of.request_ends(b"", 1)


@COMPARED
def test_tags_of_fewer_slots_are_refused() -> None:
    with pytest.raises(ValueError, match="each slot needs a tag"):
        core.index_name(b"__ttl:", b"", b"k")


@BOTH
def test_no_memory_is_taken_for_a_number_in_a_header(of: Any) -> None:
    headers = [b"*1048576\r\n", b"*999999999\r\n", b"*1\r\n$536870912\r\n", b"*9\r\n$1\r\nk\r\n"]
    tracemalloc.start()
    try:
        for header in headers:
            assert of.cut(header) == ([], 0)
            assert of.Table(KINDS).plain(header, (), {}, NO_BYTE, (), ()) == (0, NOTHING_DUE)
        reply = b"*999999999999999999\r\n$999999999999999999\r\n"
        assert of.reply_ends(reply, 0, 0, 0)[0] == []
        assert tracemalloc.get_traced_memory()[1] < 256 * 1024
    finally:
        tracemalloc.stop()


@COMPARED
def test_calls_leave_no_memory_behind() -> None:
    table = core.Table(KINDS)
    data = command("GET", "a") * 50 + b"*2\r\n$3\r\nGET\r\n$1"
    replies = b"*2\r\n$1\r\na\r\n:1\r\n" * 50 + b"?"

    def calls() -> None:
        core.cut(data)
        core.request_ends(data, 0)
        _result(core.reply_ends, replies, 0, 0, 0)
        core.whole_replies(replies)
        table.plain(data, (b"__ttl:",), {b"a": 1 << 50}, NO_BYTE, (), ())
        _called(core, *[("HSET", "cart:1", "f", "v"), ("GET", "b")] * 50)
        _called(core, *[("HSET", "cart:1", "f", "v")] * 50, ("SET", "cart:1", "v"))
        core.index_name(b"__ttl:", NAMES[1], b"key")
        _result(table.plain, data, (), {b"a": None}, NO_BYTE, (), ())
        core.Table(KINDS)

    calls()
    before = sys.getallocatedblocks()
    for _ in range(1000):
        calls()
    assert sys.getallocatedblocks() - before < 200


@pytest.mark.timeout(600)  # it compiles the core
def test_random_bytes_break_nothing_under_the_sanitizers() -> None:
    if shutil.which("gcc") is None or core is twin:
        absent("cc", "no gcc here, or no headers of Python")
    done = sanitized("--inputs", "20000")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20000 inputs, no difference" in done.stdout
