"""The commands that the oracle's test sends: rows of a weight and words. Words in braces are drawn
by strategies.py. Knows no strategy, no model and no proxy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

# What the model knows and the proxy cannot do yet: nothing of it is drawn.
TYPES_NOT_YET: set[str] = set()
NOT_YET: set[str] = set()

# The first server version that has the command.
SINCE = dict.fromkeys((b"LMPOP", b"ZMPOP", b"SINTERCARD", b"EXPIRETIME", b"PEXPIRETIME"), (7, 0))

# No script removes fields here: HINCRBY is forwarded as it came. A field that it makes anew would
# get the old field's deadline, which stays in the index until the sweep.
_HASH = """
    4 HSET {hash} {pairs}
    2 HMSET {hash} {pairs}
    2 HSETNX {hash} {element} {value}
    3 HINCRBY {hash} {element} {by}
    2 HINCRBYFLOAT {hash} {element} {by_float}
    3 HDEL {hash} {elements}
    1 HGET {hash} {element}
    1 HGETALL {hash}
    2 HLEN {hash}
    1 HEXISTS {hash} {element}
    1 HSET {hash} {pairs} {element}
    4 HSETEX {hash} {fnx} {expiry} FIELDS {counted_pairs}
    2 HSETEX {hash} {expiry} {fnx} FIELDS {counted_pairs}
    2 HSETEX {hash} {fnx} MAXLEN {most} {timed} FIELDS {counted_pairs}
    1 HEXPIRE {hash} {s} {condition} FIELDS {counted}
    1 HPEXPIRE {hash} {ms} {condition} FIELDS {counted}
    1 HEXPIREAT {hash} {at_s} {condition} FIELDS {counted}
    1 HPEXPIREAT {hash} {at_ms} {condition} FIELDS {counted}
    1 HTTL {hash} FIELDS {counted}
    1 HPTTL {hash} FIELDS {counted}
    1 HEXPIRETIME {hash} FIELDS {counted}
    1 HPEXPIRETIME {hash} FIELDS {counted}
    1 HPERSIST {hash} FIELDS {counted}
    2 HGETEX {hash} {getex} FIELDS {distinct}
    2 HGETDEL {hash} FIELDS {counted}
"""

_HASH_FAULTS = """
    1 HSETEX {hash} EX {bad_time} FIELDS {counted_pairs}
    1 HSETEX {hash} FNX FXX FIELDS {counted_pairs}
    1 HSETEX {hash} WORD FIELDS {counted_pairs}
    1 HSETEX {hash} FIELDS {bad_count} {pairs}
"""

# No member twice if the deadline may be past: docs/semantics.md does not say what is counted.
_SET = """
    5 SADD {set} {elements}
    3 SREM {set} {elements}
    1 SPOP {set}
    2 SPOP {set} {pop}
    7 SMOVE {set} {set} {element}
    1 SMEMBERS {set}
    2 SCARD {set}
    1 SISMEMBER {set} {element}
    1 SUNION {set} {set}
    1 SINTER {set} {set}
    1 SDIFF {set} {set}
    1 SINTERCARD 2 {set} {set}
    2 SUNIONSTORE {set} {set} {set}
    2 SINTERSTORE {set} {set} {set}
    2 SDIFFSTORE {set} {set} {set}
    1 SUNIONSTORE {key} {set}
    1 SORT {set} ALPHA STORE {key}
    3 SADDEX {set} {nx} {expiry} MEMBERS {distinct}
    1 SADDEX {set} {expiry} {nx} MEMBERS {distinct}
    2 SADDEX {set} {s} {member} {other_member}
    2 SADDEX {set} KEEPTTL {s} {member} {other_member}
    2 SADDEX {set} {nx} MAXLEN {most} {timed} MEMBERS {distinct}
    2 EVAL {script} 1 {set} SREM {element}
    1 EVAL {script} 1 {set} DEL
