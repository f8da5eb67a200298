"""docs/semantics.md as cases: a request, its reply, and the deadlines afterwards.

Before each case `k` has the elements a, b and c; a and b expire in 100 s; `to` has z. The numbers
after a key are the seconds left of a, b, c and d; -1: no deadline, -2: no such element.
"""

# What is the same for all types, sent for hashes: no script of these looks at the type of `k`.
KEYS = """
DEL k                                   -> 1    ; k -2 -2 -2 -2
UNLINK k                                -> 1    ; k -2 -2 -2 -2
EXPIRE k 1000                           -> 1    ; k 100 100 -1 -2
PEXPIRE k 1000000                       -> 1    ; k 100 100 -1 -2
EXPIREAT k 4102444800                   -> 1    ; k 100 100 -1 -2
PEXPIREAT k 4102444800000               -> 1    ; k 100 100 -1 -2
PEXPIREAT k 1                           -> 1    ; k -2 -2 -2 -2
PERSIST k                               -> 0    ; k 100 100 -1 -2
RENAME k to                             -> OK   ; k -2 -2 -2 -2 ; to 100 100 -1 -2
RENAME to k                             -> OK   ; k -2 -2 -2 -2
RENAMENX k to                           -> 0    ; k 100 100 -1 -2 ; to -2 -2 -2 -2
RENAMENX k new                          -> 1    ; k -2 -2 -2 -2 ; new 100 100 -1 -2
COPY k new                              -> 1    ; k 100 100 -1 -2 ; new 100 100 -1 -2
COPY k to                               -> 0    ; k 100 100 -1 -2 ; to -2 -2 -2 -2
COPY to k REPLACE                       -> 1    ; k -2 -2 -2 -2
MOVE k 1                                -> 1    ; k -2 -2 -2 -2
SWAPDB 0 1                              -> OK   ; k -2 -2 -2 -2
FLUSHDB                                 -> OK   ; k -2 -2 -2 -2
SET k text                              -> OK   ;
SET k text NX                           -> nil  ; k 100 100 -1 -2
SETEX k 100 text                        -> OK   ;
PSETEX k 100000 text                    -> OK   ;
MSET k text                             -> OK   ;
BITOP OR k nokey                        -> 0    ; k -2 -2 -2 -2
RESTORE k 0 x REPLACE                   -> ERR* ; k 100 100 -1 -2
RESTORE-ASKING k 0 x REPLACE            -> ERR* ; k 100 100 -1 -2
EVAL "return redis.call('DEL',KEYS[1])" 1 k -> 1 ; k -2 -2 -2 -2
EXISTS k                                -> 1    ; k 100 100 -1 -2
CL.THROTTLE k 15 30 60                  -> WRONGTYPE* ; k 100 100 -1 -2
INCREX k EX 100                         -> WRONGTYPE* ; k 100 100 -1 -2
DEFER EX 100 ID x DEL k                 -> "x"  ; k 100 100 -1 -2
ONEXPIRE nosuch                         -> nil  ; k 100 100 -1 -2
ONWRITE nosuch                          -> nil  ; k 100 100 -1 -2
TAKE k                                  -> []   ; k 100 100 -1 -2
UNDEFER k x                             -> 0    ; k 100 100 -1 -2
DEFERRED k                              -> []   ; k 100 100 -1 -2
"""

# What each type has of its own, or reads in its own way.
EACH = """
HEXPIREFIELD k c 200                    -> 1    ; k 100 100 200 -2
HPEXPIREFIELD k c 200000                -> 1    ; k 100 100 200 -2
HEXPIREATFIELD k c 1                    -> 2    ; k 100 100 -2 -2
HPEXPIREATFIELD k c 1                   -> 2    ; k 100 100 -2 -2
HTTLFIELD k a                           -> 100  ; k 100 100 -1 -2
HPTTLFIELD k c                          -> -1   ; k 100 100 -1 -2
HEXPIRETIMEFIELD k c                    -> -1   ; k 100 100 -1 -2
HPEXPIRETIMEFIELD k d                   -> -2   ; k 100 100 -1 -2
HPERSISTFIELD k a                       -> 1    ; k -1 100 -1 -2
TTLPROXY KEY k                          -> [*   ; k 100 100 -1 -2
DUE k COUNT 1                           -> [["a", *   ; k 100 100 -1 -2
"""

