"""RESP as bytes. Knows framing; knows no command, no clock and no socket."""

from ttlproxy.wire.core import IS_COMPILED, Table, cut
from ttlproxy.wire.requests import Located, Requests, encode, pieces, whole

__all__ = [
    "IS_COMPILED",
    "Located",
    "Requests",
    "Table",
    "cut",
    "encode",
    "pieces",
    "whole",
]