"""

_ZSET = """
    5 ZADD {zset} {scored}
    3 ZADD {zset} {zadd_flags} {scored}
    2 ZADD {zset} {zadd_flags} INCR {score} {element}
    3 ZINCRBY {zset} {score} {element}
    3 ZREM {zset} {elements}
    2 ZREMRANGEBYRANK {zset} {place} {place}
    2 ZREMRANGEBYSCORE {zset} {bound} {bound}
    1 ZREMRANGEBYLEX {zset} {lex}
    1 ZPOPMIN {zset}
    1 ZPOPMAX {zset}
    1 ZPOPMIN {zset} {count}
    1 ZPOPMAX {zset} {count}
    2 ZMPOP 2 {zset} {zset} {end} COUNT {count}
    2 ZRANGESTORE {zset} {zset} {place} {place}
    1 ZRANGESTORE {key} {zset} {bound} {bound} BYSCORE
    2 ZUNIONSTORE {zset} 2 {zset} {zset} AGGREGATE {aggregate}
    1 ZUNIONSTORE {zset} 2 {zset} {set} WEIGHTS 2 0.5
    2 ZINTERSTORE {zset} 2 {zset} {zset}
    2 ZDIFFSTORE {zset} 2 {zset} {zset}
    1 ZUNIONSTORE {key} 1 {zset}
    1 SORT {zset} ALPHA STORE {key}
    1 ZUNION 2 {zset} {zset} WITHSCORES
    1 ZDIFF 2 {zset} {zset}
    1 ZRANGE {zset} {place} {place} WITHSCORES
    1 ZRANGE {zset} {place} {place} REV
    1 ZRANGE {zset} {bound} {bound} BYSCORE LIMIT 0 2
    1 ZREVRANGE {zset} {place} {place} WITHSCORES
    1 ZRANGEBYSCORE {zset} {bound} {bound} WITHSCORES
    1 ZREVRANGEBYSCORE {zset} {bound} {bound}
    2 ZCARD {zset}
    1 ZCOUNT {zset} {bound} {bound}
    1 ZLEXCOUNT {zset} {lex}
    1 ZSCORE {zset} {element}
    1 ZMSCORE {zset} {elements}
    1 ZRANK {zset} {element}
    1 ZREVRANK {zset} {element}
    3 ZADDEX {zset} {zadd_flags} {expiry} MEMBERS {distinct_scored}
    1 ZADDEX {zset} {expiry} {zadd_flags} MEMBERS {distinct_scored}
    2 ZADDEX {zset} {s} {score} {member} {score} {other_member}
    2 ZADDEX {zset} {zadd_flags} MAXLEN {most} {timed} MEMBERS {distinct_scored}
    2 EVAL {script} 1 {zset} ZREM {element}
    1 EVAL {script} 1 {zset} DEL
"""

_ZSET_FAULTS = """
    1 ZADD {zset} NX XX {scored}
    1 ZADD {zset} GT LT {scored}
    1 ZADD {zset} INCR {score} {element} {score} {element}
    1 ZADD {zset} {scored} {element}
    1 ZADD {zset} word {element}
    1 ZADDEX {zset} EX {bad_time} MEMBERS {distinct_scored}
    1 ZADDEX {zset} WORD MEMBERS {distinct_scored}
    1 ZADDEX {zset} MEMBERS {bad_count} {scored}