# KeyDB has no deadlines of list elements.
KEYDB = """
EXPIREMEMBER k c 200                    -> 1    ; k 100 100 200 -2
EXPIREMEMBERAT k c 1                    -> *    ; k 100 100 -2 -2
PEXPIREMEMBERAT k c 1                   -> *    ; k 100 100 -2 -2
TTL k a                                 -> 100  ; k 100 100 -1 -2
PTTL k c                                -> -1   ; k 100 100 -1 -2
PERSIST k a                             -> 1    ; k -1 100 -1 -2
"""

HASH = """
HSET k a 9 d 9                          -> 1    ; k -1 100 -1 -1
HMSET k a 9                             -> OK   ; k -1 100 -1 -2
HSETNX k a 9                            -> 0    ; k 100 100 -1 -2
HSETNX k d 9                            -> 1    ; k 100 100 -1 -1
HINCRBY k a 1                           -> 2    ; k 100 100 -1 -2
HINCRBYFLOAT k a 0.5                    -> "1.5" ; k 100 100 -1 -2
HDEL k a c                              -> 2    ; k -2 100 -2 -2
HGETALL k                               -> [*   ; k 100 100 -1 -2
HSETEX k EX 200 FIELDS 1 a 9            -> 1    ; k 200 100 -1 -2
HSETEX k FIELDS 1 a 9                   -> 1    ; k -1 100 -1 -2
HGETEX k EX 200 FIELDS 1 a              -> ["1"] ; k 200 100 -1 -2
HGETDEL k FIELDS 1 a                    -> ["1"] ; k -2 100 -1 -2
HEXPIRE k 200 FIELDS 1 c                -> [1]  ; k 100 100 200 -2
HPEXPIRE k 200000 FIELDS 1 c            -> [1]  ; k 100 100 200 -2
HEXPIREAT k 1 FIELDS 1 c                -> [2]  ; k 100 100 -2 -2
HPEXPIREAT k 1 FIELDS 1 c               -> [2]  ; k 100 100 -2 -2
HTTL k FIELDS 1 a                       -> [100] ; k 100 100 -1 -2
HPTTL k FIELDS 1 c                      -> [-1] ; k 100 100 -1 -2
HEXPIRETIME k FIELDS 1 c                -> [-1] ; k 100 100 -1 -2
HPEXPIRETIME k FIELDS 1 d               -> [-2] ; k 100 100 -1 -2
HPERSIST k FIELDS 1 a                   -> [1]  ; k -1 100 -1 -2
FIELDEXPIRE k 200 c                     -> [1]  ; k 100 100 200 -2
FIELDTTL k a                            -> 100  ; k 100 100 -1 -2
"""

SET = """
SADD k a d                              -> 1    ; k 100 100 -1 -1
SREM k a                                -> 1    ; k -2 100 -1 -2
SPOP k 9                                -> [*   ; k -2 -2 -2 -2
SMOVE k to a                            -> 1    ; k -2 100 -1 -2 ; to 100 -2 -2 -2
SUNIONSTORE k to k                      -> 4    ; k -1 -1 -1 -2
SINTERSTORE k k k                       -> 3    ; k -1 -1 -1 -2
SDIFFSTORE k to k                       -> 1    ; k -2 -2 -2 -2
SORT k ALPHA STORE k                    -> 3    ;
SADDEX k 200 a d                        -> 1    ; k 200 100 -1 200
UNLEASE k 1 a c                         -> 0    ; k 100 100 -1 -2
RENEW k 1 a EX 200                      -> nil  ; k 100 100 -1 -2
"""

