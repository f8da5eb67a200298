"""What is due is asked on the client's own connection, without sockets: which chunks are checked,
or are calls that may stop, and what the client gets, however the replies are cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.session_world import KEYS, NOW_MS, RULES, SCRIPTS, passes
from ttlproxy.core.counters import Handled
from ttlproxy.core.families import ALL, Known
from ttlproxy.core.permissions import Rights
from ttlproxy.core.registry import DbKey, Registry
from ttlproxy.core.write_rules import WriteRule, WriteRules, name_of
from ttlproxy.proxy.checks import Checks
from ttlproxy.proxy.reply_queue import ReplyQueue
from ttlproxy.scripts.script_calls import ScriptCalls
from ttlproxy.session import Session
from ttlproxy.wire import Requests, encode

DUE, NOT_DUE = b"%d" % (NOW_MS - 1), b"%d" % NOW_MS
# What Redis answers who may not read the schedule, or where something else is in its place.
REFUSED, WRONG = b"-NOPERM no\r\n", b"-WRONGTYPE no\r\n"
# In MULTI one of these says what the scripts need; the client does not get its reply.
DECLARING = (b"ZADD", b"ZREM")
# Of each kind: with line breaks, what looks like a check, an error, nested, RESP3, nulls.
REPLIES = (
    b"$5\r\n*1\r\nx\r\n",
    b"$0\r\n\r\n",
    b"$-1\r\n",
    b":0\r\n",
    b"-WRONGTYPE no\r\n",
    b"*3\r\n$1\r\na\r\n*0\r\n:1\r\n",
    b"%1\r\n+f\r\n~2\r\n_\r\n#t\r\n",
    b"$3000\r\n" + b"v" * 3000 + b"\r\n",
)


def scores(*found: bytes | None) -> bytes:
    """A reply to ZMSCORE in RESP2."""
    bulks = [b"$-1" if each is None else b"$%d\r\n%b" % (len(each), each) for each in found]
    return b"\r\n".join([b"*%d" % len(found), *bulks, b""])


def doubles(*found: bytes | None) -> bytes:
    """The same in RESP3."""
    lines = [b"_" if each is None else b",%b" % each for each in found]
    return b"\r\n".join([b"*%d" % len(found), *lines, b""])


def read(key: str) -> bytes:
    return encode((b"SISMEMBER", key.encode(), b"m"))


def write(key: str) -> bytes:
    return encode((b"APPEND", key.encode(), b"v"))


def add(key: str) -> bytes:
    """A write that becomes a script call."""
    return encode((b"SADD", key.encode(), b"m"))


def add_dated(key: str) -> bytes:
    return encode((b"SADDEX", key.encode(), b"100", b"m"))


class Path:
    """A client's way to a Redis that the test is: what came to it waits in `at_redis`.

    reaped: for which places its requests have waited
    """

    def __init__(self, family: bytes = ALL) -> None:
        families = Known()
        families.add([family])
        # Nothing was read: something may be due in each key.
        self.registry = Registry(families=families)
        self.registry.families_changed()
        self.counts, self.rights = Handled(), Rights()
        self.rights.trusts_schedules = True
        SCRIPTS.loaded = True
        self.script_calls = ScriptCalls(SCRIPTS, KEYS, bytes)
        self.script_calls.families.confirm([ALL])
        self.session = Session(
            RULES,
            self.script_calls,
            self.registry.view((0,)),
            self.rights,
            lambda: NOW_MS,
            1 << 30,
            self.counts,
            lambda: False,
        )
        self.replies = ReplyQueue(self._got)
        self.checks = Checks(self.session, self.replies, self.counts, lambda: NOW_MS, self._go_on)
        self.is_held = False
        self.got = b""  # by the client
        self.at_redis: list[list[bytes]] = []
        self.reaped: list[DbKey] = []
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
        return any(words[0] == b"ZMSCORE" for words in self.at_redis)

    @property
    def names(self) -> list[bytes]:
        return [words[0] for words in self.at_redis]

    def believed(self) -> tuple[int, ...]:
        """The databases that the client may be in."""
        return self.session.databases

    def counted(self) -> tuple[int, int, int, int, int]:
        """How many requests were handled in each way, and how many have become script calls."""
        counts = self.counts
        calls = sum(self.script_calls.counts.values())
        return counts.forwarded, counts.rewritten, counts.by_rule, counts.virtual, calls

    def _handle(self, chunk: bytes) -> None:
        if count := passes(self.session, chunk):
            self.replies.expect(count)
            self._send(chunk)
        elif (checked := self.checks.reads(chunk)) is not None:
            self.is_held = True
            self._send(checked)
        else:
            step = self.session.from_client(chunk)
            self.reaped += sorted(step.reap_places)
            if step.uncounted:
                self.replies.relay()
            for told in step.told:
                self.replies.tell(told)
            self.replies.expect(step.requests)
            if step.stopping is not None:
                self.is_held = True
                self.checks.stops(step.stopping)
            self._send(step.to_redis)

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
        [b"ZMSCORE", KEYS.schedule, b"a", b"b"],
        [b"SISMEMBER", b"a", b"m"],
        [b"SISMEMBER", b"b", b"m"],
    ]
    path.answer(scores(None, None), b":1\r\n", b":0\r\n")
    assert path.got == b":1\r\n:0\r\n"
    assert path.counts.forwarded == 2
    assert path.reaped == []


@pytest.mark.parametrize("reply", [scores, doubles])
@pytest.mark.parametrize("score", [None, NOT_DUE, b"1e+300", b"inf"])
def test_a_key_that_is_not_due_is_no_reason_to_wait(
    path: Path, reply: Callable[..., bytes], score: bytes | None
) -> None:
    path.say(read("a"))
    path.answer(reply(score), b":1\r\n")
    assert path.got == b":1\r\n"
    assert not path.at_redis


@pytest.mark.parametrize(
    "reply",
    [
        scores(DUE, None),
        scores(NOT_DUE, DUE),
        scores(b"-inf", DUE),
        doubles(None, DUE),
        REFUSED,
        WRONG,
    ],
)
def test_replies_that_may_be_wrong_are_dropped_and_the_reads_wait_for_a_reap(
    path: Path, reply: bytes
) -> None:
    path.say(read("a") + read("b"), write("behind"))
    path.answer(reply, b":1\r\n", b":1\r\n")
    assert path.got == b""
    reads, behind = (
        [[b"SISMEMBER", key, b"m"] for key in (b"a", b"b")],
        [b"APPEND", b"behind", b"v"],
    )
    assert path.at_redis == [*reads, behind], "in this order, not checked"
    assert set(path.reaped) >= {(0, b"a"), (0, b"b")}
    path.answer(b":0\r\n", b":2\r\n", b":3\r\n")
    assert path.got == b":0\r\n:2\r\n:3\r\n"
    assert path.counted() == (3, 0, 0, 0, 0)
    path.say(read("a"))
    assert path.is_checked, "as are the next ones"


def test_keys_of_no_family_that_is_known_are_not_asked_about() -> None:
    path = Path(b"a")
    path.say(read("b") + read("a1"), read("b"))
    assert path.at_redis[0] == [b"ZMSCORE", KEYS.schedule, b"a1"]
    path.answer(scores(None), b":0\r\n", b":1\r\n")
    assert path.names == [b"SISMEMBER"], "nor waits a read of such a key"


def test_nothing_follows_until_the_check_is_answered(path: Path) -> None:
    path.say(read("a"), read("b"), write("c"))
    assert len(path.at_redis) == 2
    path.answer(scores(None))
    assert path.names == [b"SISMEMBER"]
    path.answer(b":1\r\n")
    assert path.names == [b"SISMEMBER", b"APPEND"]
    assert path.reaped == [(0, b"b"), (0, b"c")], "together"


@pytest.mark.parametrize("asked", [(None, NOT_DUE), (DUE, None), (None, DUE), None])
@pytest.mark.parametrize("reply", [scores, doubles])
def test_replies_may_be_cut_anywhere(
    asked: Sequence[bytes | None] | None, reply: Callable[..., bytes]
) -> None:
    of_check = WRONG if asked is None else reply(*asked)
    first, again = (b"".join(REPLIES[at] for at in number) for number in ((0, 5), (6, 3)))
    is_right = asked is not None and DUE not in asked
    data = of_check + first + (b"" if is_right else again)
    for at in range(1, len(data)):
        for cuts in ((0, at, len(data)), (*range(0, len(data), at), len(data))):
            path = Path()
            path.say(read("a") + read("b"))
            for begin, end in pairwise(cuts):
                path.take(data[begin:end])
            assert path.got == (first if is_right else again)
            assert not path.is_held
            assert path.replies.owed == 0


def test_a_part_of_a_value_that_looks_like_a_reply_is_none() -> None:
    path = Path(b"a")
    path.say(write("w"))
    path.take(b"$9\r\n*1\r\n")
    path.say(read("a"))
    path.take(b"_\r\n")
    assert path.is_held
    path.take(b"--\r\n" + scores(None) + b":1\r\n")
    assert path.got == b"$9\r\n*1\r\n_\r\n--\r\n:1\r\n"
    assert not path.is_held


@pytest.mark.parametrize(
    "chunk",
    [
        encode((b"CLIENT", b"REPLY", b"SKIP")),
        encode((b"MONITOR",)),
        encode((b"PSYNC", b"?", b"-1")),
        b"*1048577\r\n",
    ],
)
def test_nothing_is_asked_where_replies_cannot_be_counted(path: Path, chunk: bytes) -> None:
    path.say(chunk, read("a"), add("a") + add("b"))
    assert path.replies.relays
    assert not path.is_checked
    assert not path.is_held


def _no_trust(path: Path) -> None:
    path.rights.trusts_schedules = False


def _no_right(path: Path) -> None:
    path.rights.learn_refused(hidden=True)
    path.rights.trusts_schedules = True


def _in_multi(path: Path) -> None:
    path.say(encode((b"MULTI",)))
    path.answer(b"+OK\r\n")


def _scripts_are_unknown(path: Path) -> None:
    path.script_calls.flushed()


@pytest.mark.parametrize("prepare", [_no_trust, _no_right, _in_multi])
def test_reads_wait_for_a_reap_where_nothing_can_be_asked(
    path: Path, prepare: Callable[[Path], None]
) -> None:
    """A client may lack rights, or all may write to the schedule."""
    prepare(path)
    path.say(read("a"))
    assert not path.is_checked
    assert not path.is_held
    assert path.reaped == [(0, b"a")]


@pytest.mark.parametrize("key", ["__ttl:schedule", "ttlproxy-state:__ttl:"])
def test_internal_keys_are_not_checked(path: Path, key: str) -> None:
    path.say(read(key))
    assert not path.is_checked


@pytest.mark.parametrize("reply", [b"$1\r\nx\r\n", b":1\r\n", b"_\r\n"])
def test_another_reply_to_the_check_ends_the_connection(path: Path, reply: bytes) -> None:
    path.say(read("a"))
    with pytest.raises(RuntimeError, match="ZMSCORE"):
        path.take(reply)


@pytest.mark.parametrize("refusal", [b"-ERR max number of clients reached\r\n", b"-DENIED x\r\n"])
def test_the_client_hears_why_redis_refuses_the_connection(path: Path, refusal: bytes) -> None:
    path.say(read("a"))
    path.take(refusal[:20])
    path.take(refusal[20:])
    assert path.got == refusal


# --- calls that may stop


def test_writes_are_one_call_that_may_stop(path: Path) -> None:
    """One alone, too."""
    for keys in ("abc", "a"):
        path.say(b"".join(map(add, keys)))
        ((name, _, number, *words),) = path.at_redis
        names = [name for key in keys.encode() for name in (b"%c" % key, KEYS.index(b"%c" % key))]
        assert (name, int(number)) == (b"EVALSHA", len(names) + 2)
        assert words[: len(names) + 2] == [KEYS.schedule, *names, KEYS.schedule]
        path.answer(b"*%d\r\n" % len(keys) + b":1\r\n" * len(keys))
        assert not path.is_held
    assert path.got == b":1\r\n" * 4
    assert path.reaped == []


@pytest.mark.parametrize("done", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("write", "has_rule", "counted"),
    [
        (add, False, (0, 3, 0, 0, 3)),
        (add, True, (0, 3, 3, 0, 3)),
        (add_dated, False, (0, 0, 0, 3, 3)),
    ],
)
def test_calls_that_are_left_wait_for_a_reap_and_each_counts_once(
    path: Path,
    done: int,
    write: Callable[[str], bytes],
    has_rule: bool,
    counted: tuple[int, int, int, int, int],
) -> None:
    if has_rule:
        rules = WriteRules({name_of(b"*", b"set"): WriteRule(1000).row(())})
        path.registry.rules.replace(0, rules)

    path.say(write("a") + write("b") + write("c"), read("behind"))
    assert path.counted() == counted
    path.answer(b"*%d\r\n" % done + b"".join(REPLIES[:done]))
    assert path.got == b"".join(REPLIES[:done])
    if done < 3:
        left = ["a", "b", "c"][done:]
        assert set(path.reaped) == {(0, key.encode()) for key in (*left, "behind")}
        assert [words[3] for words in path.at_redis[:-1]] == [key.encode() for key in left]
        assert path.names == [b"EVALSHA"] * len(left) + [b"SISMEMBER"]
        assert {words[2] for words in path.at_redis[:-1]} == {b"3"}, "none may stop again"
        path.answer(*REPLIES[done:3])
    else:
        assert path.names == [b"ZMSCORE", b"SISMEMBER"]
        assert path.reaped == []
        path.answer(scores(None))
    path.answer(b":1\r\n")
    assert path.got == b"".join(REPLIES[:3]) + b":1\r\n"
    assert path.counted() == (1, *counted[1:])


@pytest.mark.parametrize("done", [0, 2])
def test_a_rest_that_a_call_has_left_does_not_stop_again(path: Path, done: int) -> None:
    """Else it might stop for good where nobody reaps. The next one is."""
    path.say(add("a") + add("b") + add("c"))
    path.answer(b"*%d\r\n" % done + b":1\r\n" * done)
    left = 3 - done
    assert len(path.reaped) == len(path.at_redis) == left
    assert {words[2] for words in path.at_redis} == {b"3"}
    path.answer(*[b":1\r\n"] * left)
    assert path.got == b":1\r\n" * 3
    path.say(add("a"))
    assert path.is_held


def test_a_call_that_is_refused_is_not_given_again(path: Path) -> None:
    path.say(add("a") + add("b"))
    path.answer(b"-NOSCRIPT no\r\n")
    assert path.got == b"-NOSCRIPT no\r\n" * 2
    assert not path.at_redis
    assert not path.is_held
    assert path.counted() == (0, 2, 0, 0, 2)


def test_nothing_follows_a_call_that_may_stop_until_it_is_answered(path: Path) -> None:
    path.say(add("a"), read("a"), add("a"))
    assert path.names == [b"EVALSHA"]
    path.answer(b"*1\r\n:1\r\n")
    assert path.names == [b"SISMEMBER", b"EVALSHA"]
    assert path.reaped == [(0, b"a")], "these two are not one call"


@pytest.mark.parametrize("prepare", [_no_trust, _no_right, _in_multi, _scripts_are_unknown])
def test_writes_wait_for_a_reap_where_no_call_may_stop(
    path: Path, prepare: Callable[[Path], None]
) -> None:
    prepare(path)
    path.say(add("a") + add("b"))
    assert not path.is_held
    assert set(path.reaped) == {(0, b"a"), (0, b"b")}


LONG = encode((b"SADD", b"a", *[b"%d" % number for number in range(90)]))


@pytest.mark.parametrize(
    "chunk",
    [
        [add("a"), read("b")],
        [read("a"), add("b")],
        [add("a"), encode((b"HSET", b"b", b"f", b"v"))],
        [add("a"), write("b")],
        [add_dated("a"), add("b"), add_dated("a")],
        [add(f"k{number}") for number in range(129)],
        [LONG] * (1 + (1 << 15) // len(LONG)),
    ],
)
def test_requests_that_are_not_one_call_wait_for_a_reap(path: Path, chunk: list[bytes]) -> None:
    path.say(b"".join(chunk))
    assert not path.is_held
    keys = {Requests().feed(each)[0][1] for each in chunk}
    assert set(path.reaped) == {(0, key) for key in keys}


def test_writes_elsewhere_neither_stop_nor_wait() -> None:
    path = Path(b"a")
    path.say(add("b") + add("c"))
    assert path.names == [b"SADD"] * 2
    assert not path.is_held


_keys = st.integers(0, 9).map(lambda number: f"k:{number}")
_runs = (st.lists(_keys.map(of), min_size=1, max_size=4) for of in (read, add, add_dated))
_chunks = st.one_of(
    *(run.map(b"".join) for run in _runs),
    _keys.map(write),
    st.sampled_from([encode((b"PING",)), encode((b"HELLO", b"3")), encode((b"MULTI",))]),
)


def _stops(words: Sequence[bytes]) -> bool:
    return words[0] == b"EVALSHA" and int(words[2]) % 2 == 0


@given(said=st.lists(_chunks, min_size=1, max_size=8), data=st.data())
def test_the_client_gets_the_replies_to_its_requests_in_order(
    said: Sequence[bytes], data: st.DataObject
) -> None:
    """Whatever the checks say, wherever calls stop, in whichever pieces replies come, whenever the
    client sends."""
    path, on_its_way, wanted, left = Path(), b"", list[bytes](), list(said)
    some = st.sampled_from([None, NOT_DUE, DUE])

    def replied(requests: Iterable[list[bytes]]) -> bytes:
        """What Redis sends; `wanted` is what the client is to get of it."""
        sent, is_right = list[bytes](), True
        for words in requests:
            reply = REPLIES[(len(wanted) + len(sent)) % len(REPLIES)]
            if words[0] == b"ZMSCORE":  # one at most, whose reads are the last ones
                found = data.draw(st.lists(some, min_size=len(words) - 2, max_size=len(words) - 2))
                is_right = DUE not in found and data.draw(st.booleans())
                of_check = data.draw(st.sampled_from([scores, doubles]))(*found)
                sent.append(of_check if is_right or DUE in found else WRONG)
            elif _stops(words):
                asked = int(words[2]) // 2 - 1
                done = data.draw(st.integers(-1, asked))
                replies = [reply] * done if done >= 0 else [WRONG] * asked
                sent.append(b"*%d\r\n" % done + b"".join(replies) if done >= 0 else WRONG)
                wanted.extend(replies)
            else:
                sent.append(reply)
                if is_right and words[0] not in DECLARING:
                    wanted.append(reply)
        return b"".join(sent)

    while left or on_its_way or path.at_redis:
        if left and (not on_its_way or data.draw(st.booleans())):
            path.say(left.pop(0))
        requests, path.at_redis = path.at_redis, []
        on_its_way += replied(requests)
        kept = data.draw(st.integers(0, max(min(len(on_its_way) - 1, 40), 0)))
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