"""

_LIST = """
    3 LPUSH {list} {elements}
    3 RPUSH {list} {elements}
    1 LPUSHX {list} {elements}
    1 RPUSHX {list} {elements}
    3 LINSERT {list} {where} {element} {element}
    3 LSET {list} {place} {element}
    3 LREM {list} {place} {element}
    3 LTRIM {list} {place} {place}
    1 LPOP {list}
    1 RPOP {list}
    2 LPOP {list} {count}
    2 RPOP {list} {count}
    2 LMPOP 2 {list} {list} {side} COUNT {count}
    5 LMOVE {list} {list} {side} {side}
    3 RPOPLPUSH {list} {list}
    1 SORT {list} ALPHA STORE {key}
    2 LRANGE {list} 0 -1
    1 LRANGE {list} {place} {place}
    1 LINDEX {list} {place}
    2 LLEN {list}
    1 LPOS {list} {element}
    1 LPOS {list} {element} COUNT 0
    2 LPUSHEX {list} {expiry} ELEMENTS {counted}
    2 RPUSHEX {list} {expiry} ELEMENTS {counted}
    1 LPUSHEX {list} MAXLEN {most} {timed} ELEMENTS {counted}
    1 RPUSHEX {list} MAXLEN {most} {timed} ELEMENTS {counted}
    2 EVAL {script} 1 {list} LTRIM {place} {place}
    1 EVAL {script} 1 {list} DEL
    1 LPUSHEX {list} {s} {elements}
    1 RPUSHEX {list} {s} {elements}
"""

_LIST_FAULTS = """
    1 LINSERT {list} WORD {element} {element}
    1 LMOVE {list} {list} WORD {side}
    1 LPUSHEX {list} EX {bad_time} ELEMENTS {counted}
    1 RPUSHEX {list} WORD ELEMENTS {counted}
    1 LPUSHEX {list} ELEMENTS {bad_count} {elements}
"""

_KEYS = """
    1 DEL {key}
    1 UNLINK {key} {key}
    1 EXISTS {key} {key}
    3 EXPIRE {key} {s} {condition}
    4 PEXPIRE {key} {ms} {condition}
    2 EXPIREAT {key} {at_s} {condition}
    3 PEXPIREAT {key} {at_ms} {condition}
    4 PERSIST {key}
    1 TTL {key}
    1 PTTL {key}
    1 EXPIRETIME {key}
    1 PEXPIRETIME {key}
    1 TYPE {key}
    1 KEYS *
    1 SCAN 0 COUNT 1000
    4 RENAME {alike}
    4 RENAMENX {alike}
    1 RENAME {key} {key}
    4 COPY {alike} {replace}
    3 COPY {alike} DB {db} {replace}
    4 MOVE {key} {db}
    1 SWAPDB 0 1
    1 FLUSHDB
    2 SET {key} {value} {set_options}
    1 SETEX {key} 100 {value}
    1 PSETEX {key} 100000 {value}
    1 SETNX {key} {value}
    1 GETSET {key} {value}
    1 MSET {key} {value} {key} {value}
    1 MSETNX {key} {value} {key} {value}
    1 BITOP OR {key} {string} {key}
    1 APPEND {key} {value}
    1 INCR {key}
    1 GETDEL {key}
    1 GET {string}
"""

# These must not wait in a pipeline or a transaction, so they are sent alone.
BLOCKING = {
    "list": """
        2 BLPOP {list} {list} 0.01
        2 BRPOP {list} {list} 0.01
        3 BLMOVE {two} {side} {side} 0.01
        2 BRPOPLPUSH {two} 0.01
    """,
    "zset": """
        1 BZPOPMIN {zset} {zset} 0.01
        1 BZPOPMAX {zset} {zset} 0.01
    """,
}

# These make room. Of elements with equal deadlines any may go, so the test checks what is left.
EVICTING = {
    "hash": "1 HSETEX {hash} MAXLEN {most} EVICT {timed} FIELDS {counted_pairs}",
    "set": "1 SADDEX {set} MAXLEN {most} EVICT {timed} MEMBERS {distinct}",
    "zset": "1 ZADDEX {zset} MAXLEN {most} EVICT {timed} MEMBERS {distinct_scored}",
    "list": "1 RPUSHEX {list} MAXLEN {most} EVICT {timed} ELEMENTS {counted}",
}

_NINE = """
    1 HEXPIREFIELD {hash} {element} {s} {condition}
    1 HPEXPIREFIELD {hash} {element} {ms} {condition}
    1 HEXPIREATFIELD {hash} {element} {at_s} {condition}
    1 HPEXPIREATFIELD {hash} {element} {at_ms} {condition}
    2 HEXPIREFIELD {hash} {s} {condition} FIELDS {counted}
    2 HPEXPIREFIELD {hash} {ms} {condition} FIELDS {counted}
    2 HEXPIREATFIELD {hash} {at_s} {condition} FIELDS {counted}
    2 HPEXPIREATFIELD {hash} {at_ms} {condition} FIELDS {counted}
    2 HPERSISTFIELD {hash} {element}
    2 HPERSISTFIELD {hash} FIELDS {counted}
    1 HTTLFIELD {hash} {element}
    1 HPTTLFIELD {hash} {element}
    1 HEXPIRETIMEFIELD {hash} {element}
    1 HPEXPIRETIMEFIELD {hash} {element}
    1 HTTLFIELD {hash} FIELDS {counted}
    1 HPEXPIRETIMEFIELD {hash} FIELDS {counted}