ZSET = """
ZADD k 1 a 1 d                          -> 1    ; k -1 100 -1 -1
ZADD k XX GT -1 b                       -> 0    ; k 100 100 -1 -2
ZADD k NX 5 a                           -> 0    ; k 100 100 -1 -2
ZADD k INCR 1 a                         -> *    ; k 100 100 -1 -2
ZINCRBY k 1 a                           -> *    ; k 100 100 -1 -2
GEOADD k 13 38 a                        -> 0    ; k -1 100 -1 -2
ZREM k a                                -> 1    ; k -2 100 -1 -2
ZPOPMIN k                               -> ["a"* ; k -2 100 -1 -2
ZPOPMAX k                               -> ["c"* ; k 100 100 -2 -2
ZPOPMIN k 2                             -> [*   ; k -2 -2 -1 -2
BZPOPMIN k 0                            -> ["k", "a"* ; k -2 100 -1 -2
ZREMRANGEBYRANK k 0 0                   -> 1    ; k -2 100 -1 -2
ZREMRANGEBYSCORE k 0 0                  -> 3    ; k -2 -2 -2 -2
ZREMRANGEBYLEX k [a [a                  -> 1    ; k -2 100 -1 -2
ZUNIONSTORE k 1 k                       -> 3    ; k -1 -1 -1 -2
ZINTERSTORE k 1 k                       -> 3    ; k -1 -1 -1 -2
ZDIFFSTORE k 2 k to                     -> 3    ; k -1 -1 -1 -2
ZRANGESTORE k k 0 0                     -> 1    ; k -1 -2 -2 -2
ZADDEX k 200 1 a 1 d                    -> 1    ; k 200 100 -1 200
LBADD k 5 d                             -> WRONGTYPE* ; k 100 100 -1 -2
LBINCRBY k 5 a                          -> WRONGTYPE* ; k 100 100 -1 -2
LBTOP k 0 -1                            -> WRONGTYPE* ; k 100 100 -1 -2
LBRANK k a                              -> WRONGTYPE* ; k 100 100 -1 -2
LBAROUND k a 1                          -> WRONGTYPE* ; k 100 100 -1 -2
LBREM k a                               -> WRONGTYPE* ; k 100 100 -1 -2
ZEXPIRE k 200 MEMBERS 1 c               -> [1]  ; k 100 100 200 -2
ZPEXPIRE k 200000 MEMBERS 1 c           -> [1]  ; k 100 100 200 -2
ZEXPIREAT k 1 MEMBERS 1 c               -> [2]  ; k 100 100 -2 -2
ZPEXPIREAT k 1 MEMBERS 1 c              -> [2]  ; k 100 100 -2 -2
ZTTL k MEMBERS 1 a                      -> [100] ; k 100 100 -1 -2
ZPTTL k MEMBERS 1 c                     -> [-1] ; k 100 100 -1 -2
ZEXPIRETIME k MEMBERS 1 c               -> [-1] ; k 100 100 -1 -2
ZPEXPIRETIME k MEMBERS 1 d              -> [-2] ; k 100 100 -1 -2
ZPERSIST k MEMBERS 1 a                  -> [1]  ; k -1 100 -1 -2
"""

