"""Reads that are checked on the client's own connection, without sockets: which chunks are checked,
and what the client gets, however the replies are cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.session_world import KEYS, NOW_MS, RULES, SCRIPTS
from ttlproxy.core.counters import Handled
from ttlproxy.core.families import ALL, Known
from ttlproxy.core.knowledge import Knowledge
from ttlproxy.core.permissions import Rights
from ttlproxy.proxy.checked_reads import CheckedReads
from ttlproxy.proxy.reply_queue import ReplyQueue
from ttlproxy.scripts.script_calls import ScriptCalls
from ttlproxy.session import AskingSession
from ttlproxy.wire import Requests, encode

NONE, SOME, REFUSED = b":0\r\n", b":2\r\n", b"-NOPERM no\r\n"
# Of each kind: with line breaks, what looks like a check, an error, nested, RESP3, nulls.
REPLIES = (
    b"$5\r\n:0\r\nx\r\n",
    b"$0\r\n\r\n",
    b"$-1\r\n",
    b":0\r\n",
    b"-WRONGTYPE no\r\n",
    b"*3\r\n$1\r\na\r\n*0\r\n:1\r\n",
    b"%1\r\n+f\r\n~2\r\n_\r\n#t\r\n",
    b"$3000\r\n" + b"v" * 3000 + b"\r\n",
)


def read(key: str) -> bytes:
    return encode((b"SISMEMBER", key.encode(), b"m"))


def write(key: str) -> bytes:
    return encode((b"APPEND", key.encode(), b"v"))


class Path:
    """A client's way to a Redis that the test is: what came to it waits in `at_redis`."""

    def __init__(self) -> None:
        families = Known()
        families.learn([ALL])
        self.knowledge = Knowledge(1 << 20, families=families)
        self.knowledge.families_changed()
        self.counts = Handled()
        self.session = AskingSession(
            RULES,
            ScriptCalls(SCRIPTS, KEYS, bytes),
            self.knowledge.asker((0,)),  # type: ignore[arg-type]
            Rights(),
            lambda: NOW_MS,
            1 << 30,
            self.counts,
            lambda: True,
            lambda: False,
        )
        self.replies = ReplyQueue(self._got)
        self.reads = CheckedReads(
            self.session, self.knowledge, self.replies, self.counts, self._go_on
        )
        self.is_held = False
        self.got = b""  # by the client
        self.at_redis: list[list[bytes]] = []
        self._early = b""

    def say(self, *chunks: bytes) -> None:
        for chunk in chunks:
            if self.is_held:
                self._early += chunk
            else:
                self._handle(chunk)

    def answer(self, *replies: bytes) -> None:
        """Redis answers its oldest requests."""
        del self.at_redis[: len(replies)]
        self.take(b"".join(replies))

    def take(self, data: bytes) -> None:
        """Bytes come from Redis."""
        self.replies.takes(data)

    @property
    def is_checked(self) -> bool:
        return any(words[0] == b"EXISTS" for words in self.at_redis)

    def believed(self) -> tuple[int, ...]:
        """The databases that the client may be in."""
        return self.session.databases

    def _handle(self, chunk: bytes) -> None:
        if count := self.session.passes(chunk):
            self.replies.expect(count)
            self._send(chunk)
        elif (checked := self.reads.checked(chunk)) is not None:
            self.is_held = True
            self._send(checked)
        else:
            self._look_up(self.session.unmet(chunk))
            step = self.session.from_client(chunk)
            if step.uncounted:
                self.replies.relay()
            for told in step.told:
                self.replies.tell(told)
            self.replies.expect(step.requests)
            self._send(step.to_redis)

    def _look_up(self, places: Sequence[tuple[int, bytes]]) -> None:
        finding = self.knowledge.begin_finding()
        self.knowledge.learn(finding, 0, dict.fromkeys(key for _, key in places))
        self.knowledge.end_finding(finding)

    def _send(self, data: bytes) -> None:
        self.at_redis += Requests().feed(data)

    def _got(self, data: bytes) -> None:
        self.got += data

    def _go_on(self, again: bytes) -> None:
        self.is_held = False
        early, self._early = again + self._early, b""
        if early:
            self._handle(early)


@pytest.fixture
def path() -> Path:
    return Path()