"""

_NINE_FAULTS = """
    2 HEXPIREFIELD {hash} {element} {bad_time} {condition}
    2 HPEXPIREATFIELD {hash} {bad_time} FIELDS {counted}
    1 HEXPIREATFIELD {hash} {element} {s} {bad_condition}
    1 HEXPIREFIELD {hash} {s} FIELDS {bad_count} {elements}
    1 HPEXPIREFIELD {hash} {s} {condition} WORDS {bad_count} {element}
    1 HTTLFIELD {hash} FIELDS {bad_count} {elements}
    1 HPERSISTFIELD {hash} WORDS {bad_count} {elements}
    1 HPTTLFIELD {hash} {element} {element}
    1 HPEXPIREFIELD {hash} {element}
    1 HEXPIRETIMEFIELD {hash}
"""

# The commands of KeyDB and Dragonfly, for every type: errors for unsupported types are tested too.
_DIALECTS = """
    1 EXPIREMEMBER {hash} {element} {s}
    2 EXPIREMEMBER {hash} {element} {ms} ms
    1 EXPIREMEMBERAT {hash} {element} {at_s}
    1 PEXPIREMEMBERAT {hash} {element} {at_ms}
    1 TTL {hash} {element}
    1 PTTL {hash} {element}
    2 PERSIST {hash} {element}
    2 FIELDEXPIRE {hash} {s} {elements}
    1 FIELDTTL {hash} {element}
"""

# The command prefix of each type, and its name for elements.
_NOUNS = {"hash": "H FIELD", "set": "S MEMBER", "zset": "Z MEMBER", "list": "L ELEMENT"}

_TABLES = {
    "hash": (_HASH, _HASH_FAULTS),
    "set": (_SET, ""),
    "zset": (_ZSET, _ZSET_FAULTS),
    "list": (_LIST, _LIST_FAULTS),
}


def _of(type_: str, rows: str) -> str:
    """The rows of the nine hash commands, translated to another type."""
    prefix, noun = _NOUNS[type_].split()
    named = rows.replace(" H", f" {prefix}").replace("FIELD", noun)
    return named.replace("{hash}", f"{{{type_}}}")


def _read(table: str, times: int) -> Iterator[tuple[str, ...]]:
    """Each row as often as its weight times `times`."""
    for line in table.strip().splitlines():
        weight, *words = line.split()
        if words[0] not in NOT_YET:
            yield from [tuple(words)] * int(weight) * times


def rows(types: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The rows for a test of these types; commands on whole keys count as much as each type's."""
    found: list[tuple[str, ...]] = []
    for type_ in types:
        table, faults = _TABLES[type_]
        found += _read(table, 3)
        found += _read(_of(type_, _NINE), 3)
        found += _read(_DIALECTS.replace("{hash}", f"{{{type_}}}"), 2)
        found += _read(faults, 1)
        found += _read(_of(type_, _NINE_FAULTS), 1)
    return [*found, *list(_read(_KEYS, 2)) * len(types)]


def rows_of(tables: Mapping[str, str], types: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The rows of BLOCKING or EVICTING for these types."""
    return [row for type_ in types for row in _read(tables.get(type_, ""), 1)]
