"""Does in Python what `_core.c` does: taken where that is not built, and what it is compared with.

Exact and simple, not fast: see ttlproxy/wire/core.py for which of the two is in use.
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeAlias

# As in _core.c, which says why.
_MAX_ELEMENTS: Final = 1024 * 1024
_MAX_BULK: Final = 512 * 1024 * 1024
_MAX_NAME: Final = 64
_MAX_VALUES: Final = 1 << 61
# An instant after all others: of a key in which nothing can fall due before that is announced.
NOTHING_DUE: Final = 1 << 62
_NONE_PASSES: Final = (0, NOTHING_DUE)
_NO_KEY, _ANY_KEY, _ONE_KEY, _KEPT_KEY, _READ_KEY, _KNOWN_KEY = range(6)

# A header of a request, as every client writes it, with its line break.
_COUNT: Final = re.compile(rb"\*(0|[1-9][0-9]{0,8})\r\n")
_SIZE: Final = re.compile(rb"\$(0|[1-9][0-9]{0,8})\r\n")
# The short ones without it.
_COUNTS: Final = {b"*%d" % count: count for count in range(1, 100)}
_SIZES: Final = [b"$%d" % size for size in range(1024)]
# The text behind the kind in a header of a reply.
_NUMBER: Final = re.compile(rb"-?[0-9]{1,18}")
_LINES: Final = frozenset(b"+-:_,#(")
_BULKS: Final = frozenset(b"$=!")
# The number of values of each element of an aggregate.
_VALUES: Final = {ord("*"): 1, ord("~"): 1, ord(">"): 1, ord("%"): 2}
_PUSH, _ATTRIBUTE = b">|"
_NONE: Final = 0
_SLOTS: Final = 16384
_MAX_HEAD: Final = 256
_MOST_SETTERS: Final = 128

# A number of which another may stand in its place.
_NUMBER_THERE: Final = re.compile(rb"[1-9][0-9]{0,14}")

Template: TypeAlias = tuple[str, bytes, bytes, int, bytes, bool, int]
"""What requests that begin alike become: see Table.calls."""
Heads: TypeAlias = Mapping[bytes, int | Template]
"""How requests begin -> what becomes of them."""
Part: TypeAlias = tuple[bytes, int, bytes]
"""What a call has of one request: the names of its key and index as bulk strings, how many words of
ARGV, and these."""
Made: TypeAlias = tuple[bytes, int, list[tuple[str, int, int]], int, int, bool]
"""The result of Table.calls."""


class Names(NamedTuple):
    """The parts of the names of internal keys.

    tags: three bytes for each slot; schedule: its name as a bulk string
    """

    prefix: bytes
    tags: bytes
    schedule: bytes


def _request(data: bytes, at: int) -> tuple[list[bytes], int] | None:
    """The words of the whole request at `at`, and where it ends; None if there is none."""
    header = _COUNT.match(data, at)
    if header is None or not 1 <= int(header[1]) <= _MAX_ELEMENTS:
        return None
    words, at = [], header.end()
    for _ in range(int(header[1])):
        header = _SIZE.match(data, at)
        if header is None or int(header[1]) > _MAX_BULK:
            return None
        end = header.end() + int(header[1])
        if data[end : end + 2] != b"\r\n":
            return None
        words.append(data[header.end() : end])
        at = end + 2
    return words, at


def _requests_by_line(data: bytes) -> list[list[bytes]] | None:
    """The words of each request of `data`; None if it is not whole, or a word is long or has a line
    break. Five times as fast as `_request`."""
    lines = data.split(b"\r\n")
    if lines.pop():
        return None
    requests, at = [], 0
    while at < len(lines):
        count = _COUNTS.get(lines[at], 0)
        end = at + 1 + 2 * count
        words = lines[at + 2 : end : 2]
        try:
            sizes = list(map(_SIZES.__getitem__, map(len, words)))
        except IndexError:
            return None
        if not count or len(words) != count or lines[at + 1 : end : 2] != sizes:
            return None
        requests.append(words)
        at = end
    return requests


def cut(data: bytes) -> tuple[list[list[bytes]], int]:
    """The words of each whole request that `data` begins with, and how many bytes these have."""
    if (found := _requests_by_line(data)) is not None:
        return found, len(data)
    requests, at = [], 0
    while (next_one := _request(data, at)) is not None:
        words, at = next_one
        requests.append(words)
    return requests, at


def request_ends(data: bytes, begin: int) -> list[int]:
    """The position behind each whole request from `begin` on."""
    if not 0 <= begin <= len(data):
        raise ValueError("begin is outside data")
    ends: list[int] = []
    while (found := _request(data, ends[-1] if ends else begin)) is not None:
        ends.append(found[1])
    return ends


def _after(head: bytes, left: int) -> tuple[int, int] | None:
    """The number of values to come after a header without its line break, and of bytes of its own;
    None if it is none. `left`: how many were to come before it."""
    kind, before = head[0] if head else _NONE, left or 1
    if kind in _LINES:
        return before - 1, 0
    if _NUMBER.fullmatch(head, 1) is None:
        return None
    number = int(head[1:])
    if kind in _BULKS:
        return before - 1, max(number + 2, 0) if number >= 0 else 0
    if kind in _VALUES:
        # A push between the elements of a reply is none of them.
        extra = kind == _PUSH and left > 0
        return before - 1 + max(number, 0) * _VALUES[kind] + extra, 0
    if kind == _ATTRIBUTE and number >= 0:
        return before + 2 * number, 0  # the value that it is about follows
    return None


def reply_ends(
    data: bytes, left: int, size: int, kind: int
) -> tuple[list[int], int, int, int, int, int]:
    """(ends, pushes, left, size, kind, end): the position behind each reply or push that ends in
    `data`, and how many of these are pushes.

    `left`, `size`, `kind`: the values that are to come of a reply that has begun, the bytes of its
    present value, and its first byte, before and after; 0 without one. From `end` on is the
    beginning of a header. Raises ValueError for what is no reply.
    """
    if not (0 <= left <= _MAX_VALUES and size >= 0):
        raise ValueError("left or size is out of range")
    ends: list[int] = []
    pushes, at, has_ended = 0, size, size > 0 and not left
    while at <= len(data):
        if has_ended:
            pushes += kind == _PUSH
            kind = 0
            ends.append(at)
        line = data.find(b"\r\n", at)
        if line < 0:
            break
        found = _after(data[at:line], left)
        if found is None or found[0] > _MAX_VALUES:
            raise ValueError(f"no reply at {at}")
        left, skipped = found
        kind = kind or data[at]
        at, has_ended = line + 2 + skipped, not left
    return ends, pushes, left, max(at - len(data), 0), kind, min(at, len(data))


def whole_replies(data: bytes) -> int:
    """The number of replies in `data`; 0 if it is anything else, or has a push."""
    try:
        ends, pushes, *_ = reply_ends(data, 0, 0, 0)
    except ValueError:
        return 0
    return len(ends) if ends and ends[-1] == len(data) and not pushes else 0


def bulks(*words: bytes) -> bytes:
    """Words as bulk strings."""
    return b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


def index_name(prefix: bytes, tags: bytes, key: bytes) -> bytes:
    """The name of the index of a key, which is in the Cluster slot of that: a key with a hash tag
    keeps it, any other gets the one of its slot. `tags`: three bytes for each slot."""
    begin = key.find(b"{")
    if begin >= 0 and key.find(b"}", begin) > begin + 1:
        return prefix + b"t:" + key
    at = 3 * (crc_hqx(key, 0) % _SLOTS)
    return b"%b{%b}:%b" % (prefix, tags[at : at + 3], key)


def script_call(sha: bytes, parts: Sequence[Part], schedule: bytes, stops: bool) -> bytes:
    """The request for a script on one key, for these requests (scripts/lib/several.lua). `stops`:
    it ends before a key in which something is due."""
    if len(parts) == 1 and not stops:
        ((keys, words, argv),) = parts
        return b"*%d\r\n%b%b%b%b%b%b" % (6 + words, _EVALSHA, sha, _THREE, keys, schedule, argv)
    number = 1 + 2 * len(parts) + stops
    words = 3 + number + len(parts) + sum([words for _, words, _ in parts])
    return b"".join(
        [
            b"*%d\r\n%b%b%b%b" % (words, _EVALSHA, sha, _number(number), schedule),
            *[keys for keys, _, _ in parts],
            schedule if stops else b"",
            *[each for _, words, argv in parts for each in (_number(words), argv)],
        ]
    )


@cache
def _number(number: int) -> bytes:
    """Returns a number as a bulk string."""
    return bulks(b"%d" % number)


_EVALSHA: Final = bulks(b"EVALSHA")
_THREE: Final = _number(3)


def head_of(count: int, name: bytes, words: Sequence[bytes]) -> bytes:
    """Returns the key under which a request of `count` words stands in `heads`: its name and the
    words that are neither key nor elements."""
    return b"*%d\r\n%b" % (count, bulks(name, *words))


def head_of_any(count: int, name: bytes, words: Sequence[bytes]) -> tuple[bytes, int]:
    """The same with any number of as many digits in the place of the first of the longest ones, and
    which word that is; -1 if there is none, up to 15 digits long."""
    numbers = [at for at, word in enumerate(words) if _NUMBER_THERE.fullmatch(word)]
    if not numbers:
        return b"", -1
    at = max(numbers, key=lambda at: len(words[at]))
    any_ = [*words[:at], b"#" * len(words[at]), *words[at + 1 :]]
    return head_of(count, name, any_) + b"#", at


def _found(heads: Heads, words: list[bytes]) -> tuple[Template | None, bytes, list[bytes]]:
    """Returns the template of a request, None if its form is unknown; the number that goes into it;
    and the words that the call repeats."""
    name = head_of(len(words), words[0], ())
    found = heads.get(name) if len(words) > 1 and len(name) <= _MAX_HEAD else None
    if not isinstance(found, int):
        return found, b"", words[2:]
    if not 2 <= found < len(words):
        return None, b"", []
    rest, tail = (words[3:], words[2:3]) if found == 2 else (words[2:found], words[found:])
    head = head_of(len(words), words[0], rest)
    if len(head) > _MAX_HEAD:
        return None, b"", []
    any_head, at = head_of_any(len(words), words[0], rest)
    if at >= 0 and (template := heads.get(any_head)) is not None:
        return (None if isinstance(template, int) else template), rest[at], tail
    template = heads.get(head)
    return (None if isinstance(template, int) else template), b"", tail


def _argv(template: Template, number: bytes) -> bytes:
    """The words before those that the call repeats."""
    argv, hole, size = template[2], template[6], len(number)
    if hole > 0 and size and hole + size < len(argv):
        return argv[:hole] + number + argv[hole + size :]
    return argv


def _written(
    read: Sequence[tuple[Template | None, Part]], schedule: bytes, most: int, stops: bool
) -> tuple[list[bytes], list[tuple[str, int, int]]]:
    """The requests for Redis; and the calls, as Table.calls returns them."""
    out: list[bytes] = []
    made: list[tuple[str, int, int]] = []
    at = 0
    while at < len(read):
        template, part = read[at]
        end = at + 1
        if template is None:
            out.append(part[2])
        else:
            while (
                end < len(read)
                and end - at < most
                and (read[end][0] or ("", b""))[1] == template[1]
            ):
                end += 1
            made.append((template[0], len(out), end - at))
            out.append(
                script_call(template[1], [each for _, each in read[at:end]], schedule, stops)
            )
        at = end
    return out, made


class Table:
    """The commands that need only a look at their keys; name -> where these stand, as
    ttlproxy.commands.route numbers it."""

    __slots__ = ("_kinds",)

    def __init__(self, kinds: Mapping[bytes, int]) -> None:
        self._kinds = {name: kind for name, kind in kinds.items() if 0 < len(name) <= _MAX_NAME}

    def plain(
        self,
        data: bytes,
        hidden: tuple[bytes, ...],
        managed: Mapping[bytes, int],
        first_bytes: Sequence[bool],
        prefixes: tuple[bytes, ...],
        ruled: tuple[bytes, ...],
    ) -> tuple[int, int]:
        """The number of requests in `data`, if these are whole and certainly pass as they are:
        commands of the table, no word of which begins with one of `hidden`, none of whose keys is
        in `managed` (key -> bound), unless they only read it, and none of which writes a key that
        begins as the rules of ONWRITE or families do (`prefixes`; `first_bytes`: for each byte,
        whether one of these begins with it), unless they keep deadlines, and the key begins as none
        of `ruled`, which are those of the rules. Else 0.

        Also the earliest bound of the managed keys that they read; it must not have passed.
        """
        requests, end = cut(data)
        if managed.__class__ is not dict or end != len(data):
            return _NONE_PASSES
        first = NOTHING_DUE
        hidden = tuple(name for name in hidden if name in data)  # nearly always none
        if not (managed or prefixes or hidden):  # then only their names count: nearly always
            are_known = self._kinds.keys() >= {words[0] for words in requests}
            return (len(requests), first) if are_known else _NONE_PASSES
        for words in requests:
            bound = self._bound(words, hidden, managed, first_bytes, prefixes, ruled)
            if bound is None:
                return _NONE_PASSES
            first = min(first, bound)
        return len(requests), first

    def _bound(
        self,
        words: list[bytes],
        hidden: tuple[bytes, ...],
        managed: Mapping[bytes, int],
        first_bytes: Sequence[bool],
        prefixes: tuple[bytes, ...],
        ruled: tuple[bytes, ...],
    ) -> int | None:
        """The bound of the managed key that a request reads, or NOTHING_DUE; None if it is not
        certain that it passes."""
        kind = self._kinds.get(words[0])
        if kind is None or (hidden and any(word.startswith(hidden) for word in words)):
            return None
        if kind == _NO_KEY or not (managed or prefixes):
            return NOTHING_DUE
        if len(words) == 1:
            return None
        keys = words[1:] if kind == _ANY_KEY else words[1:2]
        first = NOTHING_DUE
        for key in keys:
            bound = self._bound_of(kind, key, managed, first_bytes, prefixes, ruled)
            if bound is None:
                return None
            first = min(first, bound)
        return first

    def _bound_of(
        self,
        kind: int,
        key: bytes,
        managed: Mapping[bytes, int],
        first_bytes: Sequence[bool],
        prefixes: tuple[bytes, ...],
        ruled: tuple[bytes, ...],
    ) -> int | None:
        """The bound of one key, or of a word that may be one."""
        keeps = kind == _KEPT_KEY and not key.startswith(ruled)
        if (bound := managed.get(key)) is not None:
            return bound if kind >= _READ_KEY or keeps else None
        may_match = not key or (first_bytes[key[0]] and key.startswith(prefixes))
        return None if not (kind == _READ_KEY or keeps) and prefixes and may_match else NOTHING_DUE

    def calls(
        self,
        data: bytes,
        heads: Heads,
        hidden: tuple[bytes, ...],
        managed: Mapping[bytes, int],
        first_bytes: Sequence[bool],
        prefixes: tuple[bytes, ...],
        families: tuple[bytes, ...],
        sure: tuple[bytes, ...],
        ruled: tuple[bytes, ...],
        names: Names,
        other: int,
        now: int,
        most: int,
        may_stop: bool,
    ) -> Made | None:
        """What goes to Redis in place of `data`, if it is whole requests, each of which certainly
        becomes a call of a script on its key or passes as it is, and one becomes a call: (bytes,
        requests for Redis, calls, writes, setters, stops), else None.

        `heads`: how many words a request has, and its name -> what it becomes, or, for commands of
        ours, the position of its elements, which end it (2: the one element is there, and more
        words follow); the same and all its words but key and elements -> what it becomes. That is
        (script, SHA as a bulk string, ARGV before what the call repeats, as bulk strings, how many
        words these are, one of these bytes begins what it repeats if any are said, whether it sets
        deadlines, where in that ARGV the number of the request goes if it is not 0). A native write
        repeats all behind its key, a command of ours its elements. See head_of_any for numbers.

        A write becomes a call if its key is in `managed`, or begins as one of `families`, whose
        bound is `other`, and not as one of `ruled`; a command that sets deadlines if its key begins
        as one of `sure`. Up to `most` requests for one script in a row become one call; calls:
        (script, how many requests for Redis come before it, how many it is for); writes, setters:
        how many have become calls. If a bound is before `now`, all must be one call, which stops
        before a key with something due (stops), and None is returned unless it `may_stop`. For the
        rest see `plain`.
        """
        requests, end = cut(data)
        if managed.__class__ is not dict or end != len(data):
            return None
        read: list[tuple[Template | None, Part]] = []
        first, counts = NOTHING_DUE, {False: 0, True: 0}
        just_set = set[bytes]()
        for words in requests:
            template, number, tail = _found(heads, words)
            key = words[1] if template else b""
            if template and (key in managed or key.startswith(families)):
                may_begin, sets = template[4:6]
                begins = not may_begin or (tail and tail[0] and tail[0][0] in may_begin)
                may_call = key.startswith(sure) if sets else not key.startswith(ruled)
                if not (begins and may_call):
                    return None
                counts[sets] += 1
                just_set.update([key] * sets)
                bound = managed.get(key, other)
                argv = _argv(template, number) + bulks(*tail)
                keys = bulks(key, index_name(names.prefix, names.tags, key))
                read.append((template, (keys, template[3] + len(tail), argv)))
            else:
                found = self._bound(words, hidden, managed, first_bytes, prefixes, ruled)
                if found is None or counts[True] > _MOST_SETTERS or not just_set.isdisjoint(words):
                    return None
                bound = found
                read.append((None, (b"", 0, b"*%d\r\n%b" % (len(words), bulks(*words)))))
            first = min(first, bound)
        stops = first < now
        if not any(counts.values()) or (stops and not may_stop):
            return None
        out, made = _written(read, names.schedule, most, stops)
        if stops and (len(out), len(made)) != (1, 1):
            return None
        return b"".join(out), len(out), made, counts[False], counts[True], stops