LIST = """
LPUSH k a d                             -> 5    ; k 100 100 -1 -1
RPUSH k d                               -> 4    ; k 100 100 -1 -1
LPUSHX k d                              -> 4    ; k 100 100 -1 -1
RPUSHX k d                              -> 4    ; k 100 100 -1 -1
LINSERT k BEFORE b d                    -> 4    ; k 100 100 -1 -1
LSET k 0 d                              -> OK   ; k -2 100 -1 -1
LREM k 0 a                              -> 1    ; k -2 100 -1 -2
LPOP k                                  -> "a"  ; k -2 100 -1 -2
RPOP k                                  -> "c"  ; k 100 100 -2 -2
LPOP k 2                                -> ["a", "b"] ; k -2 -2 -1 -2
BLPOP k 0                               -> ["k", "a"] ; k -2 100 -1 -2
LTRIM k 1 -1                            -> OK   ; k -2 100 -1 -2
LMOVE k to LEFT RIGHT                   -> "a"  ; k -2 100 -1 -2 ; to 100 -2 -2 -2
RPOPLPUSH k to                          -> "c"  ; k 100 100 -2 -2 ; to -2 -2 -1 -2
BLMOVE k to LEFT RIGHT 0                -> "a"  ; k -2 100 -1 -2 ; to -1 -2 -2 -2
BRPOPLPUSH k to 0                       -> "c"  ; k 100 100 -2 -2 ; to -2 -2 -1 -2
SORT k ALPHA STORE k                    -> 3    ; k -1 -1 -1 -2
LPUSHEX k 200 d                         -> 4    ; k 100 100 -1 200
RPUSHEX k 200 d                         -> 4    ; k 100 100 -1 200
LEASE k held EX 200                     -> "c"  ; k 100 100 -2 -2
"""

TYPES = {
    "hash": KEYS + EACH + KEYDB + HASH,
    "set": EACH + KEYDB + SET,
    "zset": EACH + KEYDB + ZSET,
    "list": EACH + LIST,
}

# (type, release): commands, or replies, since that release. 6.2 leaves the target of a GEO command
# alone if the source is missing.
SINCE = {
    ("hash", (7, 0)): """
EXPIRETIME k                            -> -1   ; k 100 100 -1 -2
PEXPIRETIME k                           -> -1   ; k 100 100 -1 -2
""",
    ("set", (7, 0)): """
SINTERCARD 2 k k                        -> 3    ; k 100 100 -1 -2
""",
    ("zset", (7, 0)): """
GEOSEARCHSTORE k nokey FROMLONLAT 0 0 BYRADIUS 1 M ASC -> 0 ; k -2 -2 -2 -2
GEORADIUS nokey 0 0 1 M STORE k            -> 0    ; k -2 -2 -2 -2
GEORADIUSBYMEMBER nokey z 1 M STORE k   -> 0    ; k -2 -2 -2 -2
ZMPOP 1 k MIN                           -> ["k"* ; k -2 100 -1 -2
""",
    ("list", (7, 0)): """
LMPOP 1 k LEFT                          -> ["k", ["a"]] ; k -2 100 -1 -2
BLMPOP 0 1 k RIGHT                      -> ["k", ["c"]] ; k 100 100 -2 -2
""",
}

# Rows for all servers that have the command.
NEWER = {
    "hash": """
MSETEX 1 k text EX 100                  -> 1    ;
DELEX k                                 -> 1    ; k -2 -2 -2 -2
DELEX k IFEQ a                          -> ERR* ; k 100 100 -1 -2
DELIFEQ k a                             -> *    ; k 100 100 -1 -2
SET k text IFEQ a                       -> *    ; k 100 100 -1 -2
INCREX k                                -> *    ; k 100 100 -1 -2
""",
    "set": """
SUNIONCARD 1 k                          -> 3    ; k 100 100 -1 -2
SDIFFCARD 2 k to                        -> 3    ; k 100 100 -1 -2
VADD k VALUES 1 1 d                     -> *    ; k 100 100 -1 -2
""",
    "list": """
LMOVEM k to LEFT RIGHT COUNT 2 OBO      -> ["a", "b"] ; k -2 -2 -1 -2 ; to -1 -1 -2 -2
BLMOVEM k to LEFT RIGHT 0 COUNT 1 OBO   -> ["a"] ; k -2 100 -1 -2 ; to -1 -2 -2 -2
ARSET k 1 a                             -> *    ; k 100 100 -1 -2
""",
}
