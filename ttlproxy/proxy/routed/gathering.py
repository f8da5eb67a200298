"""Makes one reply of the replies of several nodes. Knows no connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

from ttlproxy.core.keys import slot
from ttlproxy.proxy.routed.keyspace_events import may_be
from ttlproxy.proxy.routed.routing_table import STEPS
from ttlproxy.wire import encode
from ttlproxy.wire.reply_ends import ReplyEnds

OK: Final = b"+OK\r\n"
NULL: Final = b"$-1\r\n"


def error(replies: Sequence[bytes]) -> bytes | None:
    """The first error among the replies."""
    return next((reply for reply in replies if reply.startswith(b"-")), None)


def total(replies: Sequence[bytes]) -> bytes:
    """The sum of integers, or the first error."""
    return error(replies) or b":%d\r\n" % sum(map(_integer, replies))


def least(replies: Sequence[bytes]) -> bytes:
    """The smallest of integers, or the first error."""
    return error(replies) or min(replies, key=_integer)


def least_of_each(replies: Sequence[bytes]) -> bytes:
    """An array of the smallest integers at each place, or the first error."""
    if (refusal := error(replies)) is not None:
        return refusal
    places = [*zip(*map(_elements, replies), strict=True)]
    return b"*%d\r\n" % len(places) + b"".join(min(each, key=_integer) for each in places)


def greatest(replies: Sequence[bytes]) -> bytes:
    """The largest of integers, or the first error."""
    return error(replies) or max(replies, key=_integer)


def first(replies: Sequence[bytes]) -> bytes:
    """The first error, or the first reply."""
    return error(replies) or replies[0]


def any_good(replies: Sequence[bytes]) -> bytes:
    """The first reply that is no error, or the first error."""
    return next((reply for reply in replies if not reply.startswith(b"-")), replies[0])


def joined(replies: Sequence[bytes]) -> bytes:
    """The elements of all arrays in one, or the first error."""
    if (refusal := error(replies)) is not None:
        return refusal
    bodies = [_elements(reply) for reply in replies]
    count = sum(map(len, bodies))
    return b"%b%d\r\n" % (replies[0][:1], count) + b"".join(map(b"".join, bodies))


def distinct(replies: Sequence[bytes]) -> bytes:
    """The elements of all arrays in one, each once, or the first error."""
    if (refusal := error(replies)) is not None:
        return refusal
    found = dict.fromkeys(chain.from_iterable(map(_elements, replies)))
    return b"*%d\r\n" % len(found) + b"".join(found)


def subscribers(replies: Sequence[bytes]) -> bytes:
    """The channels, which are the same in all replies, each with its subscribers at all masters. A
    client that listens to a channel of events does so at each."""
    if (refusal := error(replies)) is not None:
        return refusal
    found: list[bytes] = []
    columns = [*zip(*map(_elements, replies), strict=True)]
    for names, counts in zip(columns[::2], columns[1::2], strict=True):
        add = max if may_be(names[0].partition(b"\n")[2], "channel") else sum
        found += (names[0], b":%d\r\n" % add(map(_integer, counts)))
    return b"*%d\r\n" % len(found) + b"".join(found)


# The subcommands of PUBSUB about all masters. A client's patterns are at one, or at each.
PUBSUB: Final[dict[bytes, Callable[[Sequence[bytes]], bytes]]] = {
    b"CHANNELS": distinct,
    b"SHARDCHANNELS": distinct,
    b"NUMSUB": subscribers,
    b"SHARDNUMSUB": subscribers,
    b"NUMPAT": greatest,
}


def _integer(reply: bytes) -> int:
    return int(reply[1:])


def _elements(reply: bytes) -> list[bytes]:
    """The elements of an array, each as it was sent."""
    body = reply[reply.index(b"\n") + 1 :]
    ends = ReplyEnds().feed(body)
    return [body[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


class Split:
    """A request on keys of several slots, as one request for each slot.

    parts: by slot
    """

    def __init__(self, args: Sequence[bytes]) -> None:
        self._name = args[0].decode().upper()
        step = STEPS[self._name]
        if (len(args) - 1) % step:  # Redis refuses it: one node says so, and none writes
            args = [args[0], *[args[1]] * (step + 1)]
        self._places: dict[int, list[int]] = {}
        words: dict[int, list[bytes]] = {}
        for at in range(1, len(args), step):
            number = slot(args[at])
            self._places.setdefault(number, []).append(at // step)
            words.setdefault(number, [args[0]]).extend(args[at : at + step])
        self.parts: dict[int, tuple[list[bytes], bytes]] = {
            number: (part, encode(tuple(part))) for number, part in words.items()
        }

    def gathered(self, replies: dict[int, bytes]) -> bytes:
        """The reply to the whole; `replies`: by slot."""
        return _GATHERED.get(self._name, Split._counted)(self, replies)

    def _counted(self, replies: dict[int, bytes]) -> bytes:
        return total(list(replies.values()))

    def _written(self, replies: dict[int, bytes]) -> bytes:
        return first(list(replies.values()))

    def _values(self, replies: dict[int, bytes]) -> bytes:
        if (refusal := error(list(replies.values()))) is not None:
            return refusal
        found: dict[int, bytes] = {}
        for number, reply in replies.items():
            found.update(zip(self._places[number], _elements(reply), strict=True))
        values = [found[at] for at in sorted(found)]
        return b"*%d\r\n" % len(values) + b"".join(values)


_GATHERED: Final[dict[str, Callable[[Split, dict[int, bytes]], bytes]]] = {
    "MGET": Split._values,
    "MSET": Split._written,
}