def test_the_reply_to_the_check_is_kept_back(path: Path) -> None:
    path.say(read("a") + read("b"))
    assert path.at_redis == [
        [b"EXISTS", KEYS.index(b"a"), KEYS.index(b"b")],
        [b"SISMEMBER", b"a", b"m"],
        [b"SISMEMBER", b"b", b"m"],
    ]
    path.answer(NONE, b":1\r\n", b":0\r\n")
    assert path.got == b":1\r\n:0\r\n"
    assert path.counts.forwarded == 2


@pytest.mark.parametrize("reply", [SOME, REFUSED])
def test_replies_that_may_be_wrong_are_dropped_and_the_reads_given_again(
    path: Path, reply: bytes
) -> None:
    path.say(read("a"), write("behind"))
    path.answer(reply, b":1\r\n")
    assert path.got == b""
    names = [words[:2] for words in path.at_redis]
    assert names == [[b"SISMEMBER", b"a"], [b"APPEND", b"behind"]], "in this order, not checked"
    path.answer(b":0\r\n", b":1\r\n")
    assert path.got == b":0\r\n:1\r\n"


def test_nothing_follows_until_the_check_is_answered(path: Path) -> None:
    path.say(read("a"), read("b"), write("c"))
    assert len(path.at_redis) == 2
    path.answer(NONE)
    assert [words[0] for words in path.at_redis] == [b"SISMEMBER"]
    path.answer(b":1\r\n")
    assert [words[0] for words in path.at_redis] == [b"SISMEMBER", b"APPEND"]


def test_a_part_of_a_value_that_looks_like_a_reply_is_none(path: Path) -> None:
    path.say(write("w"))
    path.take(b"$9\r\n")
    path.say(read("a"))
    path.take(b":0\r\n")
    assert path.is_held
    path.take(b":0\r\n-\r\n" + NONE + b":1\r\n")
    assert path.got == b"$9\r\n:0\r\n:0\r\n-\r\n:1\r\n"
    assert not path.is_held


def test_a_key_that_is_named_again_is_looked_up(path: Path) -> None:
    path.say(read("a"))
    path.answer(NONE, b":1\r\n")
    path.say(read("b") + read("a"))
    assert not path.is_checked
    path.answer(b":1\r\n", b":1\r\n")
    path.say(read("c"))
    assert path.is_checked


def test_after_keys_with_deadlines_the_next_ones_are_looked_up(path: Path) -> None:
    path.say(read("a"))
    path.answer(SOME, b":1\r\n")
    path.answer(b":1\r\n")
    looked_up = 0
    while not path.is_checked:
        path.say(read(f"k:{looked_up}"))
        if not path.is_checked:
            looked_up += 1
            path.answer(b":1\r\n")
    assert looked_up == 15, "and the first one"


@pytest.mark.parametrize(
    "chunk",
    [
        encode((b"CLIENT", b"REPLY", b"SKIP")),
        encode((b"MONITOR",)),
        encode((b"PSYNC", b"?", b"-1")),
        b"*1048577\r\n",
    ],
)
def test_nothing_is_checked_where_replies_cannot_be_counted(path: Path, chunk: bytes) -> None:
    path.say(chunk, read("a"))
    assert path.replies.relays
    assert not path.is_checked


def test_in_a_transaction_nothing_is_checked(path: Path) -> None:
    path.say(encode((b"MULTI",)))
    path.answer(b"+OK\r\n")
    path.say(read("a"))
    assert not path.is_checked


@pytest.mark.parametrize("key", ["__ttl:schedule", "ttlproxy-state:__ttl:"])
def test_internal_keys_are_not_checked(path: Path, key: str) -> None:
    path.say(read(key))
    assert not path.is_checked


def test_another_reply_to_the_check_ends_the_connection(path: Path) -> None:
    path.say(read("a"))
    with pytest.raises(RuntimeError, match="EXISTS"):
        path.take(b"$1\r\nx\r\n")


@pytest.mark.parametrize("refusal", [b"-ERR max number of clients reached\r\n", b"-DENIED x\r\n"])
def test_the_client_hears_why_redis_refuses_the_connection(path: Path, refusal: bytes) -> None:
    path.say(read("a"))
    path.take(refusal[:20])
    path.take(refusal[20:])
    assert path.got == refusal


