"""Commands about whole keys.

Some commands of Redis must do to an index what they do to its data. Those that see all keys, or all
channels, see everything except the proxy's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ttlproxy import errors
from ttlproxy.commands import parsing
from ttlproxy.commands.calls import on_all_keys, on_key, on_two_keys, replacing, with_name
from ttlproxy.commands.spec import KNOWN, READ, REPLACED, Call, KeySpec, Override, Survey, refusal

Args = Sequence[bytes]

_FIRST = (KeySpec(REPLACED),)
_FROM_SECOND = (KeySpec(REPLACED), KeySpec(READ, 2))
_FROM_ALL = (KeySpec(REPLACED), KeySpec(READ, 2, last=-1))


def _name(args: Args) -> Args:
    return (args[0].upper(),)


# Redis takes an int as a database, and refuses any other word before it does anything.
_MOST_DB = 2**31


def _db(word: bytes) -> int | None:
    found = int(word) if parsing.is_integer(word) else -1
    return found if 0 <= found < _MOST_DB else None


def _copy_options(args: Args) -> tuple[int | None, bool] | None:
    """Reads the options of a COPY: (database, or None for the client's own; REPLACE); None if
    malformed."""
    db, replace, at = None, False, 3
    while at < len(args):
        word = args[at].upper()
        if word == b"DB" and at + 1 < len(args):
            at += 1
            db = _db(args[at])
            if db is None:
                return None
        elif word == b"REPLACE":
            replace = True
        else:
            return None
        at += 1
    return db, replace


def _plan_copy(args: Args) -> Call:
    db, replace = _copy_options(args) or (None, False)
    there = b"" if db is None else b"%d" % db
    return Call("key_copy", args[1:3], (there, b"1" if replace else b"0", *args[3:]))


_COPY = Override(
    name="COPY",
    plan=_plan_copy,
    keys=lambda args: args[1:3],
    targets=lambda args: args[2:3],
    target_db=lambda args: (_copy_options(args) or (None,))[0],
    takes=lambda args: _copy_options(args) is not None,
    swept=lambda args: args[2:3],
    filled=lambda args: args[2:3],
)
_MOVE = Override(
    name="MOVE",
    plan=lambda args: Call("key_move", args[1:2], args[2:]),
    keys=lambda args: args[1:2],
    targets=lambda args: args[1:2],
    target_db=lambda args: _db(args[2]),
    takes=lambda args: len(args) == 3 and _db(args[2]) is not None,
    swept=lambda args: args[1:2],
    filled=lambda args: args[1:2],
)


def _copies_elsewhere(args: Args) -> bool:
    """Whether a COPY names another database than 0."""
    db, _ = _copy_options(args) or (None, False)
    return bool(db)


def _plan_copy_in_a_cluster(args: Args) -> Call:
    refused = _copies_elsewhere(args)
    return refusal("COPY", errors.NO_COPY_IN_A_CLUSTER) if refused else _plan_copy(args)


# Here a Cluster has one database, even if Valkey 9 has more (cluster-databases).
IN_A_CLUSTER = (
    replace(_COPY, plan=_plan_copy_in_a_cluster, target_db=None, always=_copies_elsewhere),
    Override(
        name="MOVE",
        plan=lambda args: refusal("MOVE", errors.NOT_IN_A_CLUSTER % b"MOVE"),
        keys=lambda args: (),
        always=lambda args: True,
    ),
)

# These write strings. If a transaction makes their key managed before they run, they leave stale
# index entries, and a sweep drops those.
_STRINGS = {
    "SET": _FIRST,
    "SETEX": _FIRST,
    "PSETEX": _FIRST,
    "MSET": (KeySpec(REPLACED, last=-1, step=2),),
    "MSETEX": (KeySpec(REPLACED, count_at=0, first=1, step=2),),
    "BITOP": (KeySpec(REPLACED, 2), KeySpec(READ, 3, last=-1)),
}
# GETSET, MSETNX, SETNX and PFMERGE never replace a collection.
_COLLECTIONS = {
    "RESTORE": _FIRST,
    "RESTORE-ASKING": _FIRST,
    "SINTERSTORE": _FROM_ALL,
    "SUNIONSTORE": _FROM_ALL,
    "SDIFFSTORE": _FROM_ALL,
    "ZUNIONSTORE": KNOWN["ZUNIONSTORE"],
    "ZINTERSTORE": KNOWN["ZINTERSTORE"],
    "ZDIFFSTORE": KNOWN["ZDIFFSTORE"],
    "ZRANGESTORE": _FROM_SECOND,
    "GEOSEARCHSTORE": _FROM_SECOND,
    "GEORADIUS": KNOWN["GEORADIUS"],
    "GEORADIUSBYMEMBER": KNOWN["GEORADIUSBYMEMBER"],
    "SORT": KNOWN["SORT"],
}

# One script carries these out; it calls them by the name that the client has sent.
REPLACING = (
    *(replacing(name, positions, needed_later=False) for name, positions in _STRINGS.items()),
    *(replacing(name, positions) for name, positions in _COLLECTIONS.items()),
)
OVERRIDES = (
    *REPLACING,
    on_all_keys("DEL", "key_delete"),
    on_all_keys("UNLINK", "key_delete"),
    # DELEX with more words deletes strings only.
    replace(on_all_keys("DELEX", "key_delete"), takes=lambda args: len(args) == 2),
    # They announce deadlines, so each call needs the client's database.
    *(
        replace(on_key(name, "key_expire", with_name), direct=None)
        for name in ("EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "PERSIST")
    ),
    *(
        on_key(name, "key_ttl", lambda args: (args[0].upper(),))
        for name in ("TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME")
    ),
    _COPY,
    _MOVE,
    *(
        replace(
            on_two_keys(name, "key_rename", _name),
            swept=lambda args: args[1:3],
            filled=lambda args: args[2:3],
        )
        for name in ("RENAME", "RENAMENX")
    ),
)


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
# list or count keys have a survey. The doctor reports others: they may show internal keys.
KEYSPACE = frozenset(_KEYSPACE.split())
SURVEYS = (
    Survey(name="SCAN", plan=_listed, of_keys=True),
    Survey(name="KEYS", plan=_listed, of_keys=True),
    Survey(name="RANDOMKEY", plan=lambda args: Call("keys_random", (), ()), of_keys=True),
    Survey(name="DBSIZE", plan=lambda args: Call("keys_count", (), ()), of_keys=True, counts=True),
    Survey(name="PUBSUB", plan=_channels),
)
