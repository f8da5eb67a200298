"""Error texts of Redis that many tests expect, written down apart from the proxy's own table."""

WRONGTYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
NOT_AN_INTEGER = "ERR value is not an integer or out of range"
