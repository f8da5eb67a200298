"""RESP as bytes. Knows framing; knows no command, no clock and no socket."""

from ttlproxy.wire.line_replies import Lines
from ttlproxy.wire.marked import Marked
from ttlproxy.wire.requests import Located, Requests, encode, pieces
from ttlproxy.wire.whole import PARSER, are_requests

__all__ = ["PARSER", "Lines", "Located", "Marked", "Requests", "are_requests", "encode", "pieces"]
