"""Whole requests: the chunk as it nearly always comes, read by hiredis.

hiredis reads replies. Of what it takes, requests are the arrays of bulk strings; whether an array
holds anything else is not looked at here. Of RESP3 it takes more for arrays, sets and attributes,
whose headers Redis reads as lines. `*0` is no request.
"""

from __future__ import annotations

import re
from typing import Final

import hiredis

# What must not be fed to hiredis, which reserves memory for as much as a header announces.
_LARGE_ARRAY: Final = re.compile(rb"\*[0-9]{5}")
# Where RESP3 may have what hiredis gives as an array. The bytes it begins with are found in a tenth
# of the time.
_NO_ARRAY: Final = re.compile(rb"\r\n[~|][0-9]+\r\n")
_ARRAY, _SET, _ATTRIBUTE = b"*~|"
# Fed after several arrays: it comes out by itself only if the chunk has ended with one of them.
# `has_data` does not tell that: it is false in the middle of an array, too, where a bulk has just
# ended.
_MARK: Final = b":7\r\n"
_MARKED: Final = 7
# hiredis moves what it has not read for each KiB that it has, so that a chunk is fed in slices.
_SLICE: Final = 8 * 1024
# Asterisks so far from each other are faster to find one by one.
_FAR: Final = 1024


class Parser:
    """Keeps nothing from one chunk to the next: one, warm in the cache, serves all clients."""

    __slots__ = ("_reader",)

    def __init__(self) -> None:
        self._reader = hiredis.Reader()

    def whole(self, data: bytes) -> list[list[bytes]] | None:
        """The requests of `data`; None if it is not whole requests and nothing else."""
        if len(data) > _SLICE and not data.endswith(b"\r\n"):
            return None
        if _has_large_array(data):
            return None
        reader = self._reader
        requests: list[list[bytes]] = []
        try:
            if len(data) > _SLICE:
                is_whole = self._read_slices(data, requests)
            else:
                reader.feed(data)
                request = reader.gets()
                if request and request.__class__ is list and not reader.has_data():
                    return [request] if data[0] == _ARRAY else None
                is_whole = self._read(request, requests)
            if is_whole and not _has_others(data):
                reader.feed(_MARK)
                if reader.gets() == _MARKED and not reader.has_data():
                    return requests
        except hiredis.ProtocolError:
            pass
        self._reader = hiredis.Reader()
        return None

    def _read_slices(self, data: bytes, requests: list[list[bytes]]) -> bool:
        reader = self._reader
        for start in range(0, len(data), _SLICE):
            reader.feed(data, start, min(_SLICE, len(data) - start))
            if not self._read(reader.gets(), requests):
                return False
        return True

    def _read(self, request: object, requests: list[list[bytes]]) -> bool:
        """Adds this request, and what comes after it; whether nothing else does."""
        gets = self._reader.gets
        while request and request.__class__ is list:
            requests.append(request)
            request = gets()
        return request is False


def _has_others(data: bytes) -> bool:
    """Whether something may stand in these bytes that hiredis takes for an array, and is none."""
    if data[:1] != b"*":
        return True
    return (_SET in data or _ATTRIBUTE in data) and _NO_ARRAY.search(data) is not None


def _has_large_array(data: bytes) -> bool:
    """Whether the header of one may stand in these bytes."""
    at, following = 0, data.find(b"*", 1)
    if following < 0 and data[2:4] == b"\r\n":
        return False  # the only array has fewer than ten elements
    while following - at > _FAR:
        if _LARGE_ARRAY.match(data, at):
            return True
        at, following = following, data.find(b"*", following + 1)
    if following < 0:
        return _LARGE_ARRAY.match(data, at) is not None
    return _LARGE_ARRAY.search(data, at) is not None


PARSER: Final = Parser()
