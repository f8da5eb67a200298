"""RESP as bytes. Knows framing; knows no command, no clock and no socket."""

from ttlproxy.wire.requests import Requests, encode

__all__ = ["Requests", "encode"]
