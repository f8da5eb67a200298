"""Chunks of whole requests, read by hiredis: nearly all chunks.

hiredis reads replies. Requests are arrays of bulk strings; this module does not check what is in an
array. hiredis also returns RESP3 sets and attributes as arrays, but Redis reads their headers as
inline commands. `*0` is no request.
"""

from __future__ import annotations

import re
from typing import Final

import hiredis

# Not fed to hiredis, which reserves memory for as many elements as a header announces.
_LARGE_ARRAY: Final = re.compile(rb"\*[0-9]{5}")
# RESP3 types that hiredis returns as arrays. A search for their first bytes alone takes a tenth of
# the time.
_NO_ARRAY: Final = re.compile(rb"\r\n[~|][0-9]+\r\n")
_ARRAY, _SET, _ATTRIBUTE = b"*~|"
# Fed after several arrays: hiredis returns it as a reply of its own only if the chunk has ended
# with a whole array. `has_data` does not show that: it is also false between two bulk strings of
# an array.
_MARK: Final = b":7\r\n"
_MARKED: Final = 7
# hiredis moves its unread bytes once for each KiB, so we feed a chunk in slices.
_SLICE: Final = 8 * 1024
# If asterisks are further apart than this, it is faster to find them one by one.
_FAR: Final = 1024


class Parser:
    """Keeps nothing between chunks, so one parser, warm in the CPU cache, serves all clients."""

    __slots__ = ("_reader",)

    def __init__(self) -> None:
        self._reader = hiredis.Reader()

    def whole(self, data: bytes) -> list[list[bytes]] | None:
        """The requests of `data`; None unless `data` is whole requests and nothing else."""
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
        """Adds this request and those after it; returns whether nothing else comes after them."""
        gets = self._reader.gets
        while request and request.__class__ is list:
            requests.append(request)
            request = gets()
        return request is False


def _has_others(data: bytes) -> bool:
    """Whether `data` may have something that hiredis returns as an array but Redis reads as
    lines."""
    if data[:1] != b"*":
        return True
    return (_SET in data or _ATTRIBUTE in data) and _NO_ARRAY.search(data) is not None


def _has_large_array(data: bytes) -> bool:
    """Whether `data` may have the header of an array of 10,000 elements or more."""
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
