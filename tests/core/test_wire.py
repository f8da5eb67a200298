"""The framing of requests: however a stream is cut, the same commands come out."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttlproxy.wire import Requests, encode
from ttlproxy.wire.requests import LARGE_BULK
from ttlproxy.wire.scanner import MAX_LINE, split_inline

WORDS = st.lists(st.binary(max_size=40), min_size=1, max_size=5).map(tuple)
SILENT = st.sampled_from([b"\r\n", b"\n", b"*0\r\n", b"*-1\r\n", b"   \r\n"])
INLINE = st.sampled_from([b"PING\r\n", b"get a\n", b"set \"a b\" 'c'\r\n", b'x "\\x41\\n"\r\n'])
STREAMS = st.lists(st.one_of(WORDS.map(encode), SILENT, INLINE), max_size=12).map(b"".join)


def _read(pieces: list[bytes]) -> tuple[list[list[bytes]], bytes, Requests]:
    requests = Requests()
    commands: list[list[bytes]] = []
    raw = b""
    for piece in pieces:
        commands += requests.feed(piece)
        raw += requests.raw
    return commands, raw, requests


def _cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[a:b] for a, b in itertools.pairwise(places)]


@given(STREAMS, st.lists(st.integers(0, 10_000), max_size=20))
def test_a_stream_gives_the_same_commands_however_it_is_cut(stream: bytes, cuts: list[int]) -> None:
    whole, raw, _ = _read([stream])
    assert raw == stream
    pieces, raw_of_pieces, requests = _read(_cut(stream, cuts))
    assert pieces == whole
    assert raw_of_pieces == stream
    assert not requests.pending


@given(st.lists(WORDS, min_size=1, max_size=8))
def test_commands_come_out_as_they_were_encoded(commands: list[tuple[bytes, ...]]) -> None:
    assert _read([b"".join(map(encode, commands))])[0] == [list(words) for words in commands]


@given(st.lists(WORDS, min_size=1, max_size=6), st.data())
def test_only_whole_requests_are_given_on(
    commands: list[tuple[bytes, ...]], data: st.DataObject
) -> None:
    last = encode(commands[-1])
    kept = data.draw(st.integers(0, len(last) - 1))
    head = b"".join(map(encode, commands[:-1]))
    found, raw, requests = _read([head + last[:kept]])
    assert found == [list(words) for words in commands[:-1]]
    assert raw == head
    assert requests.pending == (kept > 0)


@given(st.lists(st.one_of(WORDS.map(encode), SILENT, INLINE), min_size=1, max_size=8))
def test_the_exact_reader_finds_where_each_request_ends(frames: list[bytes]) -> None:
    stream = b"".join(frames)
    requests = Requests()
    commands = requests.feed(stream)
    found = requests.exact(commands)
    assert [words for words, *_ in found] == commands
    for words, begin, end in found:
        assert _read([stream[begin:end]])[0] == [words]
        assert stream[begin:end].strip(), "no empty line belongs to a command"


def _ended(broken: bytes, cut: int) -> tuple[bytes, Requests]:
    """What is forwarded of a request, `broken` cut into two pieces, and another request."""
    requests = Requests()
    raw = b""
    for piece in (encode((b"PING",)) + broken[:cut], broken[cut:], b"PING\r\n"):
        assert requests.exact(requests.feed(piece)) in ([], [([b"PING"], 0, 14)])
        raw += requests.raw
    return raw, requests


@pytest.mark.parametrize(
    "broken",
    [
        b"*1\r\n:5\r\n",
        b"*1\r\n*1\r\n",
        b"*1\r\n$-1\r\n",
        b"*x\r\n",
        b"*01\r\n",
        b"*1\r\n$05\r\n",
    ],
)
def test_a_request_that_redis_refuses_is_the_last_that_it_gets(broken: bytes) -> None:
    for cut in range(len(broken) + 1):
        raw, requests = _ended(broken, cut)
        assert raw == encode((b"PING",)) + broken
        assert requests.relay
        assert requests.refused


@pytest.mark.parametrize("line", [b'get "a\r\n', b'get "a"b\r\n', b"get 'a'\"b\"\n"])
def test_a_line_that_only_some_servers_take_becomes_one_that_none_does(line: bytes) -> None:
    for cut in range(len(line) + 1):
        raw, requests = _ended(line, cut)
        assert raw == encode((b"PING",)) + b'"\r\n'
        assert requests.refused


@pytest.mark.parametrize(
    "broken",
    [
        b"*1\r\n$536870913\r\n",
        b"*1048577\r\n",
        b"get \0\r\n",
        b"*" + b"1" * MAX_LINE,
        b"x" * (MAX_LINE + 1),
    ],
)
def test_a_request_that_some_servers_refuse_goes_on_unread_and_so_does_all_after_it(
    broken: bytes,
) -> None:
    for cut in (0, 1, 2, len(broken) - 1):
        raw, requests = _ended(broken, cut)
        assert raw == encode((b"PING",)) + broken + b"PING\r\n"
        assert requests.relay
        assert not requests.refused


@pytest.mark.parametrize("kind", [b"~", b"|", b">", b"%", b"+", b":", b"_", b","])
@pytest.mark.parametrize("before", [b"", encode((b"PING",)), encode((b"SET", b"k", b"v" * 9_000))])
def test_a_reply_of_several_values_is_read_as_redis_reads_it_as_lines(
    kind: bytes, before: bytes
) -> None:
    """Else a whole request would pass as the value of another, harmless one."""
    first = {b"|": b"1", b"%": b"1"}.get(kind, b"2")
    lines = [b"$4\r\nPING", b"$10\r\nHSET h f v"]
    stream = kind + first + b"\r\n" + b"\r\n".join(lines) + b"\r\n"
    expected = [[kind + first], [b"$4"], [b"PING"], [b"$10"], [b"HSET", b"h", b"f", b"v"]]
    assert _read([before + stream])[0][bool(before) :] == expected
    assert _read([before + stream + encode((b"PING",))])[0][bool(before) :] == [
        *expected,
        [b"PING"],
    ]


def test_a_frame_that_redis_refuses_is_no_command() -> None:
    stream = encode((b"PING",)) + b"*1\r\n+PING\r\n"
    requests = Requests()
    commands = requests.feed(stream)
    assert commands == [[b"PING"]]
    assert [words for words, *_ in requests.exact(commands)] == [[b"PING"]]
    assert requests.relay
    assert requests.raw == stream
    assert requests.feed(encode((b"PING",))) == []
    assert requests.raw == b""


def _begin(requests: Requests, head: bytes) -> None:
    assert requests.feed(head) == []
    assert not requests.raw


CUTS = st.lists(st.integers(0, 100_000), max_size=9)


@given(WORDS, st.binary(max_size=8), st.lists(st.binary(max_size=40)), STREAMS, CUTS, st.booleans())
def test_a_request_that_is_streamed_or_skipped_ends_where_it_ends(
    words: tuple[bytes, ...],
    salt: bytes,
    tail: list[bytes],
    stream: bytes,
    cuts: list[int],
    skips: bool,
) -> None:
    large = salt + b"x" * (LARGE_BULK + 1)
    request = encode((*words, large, *tail))
    cut = request.index(large) + 100
    requests = Requests()
    _begin(requests, request[:cut])
    assert requests.begun == list(words)[:2]
    raw = b""
    if skips:
        requests.skip()
    else:
        raw = requests.stream()
        assert raw == request[:cut]
    commands: list[list[bytes]] = []
    for piece in _cut(request[cut:] + stream, cuts):
        found = requests.feed(piece)
        commands += found
        raw += requests.raw
        assert [words for words, *_ in requests.exact(found)] == found
    assert not requests.streams
    assert raw == (stream if skips else request + stream)
    assert commands == _read([stream])[0]


def test_the_exact_reader_begins_behind_what_is_streamed() -> None:
    large, ping = b"x" * (LARGE_BULK + 1), encode((b"PING",))
    request = encode((b"SET", b"k", large))
    requests = Requests()
    _begin(requests, request[:-100])
    requests.stream()
    commands = requests.feed(request[-100:] + ping)
    assert commands == [[b"PING"]]
    ((words, begin, end),) = requests.exact(commands)
    assert words == [b"PING"]
    assert requests.raw[begin:end] == ping


@pytest.mark.parametrize("cut", range(6))
def test_redis_does_not_look_behind_the_cr_of_a_header(cut: int) -> None:
    large, ping = b"x" * (LARGE_BULK + 1), encode((b"PING",))
    request = b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%b\r\n$1\rZa\r\n" % (len(large), large)
    end = len(request) - cut
    requests = Requests()
    _begin(requests, request[:100])
    requests.stream()
    assert requests.feed(request[100:end]) == []
    assert requests.feed(request[end:] + ping) == [[b"PING"]]
    assert not requests.relay


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("cut", [0, 1, 2])
@pytest.mark.parametrize("broken", [b":5\r\n", b"$-1\r\n", b"$" + b"1" * 40, b"*1\r\n"])
def test_a_stream_that_turns_out_to_be_no_request_ends_the_reading(
    broken: bytes, cut: int, skips: bool
) -> None:
    head = b"*3\r\n$3\r\nSET\r\n$100000\r\n"
    requests = Requests()
    _begin(requests, head + b"x" * 10)
    raw = b""
    if skips:
        requests.skip()
    else:
        raw = requests.stream()
    for piece in (b"x" * 99_990 + b"\r\n" + broken[:cut], broken[cut:], b"PING\r\n"):
        if piece:
            requests.feed(piece)
            raw += requests.raw
    assert requests.relay
    after = b"PING\r\n" * (not requests.refused)
    assert raw == (b"*1\r\n" if skips else head + b"x" * 100_000 + b"\r\n") + broken + after
    assert requests.refused == (not broken.startswith(b"$"))


def test_a_request_beyond_the_limit_is_excessive_by_its_announcement_or_as_it_comes() -> None:
    announced, coming = Requests(limit=1000), Requests(limit=1000)
    _begin(announced, b"*2\r\n$3\r\nGET\r\n$2000\r\nx")
    assert (announced.begun, announced.excessive) == ([b"GET"], True)
    _begin(coming, b"*999\r\n" + b"$5\r\nhello\r\n" * 80)
    assert (coming.begun, coming.excessive) == (None, False)
    _begin(coming, b"$5\r\nhello\r\n" * 20)
    assert (coming.begun, coming.excessive) == ([b"hello"] * 2, True)


@given(st.lists(st.binary(min_size=1, max_size=60), min_size=2, max_size=9), st.integers(0, 10_000))
def test_the_limit_of_a_request_acts_at_its_value(words: list[bytes], at: int) -> None:
    """However much of it has arrived: the announced length of a bulk string counts at once."""
    request = encode(tuple(words))
    cut = at % (len(request) - 3) + 1
    announced = len(request) - len(encode((words[-1],))) + 4
    for limit, is_excessive in ((-1, True), (0, False), (1, False)):
        requests = Requests(limit=len(request) + limit)
        _begin(requests, request[:cut])
        assert requests.excessive <= is_excessive
        if cut >= announced + len(b"$%d\r\n" % len(words[-1])):
            assert requests.excessive == is_excessive
            assert requests.kept <= len(request) + sum(map(len, words[:2]))
        assert requests.feed(request[cut:]) == [words]
        assert requests.kept == 0


def test_a_line_is_never_excessive() -> None:
    requests = Requests(limit=10)
    _begin(requests, b"GET " + b" " * 100)
    assert requests.begun is None
    assert requests.feed(b"a\r\n") == [[b"GET", b"a"]]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", []),
        (b" \t ", []),
        (b"get a", [b"get", b"a"]),
        (b"  get   a  \r", [b"get", b"a"]),
        (b'a "b c" d', [b"a", b"b c", b"d"]),
        (b'"\\x41\\n\\r\\t\\b\\a\\q\\\\"', [b"A\n\r\t\b\aq\\"]),
        (b"'it\\'s'", [b"it's"]),
        (b"'a\\n'", [b"a\\n"]),
        (b'ab"cd"', [b"abcd"]),
        (b'""', [b""]),
        (b"a'b c' f", [b"ab c", b"f"]),
        (b"a\vb\f \v\fc", [b"a\vb\f", b"c"]),
        (b"a 'b\\''", [b"a", b"b'"]),
        (b'"a"b', None),
        (b"a'b c'\"d\"", None),
        (b"'a\\'", None),
        (b'"a', None),
        (b"'a", None),
        (b'a"', None),
        (b'"a\\"', None),
    ],
)
def test_an_inline_line_is_split_as_redis_splits_it(line: bytes, words: list[bytes] | None) -> None:
    assert split_inline(line) == words
