"""RESP as bytes. Knows framing; knows no command, no clock and no socket."""

from ttlproxy.wire.line_replies import Lines
from ttlproxy.wire.marked import Marked
from ttlproxy.wire.requests import Located, Requests, bodies, encode, from_bodies, pieces
from ttlproxy.wire.short_requests import are_short_as_encoded
from ttlproxy.wire.whole import PARSER, are_requests

__all__ = [
    "PARSER",
    "Lines",
    "Located",
    "Marked",
    "Requests",
    "are_requests",
    "are_short_as_encoded",
    "bodies",
    "encode",
    "from_bodies",
    "pieces",
]
