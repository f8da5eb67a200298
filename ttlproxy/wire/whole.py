"""Whole requests: the chunk as it nearly always comes, read by hiredis.

hiredis reads replies. Of what it takes, requests are the arrays of bulk strings; whether an array
holds anything else is not looked at here. `*0` is no request.
"""

from __future__ import annotations

import re
from typing import Final

import hiredis

# What must not be fed to hiredis, which reserves memory for as much as a header announces.
_LARGE_ARRAY: Final = re.compile(rb"\*[0-9]{5}")
# Fed after several arrays: it comes out by itself only if the chunk has ended with one of them.
# `has_data` does not tell that: it is false in the middle of an array, too, where a bulk has just
# ended.
_MARK: Final = b":7\r\n"
_MARKED: Final = 7


class Parser:
    """Keeps nothing from one chunk to the next: one, warm in the cache, serves all clients."""

    __slots__ = ("_reader",)

    def __init__(self) -> None:
        self._reader = hiredis.Reader()

    def whole(self, data: bytes) -> list[list[bytes]] | None:
        """The requests of `data`; None if it is not whole requests and nothing else."""
        # Where the only array has fewer than ten elements there is nothing to look for.
        if (data[2:4] != b"\r\n" or data.find(b"*", 1) > 0) and _LARGE_ARRAY.search(data):
            return None
        reader = self._reader
        try:
            reader.feed(data)
            request = reader.gets()
            if request and request.__class__ is list:
                if not reader.has_data():
                    return [request]
                requests: list[list[bytes]] = []
                while request and request.__class__ is list:
                    requests.append(request)
                    request = reader.gets()
                if request is False:
                    reader.feed(_MARK)
                    if reader.gets() == _MARKED and not reader.has_data():
                        return requests
        except hiredis.ProtocolError:
            pass
        self._reader = hiredis.Reader()
        return None


PARSER: Final = Parser()
