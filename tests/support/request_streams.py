"""Generated request streams: rows of native_commands in every spelling that a client may send.
Knows RESP requests; sends nothing."""

import itertools
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from hypothesis import strategies as st

from tests.support.native_commands import (
    BEFORE_REDIS_8,
    EXACT,
    KEYS,
    NEVER_FLAWED,
    POOLS,
    ROWS,
    SUBSCRIBED,
)
from tests.support.raw_client import command
from tests.support.servers import release

SEEDS = st.lists(st.integers(0, (1 << 32) - 1), min_size=20, max_size=90)
QUIT = command("QUIT")
SILENT = [b"\r\n", b"\n", b"*0\r\n", b"*-1\r\n", b"  \r\n"]
BARE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:*")
LONGEST_INLINE = 60_000  # below 64 KiB, where Redis refuses a line
_KEYS = KEYS | {"any", "missing", "lone", "words", "relative", "never", "short"}


class Vocabulary(NamedTuple):
    """What a stream is made of. `named` gives the name of a key as it is sent.

    queued: rows of transactions, if not all; connected: also transactions and subscriptions;
    subscribed: rows of a subscriber, if not all
    """

    rows: Sequence[str]
    named: Callable[[bytes], bytes] = bytes
    queued: Sequence[str] = ()
    connected: bool = True
    subscribed: Sequence[str] = ()


def _spelled(word: str, chance: Random) -> bytes:
    """A command's name or option in upper, lower or mixed case; anything else as it is."""
    if word.isupper():
        word = chance.choice([word, word, word.lower(), word.title()])
    return word.encode()


def _word(word: str, words: Vocabulary, chance: Random) -> bytes:
    pool = word[1:-1]
    if not (word.startswith("{") and pool in POOLS):
        return _spelled(word, chance)
    of_another_type = pool in KEYS and chance.random() < 0.1
    chosen = chance.choice(POOLS["any" if of_another_type else pool])
    return words.named(chosen) if pool in _KEYS else chosen


def names() -> set[str]:
    """The commands of a stream, by the server's names: OBJECT|ENCODING, GET."""
    rows = [line.split() for line in _lines(ROWS, EXACT, BEFORE_REDIS_8, SUBSCRIBED)]
    return {"QUIT"} | {"|".join(words[:n]).upper() for words in rows for n in (1, 2)}


def _lines(*tables: str) -> list[str]:
    return [line for table in tables for line in table.strip().splitlines()]


_EXACT = frozenset(_lines(EXACT))


def _row(vocabulary: Vocabulary, chance: Random) -> list[bytes]:
    """One row; sometimes its last word is missing, or it has one too many."""
    row = chance.choice(vocabulary.rows)
    template = row.split()
    words = [_word(word, vocabulary, chance) for word in template]
    flaw = chance.randrange(20)
    if template[0] in NEVER_FLAWED or row in _EXACT:
        return words
    if flaw == 0 and len(words) > 1:
        return words[:-1]
    # After a member of a set it is a number too: a word would end the set's order (see ROWS), and
    # another member than 7 would make SRANDMEMBER choose.
    extra = b"7" if template[-1] in ("{number}", "7") else vocabulary.named(b"7")
    return [*words, extra] if flaw == 1 else words


def _quoted(word: bytes, quote_all: bool) -> bytes:
    if word and not quote_all and BARE.issuperset(word):
        return word
    return b'"%b"' % b"".join(
        b"%c" % byte if byte in BARE or byte == 0x20 else b"\\x%02x" % byte for byte in word
    )


def _request(vocabulary: Vocabulary, chance: Random) -> bytes:
    """As an array of bulks, or, three times in twenty, as an inline command."""
    words = _row(vocabulary, chance)
    form = chance.randrange(20)
    if form > 2 or sum(map(len, words)) * 4 > LONGEST_INLINE:
        return command(*words)
    line = b" ".join(_quoted(word, quote_all=form == 1) for word in words)
    return (b" \t" if form == 1 else b"") + line + (b"\n" if form == 2 else b"\r\n")


def _requests(vocabulary: Vocabulary, most: int, chance: Random) -> bytes:
    return b"".join(_request(vocabulary, chance) for _ in range(chance.randint(0, most)))


def _transaction(vocabulary: Vocabulary, chance: Random) -> bytes:
    h1, s1, t1 = map(vocabulary.named, (b"h1", b"s1", b"t1"))
    start = chance.choice([b"", b"", command("WATCH", h1, s1), command("WATCH", t1)])
    end = chance.choice([command("EXEC"), command("exec"), command("DISCARD")])
    queued = vocabulary._replace(rows=vocabulary.queued or vocabulary.rows)
    return start + command("MULTI") + _requests(queued, 6, chance) + end


def _subscription(vocabulary: Vocabulary, chance: Random) -> bytes:
    start = command("SUBSCRIBE", "differential-1") + command("PSUBSCRIBE", "differential-p*")
    # Channels are named ("7" is from a flawed row): without names replies have a random order.
    end = (
        command("UNSUBSCRIBE", "differential-1", 7)
        + command("PUNSUBSCRIBE", "differential-p*", 7)
        # One by one: in a Cluster they are in different slots.
        + command("SUNSUBSCRIBE", "differential-1")
        + command("SUNSUBSCRIBE", 7)
    )
    rows = vocabulary.subscribed or _lines(SUBSCRIBED)
    return start + _requests(vocabulary._replace(rows=rows), 5, chance) + end


def _step(vocabulary: Vocabulary, seed: int) -> bytes:
    """The bytes for a seed; Hypothesis shrinks a failing run by leaving seeds out."""
    chance = Random(seed)
    kind = chance.randrange(20)
    if kind < 2 and vocabulary.connected:
        return _transaction(vocabulary, chance)
    if kind == 2 and vocabulary.connected:
        return _subscription(vocabulary, chance)
    if kind == 3:
        return chance.choice(SILENT)
    return _request(vocabulary, chance)


def keys_of(row: str) -> int:
    """The number of its words that are keys."""
    return sum(word[1:-1] in _KEYS for word in row.split())


def rows_for(server: str) -> list[str]:
    """The rows that a server of that version answers."""
    return _lines(ROWS, EXACT, *[BEFORE_REDIS_8] * (release(server) < (8,)))


def pipeline(server: str, seeds: Sequence[int]) -> bytes:
    """A stream of all that a server of that version answers."""
    return stream(Vocabulary(rows_for(server)), seeds)


def stream(vocabulary: Vocabulary, seeds: Sequence[int]) -> bytes:
    """Some dozen requests, in the order of their seeds.

    The last is QUIT, so the replies end with EOF. Before it comes a PING: CLIENT REPLY SKIP
    suppresses the reply to the next request, and after a QUIT without a reply Redis leaves the
    connection open.
    """
    return b"".join(_step(vocabulary, seed) for seed in seeds) + command("PING") + QUIT


def pieces(data: bytes, cuts: Sequence[float]) -> list[bytes]:
    """The data, cut at these fractions of its length."""
    marks = sorted({0, len(data), *(int(len(data) * cut) for cut in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(marks)]
