"""What a Redis Cluster, which has one database, answers to requests about others."""

from __future__ import annotations

from typing import Final

_COPYING: Final = "-ERR Copying to another database is not allowed in cluster mode"
_NOT_AN_INTEGER: Final = "-ERR value is not an integer or out of range"
# For an empty server, one after the other.
ANSWERS: Final = (
    ("SELECT 0", "+OK"),
    ("SELECT 1", "-ERR SELECT is not allowed in cluster mode"),
    ("select 15", "-ERR SELECT is not allowed in cluster mode"),
    ("SELECT -1", "-ERR SELECT is not allowed in cluster mode"),
    ("SELECT x", _NOT_AN_INTEGER),
    ("SELECT", "-ERR wrong number of arguments for 'select' command"),
    ("SADD a m", ":1"),
    ("MOVE a 1", "-ERR MOVE is not allowed in cluster mode"),
    ("MOVE a 0", "-ERR MOVE is not allowed in cluster mode"),
    ("MOVE a", "-ERR wrong number of arguments for 'move' command"),
    ("COPY a {a}b DB 1", _COPYING),
    ("COPY a {a}b DB 0 replace db 1", _COPYING),
    ("COPY a {a}b DB x", _NOT_AN_INTEGER),
    ("COPY a {a}b DB 0", ":1"),
    ("COPY a {a}b", ":0"),
    ("SWAPDB 0 1", "-ERR SWAPDB is not allowed in cluster mode"),
    ("SCARD {a}b", ":1"),
)
