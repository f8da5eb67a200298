"""RESP as bytes. Knows framing; knows no command, no clock and no socket."""

from ttlproxy.wire.core import IS_COMPILED, Table, cut, index_name
from ttlproxy.wire.requests import Located, Requests, encode, pieces, whole
from ttlproxy.wire.twin import (
    NOTHING_DUE,
    Heads,
    Made,
    Names,
    Part,
    Template,
    bulks,
    head_of,
    head_of_any,
    script_call,
)

__all__ = [
    "IS_COMPILED",
    "NOTHING_DUE",
    "Heads",
    "Located",
    "Made",
    "Names",
    "Part",
    "Requests",
    "Table",
    "Template",
    "bulks",
    "cut",
    "encode",
    "head_of",
    "head_of_any",
    "index_name",
    "pieces",
    "script_call",
    "whole",
]