chunks_of_reads = st.lists(st.integers(0, 60).map(lambda n: read(f"k:{n}")), min_size=1, max_size=4)
chunks = st.one_of(
    chunks_of_reads.map(b"".join),
    st.integers(0, 3).map(lambda n: write(f"w:{n}")),
    st.sampled_from([encode((b"PING",)), encode((b"HELLO", b"3")), encode((b"MULTI",))]),
)


@given(said=st.lists(chunks, min_size=1, max_size=8), data=st.data())
def test_the_client_gets_the_replies_to_its_requests_in_order(
    said: Sequence[bytes], data: st.DataObject
) -> None:
    """Whatever the checks say, in whichever pieces replies come, whenever the client sends."""
    path, on_its_way, wanted, left = Path(), b"", list[bytes](), list(said)
    while left or on_its_way or path.at_redis:
        if left and (not on_its_way or data.draw(st.booleans())):
            path.say(left.pop(0))
        requests, path.at_redis = path.at_redis, []
        replies = [REPLIES[(len(wanted) + at) % len(REPLIES)] for at in range(len(requests))]
        checks = [at for at, words in enumerate(requests) if words[0] == b"EXISTS"]
        for at in checks:  # one at most, whose reads are the last ones
            replies[at] = data.draw(st.sampled_from([NONE, SOME, REFUSED]))
        # In MULTI one of ours says what the scripts need.
        theirs = [
            b"" if words[0] == b"ZREM" else reply
            for words, reply in zip(requests, replies, strict=True)
        ]
        for at in checks:
            wanted += theirs[:at] + (theirs[at + 1 :] if replies[at] == NONE else [])
        if not checks:
            wanted += theirs
        on_its_way += b"".join(replies)
        kept = data.draw(st.integers(0, min(len(on_its_way) - 1, 40)))
        come = len(on_its_way) - kept
        path.take(on_its_way[:come])
        on_its_way = on_its_way[come:]
    assert path.got == b"".join(wanted)
    assert not path.is_held


@pytest.mark.parametrize(
    ("requests", "replies", "databases"),
    [
        (["SELECT 3"], [b"+OK\r\n"], (3,)),
        (["select 3"], [b"+OK\r\n"], (3,)),
        (["SELECT 3"], [b"-ERR DB index is out of range\r\n"], (0,)),
        (["SELECT 3", "SELECT 5"], [b"+OK\r\n"] * 2, (5,)),
        (["SELECT 3", "SELECT 5"], [b"+OK\r\n", b"-NOPERM no\r\n"], (3,)),
        (["SELECT 3", "SELECT x"], [b"+OK\r\n", b"-ERR no\r\n"], (3,)),
        (["PING", "SELECT 3", "PING"], [b"+PONG\r\n", b"+OK\r\n", b"+PONG\r\n"], (3,)),
        (["PING", "SELECT 3", "PING"], [b"+OK\r\n", b"-NOPERM no\r\n", b"+OK\r\n"], (0,)),
        (["MULTI", "SELECT 3", "DISCARD"], [b"+OK\r\n", b"+QUEUED\r\n", b"+OK\r\n"], (3, 0)),
        (["SELECT 3", "SUBSCRIBE c"], [b"+OK\r\n"], (3,)),
        (["SELECT 3", "MONITOR"], [b"+OK\r\n"], (3, 0)),
        (["SELECT 3", "RESET"], [b"+OK\r\n", b"+RESET\r\n"], (0,)),
    ],
)
def test_the_reply_to_a_select_tells_which_database_it_is(
    path: Path, requests: list[str], replies: list[bytes], databases: tuple[int, ...]
) -> None:
    path.say(b"".join(encode(tuple(words.encode().split())) for words in requests))
    path.answer(*replies)
    assert path.believed() == databases
    assert path.got == b"".join(replies)


def test_a_select_that_is_answered_late_tells_it_too(path: Path) -> None:
    path.say(encode((b"SELECT", b"3")), encode((b"SELECT", b"5")), write("h"))
    path.answer(b"+OK\r\n")
    assert path.believed() == (5, 3)
    path.answer(b"+OK\r\n", b":1\r\n")
    assert path.believed() == (5,)
    assert path.session.database == b"5"


def test_a_reply_that_is_cut_is_believed_once_its_line_is_whole(path: Path) -> None:
    path.say(encode((b"SELECT", b"3")))
    path.take(b"+O")
    assert path.believed() == (3, 0)
    path.take(b"K\r\n")
    assert path.believed() == (3,)
    assert path.got == b"+OK\r\n"
