"""Replies to one client, counted: what the client gets and who is told, however they are cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.replies import PUSH, REPLIES
from ttlproxy.errors import ON_ITS_WAY
from ttlproxy.proxy.reply_queue import ReplyQueue
from ttlproxy.session.replies import Declared, OneReply, Told

OK, NULL = b"+OK\r\n", b"$-1\r\n"


class Client:
    """Gets replies, and asks."""

    def __init__(self) -> None:
        self.got = b""
        self.replies = ReplyQueue(self._get)
        self.lines: list[bytes | None] = []

    def _get(self, data: bytes) -> None:
        self.got += data

    def tell(self, line: bytes | None) -> bool:
        self.lines.append(line)
        return True

    def tell_ours(self, line: bytes | None) -> bool:
        self.lines.append(line)
        return False

    def drop_next(self, line: bytes | None) -> bool:
        self.replies.drop(1)
        return False

    def takes(self, data: bytes, cuts: Sequence[int] = ()) -> None:
        for begin, end in pairwise([0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]):
            if begin < end:
                self.replies.takes(data[begin:end])


def _line(reply: bytes) -> bytes:
    return reply[: reply.index(b"\r\n") + 2]


KINDS = st.sampled_from(["plain", "plain", "plain", "told", "ours", "dropped", "push"])
CUTS = st.lists(st.integers(0, 400), max_size=8)


@given(st.lists(st.tuples(KINDS, REPLIES), max_size=12), CUTS)
def test_each_reply_comes_to_whom_it_belongs_wherever_it_is_cut(
    asked: list[tuple[str, bytes]], cuts: list[int]
) -> None:
    client = Client()
    stream, wanted, lines = b"", b"", list[bytes]()
    gone: list[tuple[int, int]] = []  # what had come when all before was answered, and what should

    def after(came: int) -> None:
        client.replies.after(lambda: gone.append((len(client.got), came)))

    for kind, reply in asked:
        match kind:
            case "plain":
                client.replies.expect(1)
                wanted += reply
            case "told":
                client.replies.tell(Told(0, client.tell))
                client.replies.expect(1)
                wanted, lines = wanted + reply, [*lines, _line(reply)]
            case "ours":
                client.replies.ask(client.tell_ours)
                lines = [*lines, _line(reply)]
            case "dropped":
                client.replies.ask(client.drop_next)
                client.replies.expect(1)
                stream += OK
            case _:
                reply = PUSH
                wanted += PUSH
        stream += reply
        if kind != "push":
            after(len(wanted))
    client.takes(stream, cuts)
    assert client.got == wanted
    assert client.lines == lines
    assert client.replies.owed == 0
    assert all(came >= expected for came, expected in gone)
    assert len(gone) == sum(kind != "push" for kind, _ in asked)


@given(
    theirs=st.lists(REPLIES, max_size=4),
    queued=st.lists(st.tuples(st.booleans(), REPLIES), max_size=6),
    pushes=st.sets(st.integers(0, 10)),
    cuts=CUTS,
)
def test_the_reply_to_exec_comes_without_our_elements_wherever_it_is_cut(
    theirs: list[bytes], queued: list[tuple[bool, bytes]], pushes: set[int], cuts: list[int]
) -> None:
    """`queued`: from our first command on; whether it is ours, and its element."""
    client, declared = Client(), Declared()
    stream, shown = b"", list(theirs)
    for is_ours, reply in queued:
        client.replies.tell(Told(0, declared.ours if is_ours else declared.theirs))
        client.replies.expect(1)
        stream += b"+QUEUED\r\n"
        shown += [] if is_ours else [reply]
    client.replies.tell(Told(0, declared.carried_out))
    client.replies.expect(2)
    elements = [(False, reply) for reply in theirs] + queued
    body, wanted = b"", b""
    for number, (is_ours, reply) in enumerate(elements):
        push = PUSH if number in pushes else b""
        body += push + reply
        wanted += push + (b"" if is_ours else reply)
    client.takes(stream + b"*%d\r\n" % len(elements) + body + OK, cuts)
    answers = b"+QUEUED\r\n" * (len(shown) - len(theirs))
    assert client.got == answers + b"*%d\r\n" % len(shown) + wanted + OK
    assert client.replies.owed == 0
    assert not client.replies.relays


@pytest.mark.parametrize("reply", [b"*-1\r\n", b"_\r\n", b"-EXECABORT no\r\n", b"*1\r\n:1\r\n"])
@pytest.mark.parametrize("answer", [b"+QUEUED\r\n", b":0\r\n", b"-ERR no\r\n"])
def test_the_reply_to_exec_is_as_it_came_if_nothing_of_ours_is_in_it(
    reply: bytes, answer: bytes
) -> None:
    """Without MULTI, which Redis may have refused, our command was carried out at once."""
    client, declared = Client(), Declared()
    for tell in (declared.ours, declared.theirs, declared.carried_out):
        client.replies.tell(Told(0, tell))
        client.replies.expect(1)
    client.takes(answer + b"+QUEUED\r\n" + reply)
    assert client.got == b"+QUEUED\r\n" + reply


def _array(*words: bytes | int) -> bytes:
    parts = [b":%d\r\n" % word if isinstance(word, int) else _bulk(word) for word in words]
    return b"*%d\r\n" % len(words) + b"".join(parts)


def _bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


LOOKS_LIKE_A_MESSAGE = _array(b"message", b"c", b"text")
CHANNELS = (b"a", b"b", b"c")
STEPS = st.one_of(
    st.tuples(st.sampled_from(["subscribe", "unsubscribe"]), st.sampled_from([1, 2, 3])),
    st.tuples(st.just("message"), st.sampled_from([1, 2000])),
    st.tuples(st.sampled_from(["read", "refused"]), st.just(1)),
)


@pytest.mark.parametrize("is_push", [False, True], ids=["RESP2", "RESP3"])
@given(steps=st.lists(STEPS, max_size=12), cuts=CUTS)
def test_messages_are_no_replies_and_subscriptions_are_answered_once_all_is_confirmed(
    is_push: bool, steps: list[tuple[str, int]], cuts: list[int]
) -> None:
    """In RESP2 a client that is subscribed may only ping."""
    client, subscribed, stream, wanted = Client(), set[bytes](), b"", list[bytes]()

    def pushed(reply: bytes) -> bytes:
        return b">" + reply[1:] if is_push else reply

    for step, count in steps:
        before = len(stream)
        if step == "message":
            if subscribed:
                stream += pushed(_array(b"message", b"a", b"m" * count))
            continue
        if step == "read":
            is_free = is_push or not subscribed
            stream += LOOKS_LIKE_A_MESSAGE if is_free else _array(b"pong", b"")
            client.replies.expect(1)
        elif step == "refused":
            client.replies.tell(Told(0, confirmations=2))
            client.replies.expect(1)
            stream += b"-NOPERM no\r\n"
        else:
            client.replies.tell(Told(0, confirmations=count))
            client.replies.expect(1)
            for channel in CHANNELS[:count]:
                (subscribed.add if step == "subscribe" else subscribed.discard)(channel)
                stream += pushed(_array(step.encode(), channel, len(subscribed)))
        client.replies.tell(Told(0, client.tell))
        client.replies.expect(1)
        is_free = is_push or not subscribed
        stream += OK if is_free else _array(b"pong", b"")
        wanted.append(OK if is_free else b"*2\r\n")
        assert len(stream) > before
    client.takes(stream, cuts)
    assert client.got == stream
    assert client.lines == wanted
    assert client.replies.owed == 0
    assert not client.replies.relays


@pytest.mark.parametrize(
    "data", [b"what\r\n", OK + OK + OK], ids=["no reply", "more than was asked for"]
)
def test_replies_that_cannot_be_counted_pass_and_nobody_is_told(data: bytes) -> None:
    client = Client()
    client.replies.expect(1)
    client.replies.tell(Told(0, client.tell))
    client.replies.expect(1)
    client.takes(data)
    assert client.got == data
    assert client.replies.relays
    assert client.lines in ([None], [OK])
    client.replies.tell(Told(0, client.tell))
    client.takes(b"anything")
    assert client.got == data + b"anything"
    assert client.lines[-1] is None


def test_the_kept_part_of_a_reply_is_the_clients_once_nothing_is_counted() -> None:
    client = Client()
    client.replies.ask(client.tell_ours)
    client.takes(b"-ERR begun")
    assert client.got == b""
    client.replies.relay()
    assert client.got == b"-ERR begun"


def test_counted_replies_are_told_though_later_requests_are_not_counted() -> None:
    client = Client()
    client.replies.ask(client.tell_ours)
    client.replies.uncount()
    assert client.replies.relays
    client.replies.expect(1)
    client.takes(b":0\r\n-ERR beg")
    client.takes(b"un")
    assert client.got == b"-ERR begun"


def test_the_end_of_a_round_trip_says_whether_the_last_reply_was_an_error() -> None:
    client, ended = Client(), list[bool]()
    for replies in (OK, OK + b"-ERR no\r\n"):
        before = len(ended)
        client.replies.expect(replies.count(b"\n"))
        client.replies.watch(ended.append)
        client.takes(replies[:-1])
        assert len(ended) == before
        client.takes(replies[-1:])
    assert ended == [False, True]
    assert client.got == OK + OK + b"-ERR no\r\n"


def test_a_client_that_is_unsubscribed_unasked_is_owed_as_before() -> None:
    """As in RESP2, when the slot of a shard channel moves."""
    client = Client()
    client.replies.tell(Told(0, confirmations=1))
    client.replies.expect(1)
    client.takes(_array(b"ssubscribe", b"a", 1))
    client.replies.tell(Told(0, client.tell))
    client.replies.expect(1)
    client.takes(_array(b"sunsubscribe", b"a", 0) + OK)
    client.replies.expect(1)
    client.takes(LOOKS_LIKE_A_MESSAGE)
    assert client.lines == [OK]
    assert client.replies.owed == 0


@given(
    st.lists(st.sampled_from([OK, b"-MOVED 7 a:1\r\n", b"-ASK 7 a:1\r\n", b"-ERR no\r\n"])), CUTS
)
def test_no_error_leads_a_client_of_a_cluster_away(replies: list[bytes], cuts: list[int]) -> None:
    client, other = Client(), Client()
    client.replies.stays_here = True
    for each in (client, other):
        each.replies.expect(len(replies))
        each.takes(b"".join(replies), cuts)
    led = (b"-MOVED", b"-ASK")
    assert client.got == b"".join(ON_ITS_WAY if each.startswith(led) else each for each in replies)
    assert other.got == b"".join(replies)


def test_nothing_more_is_subscribed_to_after_a_reset() -> None:
    client = Client()
    client.replies.tell(Told(0, confirmations=1))
    client.replies.expect(1)
    client.replies.tell(Told(0, client.tell))
    client.replies.expect(2)
    client.takes(_array(b"subscribe", b"a", 1) + b"+RESET\r\n" + LOOKS_LIKE_A_MESSAGE)
    assert client.replies.owed == 0
    assert client.lines == [b"+RESET\r\n"]


@given(st.lists(REPLIES, min_size=2, max_size=5), REPLIES, CUTS)
def test_several_requests_have_one_reply_wherever_it_is_cut(
    replies: list[bytes], other: bytes, cuts: list[int]
) -> None:
    client, reply = Client(), OneReply(len(replies))
    client.replies.tell(Told(1, reply))
    client.replies.expect(3)
    client.takes(other + b"*%d\r\n" % len(replies) + b"".join(replies) + other, cuts)
    assert client.got == other + b"".join(replies) + other
    assert client.replies.owed == 0


@given(st.lists(REPLIES, max_size=4), st.integers(1, 3), REPLIES, CUTS)
def test_a_call_that_stops_has_replies_to_those_before(
    replies: list[bytes], left: int, other: bytes, cuts: list[int]
) -> None:
    client, reply, was_told = Client(), OneReply(len(replies) + left, stops=True), list[int]()
    client.replies.tell(Told(0, reply))
    client.replies.expect(2)
    client.replies.after(lambda: was_told.append(reply.carried_out))
    client.takes(b"*%d\r\n" % len(replies) + b"".join(replies) + other, cuts)
    assert client.got == b"".join(replies) + other
    assert client.replies.owed == 0
    assert was_told == [len(replies)]


@pytest.mark.parametrize(
    ("line", "stops"),
    [
        (b"*2\r\n", False),
        (b"*4\r\n", False),
        (b"*4\r\n", True),
        (b"*-1\r\n", True),
        (b"$3\r\n", True),
        (b":3\r\n", True),
        (None, True),
    ],
)
def test_another_reply_to_several_requests_ends_the_connection(
    line: bytes | None, stops: bool
) -> None:
    """Nobody knows then which request the next reply belongs to."""
    with pytest.raises(RuntimeError):
        OneReply(3, stops=stops)(line)


@pytest.mark.parametrize("stops", [False, True])
def test_an_error_is_the_reply_to_each_of_several(stops: bool) -> None:
    client, error, reply = Client(), b"-NOSCRIPT no\r\n", OneReply(3, stops=stops)
    client.replies.tell(Told(0, reply))
    client.replies.expect(2)
    client.takes(error + OK, [5])
    assert client.got == error * 3 + OK
    assert reply.carried_out == 3, "none is to be given again"
