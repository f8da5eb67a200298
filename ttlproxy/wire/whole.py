"""Chunks of whole requests, read by hiredis: nearly all chunks.

hiredis reads replies. Requests are arrays of bulk strings; this module does not check what is in an
array. `*0` is no request. What hiredis must not be fed is declined here, for the scanner to read:
large arrays, and sets, attributes and pushes of RESP3. It reserves memory as their headers say, and
returns the latter as arrays, while Redis reads their headers as inline commands.
"""

from __future__ import annotations

import re
from typing import Any, Final

import hiredis

from ttlproxy.wire.short_requests import ONE_SHORT, are_short_as_encoded

_LARGE_ARRAY: Final = re.compile(rb"\*[0-9]{5}")
# hiredis, as Redis, does not look whether a bulk string ends with a line break.
_SETS: Final = re.compile(rb"~[0-9]+\r\n")
_ATTRIBUTES: Final = re.compile(rb"\|[0-9]+\r\n")
_PUSHES: Final = re.compile(rb">[0-9]+\r\n")
_is_one_short: Final = ONE_SHORT.fullmatch
# Between two requests, if no word has it.
_NEXT: Final = b"\r\n*"
_ARRAY, _BULK, _SET, _ATTRIBUTE, _PUSH, _MAP = b"*$~|>%"
_CR, _LF, _ZERO = b"\r\n0"
# Headers and their numbers; there are others.
_COUNTS: Final = {b"*%d" % number: number for number in range(1, 100)}
_LENGTHS: Final = {b"$%d" % number: number for number in range(1024)}
# Fed after several arrays: hiredis returns it as a reply of its own only if the chunk has ended
# with a whole array. `has_data` does not show that: it is also false between two bulk strings of
# an array.
_MARK: Final = b":7\r\n"
_MARKED: Final = 7
# hiredis moves its unread bytes once for each KiB, so what it reads one by one is fed in slices.
_SLICE: Final = 8 * 1024
# If asterisks are further apart than this, it is faster to find them one by one.
_FAR: Final = 1024
# If a second array begins this early, the chunk is taken for several short ones.
_NEAR: Final = 256
# Longer requests are read by hand sooner than their bytes are searched for aggregates.
_LONG: Final = 1024


