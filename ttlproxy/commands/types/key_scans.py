"""The commands that see all keys, or all channels: they see everything except the proxy's own."""

from __future__ import annotations

from collections.abc import Sequence

from ttlproxy.commands.model.spec import Call, Survey

Args = Sequence[bytes]


def _listed(args: Args) -> Call:
    return Call("keys_list", (), args)


def _channels(args: Args) -> Call | None:
    return _listed(args) if len(args) > 1 and args[1].upper() == b"CHANNELS" else None


_KEYSPACE = """
    ASKING CLUSTER CLUSTERSCAN COPY DBSIZE DEL DELEX DUMP EXISTS EXPIRE EXPIREAT EXPIRETIME FLUSHALL
    FLUSHDB KEYS MIGRATE MOVE OBJECT PERSIST PEXPIRE PEXPIREAT PEXPIRETIME PTTL RANDOMKEY READONLY
    READWRITE RENAME RENAMENX RESTORE RESTORE-ASKING SCAN SELECT SFLUSH SWAPDB TOUCH TRIMSLOTS TTL
    TYPE UNLINK WAIT
"""
# The commands in the ACL category `keyspace` of Redis up to 8.6 and Valkey up to 9.1. The ones that
# list or count keys have a survey. The doctor names others: they may show internal keys.
KEYSPACE = frozenset(_KEYSPACE.split())
SURVEYS = (
    Survey(name="SCAN", plan=_listed, of_keys=True),
    Survey(name="KEYS", plan=_listed, of_keys=True),
    Survey(name="RANDOMKEY", plan=lambda args: Call("keys_random", (), ()), of_keys=True),
    Survey(name="DBSIZE", plan=lambda args: Call("keys_count", (), ()), of_keys=True, counts=True),
    Survey(name="PUBSUB", plan=_channels),
)