class Parser:
    """Keeps nothing of a chunk, so one parser, warm in the CPU cache, serves all clients."""

    __slots__ = ("_has_strays", "_reader")

    def __init__(self) -> None:
        self._reader = hiredis.Reader()
        # Whether the last chunk of short requests had asterisks within their words.
        self._has_strays = False

    def whole(self, data: bytes) -> list[list[bytes]] | None:
        """The requests of `data`; None unless `data` is whole requests and nothing else. None may
        also mean that a word ends in `~2`, `|2`, `>2` or the like, as sets, attributes and pushes
        begin."""
        values = self.values(data)
        return values if values is not None and are_requests(values) else None

    def values(self, data: bytes) -> list[Any] | None:
        """What `whole` returns, but unchecked: some of it may be a number, a string or empty.

        For who looks at the first word of each, and sees there that it is no command.
        """
        if not data or data[0] != _ARRAY or (len(data) > _SLICE and not data.endswith(b"\r\n")):
            return None
        second = data.find(b"*", 1)
        are_short = second > 0 and data.find(b"\r\n*", 0, _NEAR) > 0
        # A search for single bytes takes a tenth of the time.
        if _SET in data or _ATTRIBUTE in data or _PUSH in data:
            if len(data) > _LONG and not are_short:
                return _by_hand(data)
            if _has_aggregates(data):
                return None
        try:
            # A single array of fewer than ten words needs no closer look.
            if (second > 0 or data[2] != _CR) and _has_large_array(data, second):
                return None
            if second < 0 or not (are_short or len(data) > _SLICE or data[second - 1] == _LF):
                self._reader.feed(data)
                value = self._reader.gets()
                if value is not False and not self._reader.has_data():
                    return [value]
                self._reader = hiredis.Reader()
                if second < 0:
                    return None
            values = self._together(data) if are_short else None
            if values is None:
                values = self._one_by_one(data)
        except (hiredis.ProtocolError, IndexError, TypeError):  # TypeError: a map of arrays
            self._reader = hiredis.Reader()
            return None
        # A map could be taken for a list.
        return None if values and _MAP in data and not are_requests(values) else values

    def one_short(self, data: bytes) -> list[bytes] | None:
        """The words of `data`, if it is a single request just as `encode` makes it, of at most 9
        words of at most 99 bytes. It takes half the time of `whole`."""
        if _is_one_short(data) is None:
            return None
        reader = self._reader
        reader.feed(data)
        words: list[bytes] = reader.gets()
        return words

    def several_short(self, data: bytes) -> list[list[bytes]] | None:
        """The requests of `data`, if it is nothing but two or more such requests. It takes the time
        of `whole`."""
        if data.find(_NEXT) < 0 or not are_short_as_encoded(data):
            return None
        return self._together(data) or self._one_by_one(data)

    def _together(self, data: bytes) -> list[Any] | None:
        """Reads `data` as the elements of one array, which takes half the time; None if it is not
        whole, or if it is not known how many there are."""
        asterisks = data.count(b"*")
        values = None if self._has_strays else self._as_array(asterisks, data)
        if values is None:
            # An asterisk may also be a whole word, as in XADD.
            lines = data.count(b"\r\n*") + 1 - data.count(b"\r\n*\r\n")
            had_strays, self._has_strays = self._has_strays, lines != asterisks
            if had_strays or self._has_strays:
                values = self._as_array(lines, data)
        return values

    def _as_array(self, count: int, data: bytes) -> list[Any] | None:
        reader = self._reader
        reader.feed(b"*%d\r\n" % count)
        reader.feed(data)
        values: list[Any] | None = reader.gets() or None
        if values is not None and not reader.has_data():
            return values
        self._reader = hiredis.Reader()
        return None

    def _one_by_one(self, data: bytes) -> list[Any] | None:
        reader = self._reader
        gets = reader.gets
        values: list[Any] = []
        for start in range(0, len(data), _SLICE):
            reader.feed(data, start, min(_SLICE, len(data) - start))
            while (value := gets()) is not False:
                values.append(value)
        reader.feed(_MARK)
        if gets() == _MARKED and not reader.has_data():
            return values
        self._reader = hiredis.Reader()
        return None


def are_requests(values: list[Any]) -> bool:
    """Whether each of these is an array that is not empty."""
    for value in values:  # noqa: SIM110 - of one value, as usually, it takes a quarter of `all`
        if not value or value.__class__ is not list:
            return False
    return True


def _by_hand(data: bytes) -> list[list[bytes]] | None:
    """The requests of `data`, if it is whole arrays of bulk strings and nothing else."""
    requests, at = [], 0
    while at < len(data):
        end = data.find(b"\r\n", at)
        count = _COUNTS.get(data[at:end])
        if count is None:
            return None
        words, at = [], end + 2
        for _ in range(count):
            end = data.find(b"\r\n", at)
            length = _LENGTHS.get(data[at:end])
            if length is None and (length := _length(data[at:end])) is None:
                return None
            at = end + length + 4
            words.append(data[end + 2 : at - 2])
        requests.append(words)
    return requests if at == len(data) else None


def _length(header: bytes) -> int | None:
    """The length of a bulk string; None if its header is not one that Redis takes."""
    digits = header[1:]
    if not (digits.isdigit() and header[0] == _BULK and digits[0] != _ZERO):
        return None
    return int(digits)


def _has_aggregates(data: bytes) -> bool:
    """Whether `data` may have sets, attributes or pushes."""
    return (
        (_SET in data and _SETS.search(data) is not None)
        or (_ATTRIBUTE in data and _ATTRIBUTES.search(data) is not None)
        or (_PUSH in data and _PUSHES.search(data) is not None)
    )


def _has_large_array(data: bytes, second: int) -> bool:
    """Whether `data` may have the header of an array of 10,000 elements or more; `second`: where
    its second asterisk is, -1 without one."""
    at, following = 0, second
    while following - at > _FAR:
        if _LARGE_ARRAY.match(data, at):
            return True
        at, following = following, data.find(b"*", following + 1)
    if following < 0:
        return _LARGE_ARRAY.match(data, at) is not None
    return _LARGE_ARRAY.search(data, at) is not None


PARSER: Final = Parser()
