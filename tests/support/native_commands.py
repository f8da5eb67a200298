"""Native commands as rows, for the generator. Knows what each word may be; sends nothing.

A word in braces is drawn from POOLS, every other word is sent as it is. Rows avoid replies that
differ between two Redis processes by chance: random picks, the order of hash tables, the clock,
ids and sizes. So sets hold integers, which are stored sorted; only the sets named w hold others.
"""

ROWS = """
PING
PING {value}
ECHO {value}
SET {string} {value}
SET {string} {blob}
SET {string} {value} NX
SET {string} {value} XX GET
SET {string} {value} PXAT {far_ms}
SET {string} {value} EX {number} PX {number}
SET {string} {value} KEEPTTL
SET {string} {value} EX -1
SETNX {string} {value}
SETEX {string} 0 {value}
PSETEX {relative} 1000000 {value}
SETEX {relative} 1000 {value}
GET {string}
GET {any}
GETSET {string} {value}
GETDEL {string}
GETEX {string} PERSIST
GETEX {string} PXAT {far_ms}
GETEX {relative} EX 1000
MSET {string} {value} {string} {value}
MSETNX {string} {value} {string} {value}
MGET {string} {any} {string}
APPEND {string} {value}
STRLEN {string}
STRLEN {any}
INCR {string}
DECR {string}
INCRBY {string} {number}
DECRBY {string} {number}
INCRBYFLOAT {string} {float}
SETRANGE {string} {number} {value}
GETRANGE {string} {index} {index}
SUBSTR {string} {index} {index}
SET {short} {value}
LCS {short} {short}
LCS {short} {short} IDX WITHMATCHLEN
STRALGO LCS KEYS {short} {short}
DUMP {string}
RESTORE {string} 0 {value}
RESTORE-ASKING {string} 0 {value}
HSET {hash} {field} {value}
HSET {hash} {field} {value} {field} {value}
HSET {hash} {field}
HMSET {hash} {field} {value} {field} {value}
HSETNX {hash} {field} {value}
HGET {hash} {field}
HMGET {hash} {field} {field} {field}
HGETALL {hash}
HKEYS {hash}
HVALS {hash}
HLEN {hash}
HEXISTS {hash} {field}
HSTRLEN {hash} {field}
HDEL {hash} {field}
HDEL {hash} {field} {field} {field}
HINCRBY {hash} {field} {number}
HINCRBYFLOAT {hash} {field} {float}
HRANDFIELD {missing}
HRANDFIELD {missing} 3 WITHVALUES
HSCAN {hash} 0
HSCAN {hash} 0 MATCH f* COUNT 10
SADD {set} {number}
SADD {set} {number} {number} {number}
SREM {set} {number}
SREM {set} {number} {number} {number}
SISMEMBER {set} {number}
SMISMEMBER {set} {number} {number}
SMEMBERS {set}
SCARD {set}
SMOVE {set} {set} {number}
SPOP {lone}
SPOP {lone} 3
SADD {lone} 7
SRANDMEMBER {lone}
SPOP {set} 0
SPOP {set} -1
SINTER {set} {set}
SUNION {set} {set} {set}
SDIFF {set} {set}
SINTERCARD 2 {set} {set} LIMIT 2
SINTERSTORE {set} {set} {set}
SUNIONSTORE {set} {set} {set}
SDIFFSTORE {set} {set} {set}
SSCAN {set} 0
ZADD {zset} {float} {field}
ZADD {zset} {float} {field} {float} {field}
ZADD {zset} NX CH {float} {field}
ZADD {zset} XX GT {float} {field}
ZADD {zset} INCR {float} {field}
ZADD {zset} NX XX {float} {field}
ZINCRBY {zset} {float} {field}
ZREM {zset} {field} {field}
ZSCORE {zset} {field}
ZMSCORE {zset} {field} {field}
ZCARD {zset}
ZCOUNT {zset} {score} {score}
ZLEXCOUNT {zset} {lex} {lex}
ZRANK {zset} {field}
ZREVRANK {zset} {field}
ZRANGE {zset} {index} {index}
ZRANGE {zset} {index} {index} WITHSCORES
ZRANGE {zset} {score} {score} BYSCORE REV LIMIT 0 2
ZREVRANGE {zset} {index} {index} WITHSCORES
ZRANGEBYSCORE {zset} {score} {score} WITHSCORES LIMIT 1 2
ZREVRANGEBYSCORE {zset} {score} {score}
ZRANGEBYLEX {zset} {lex} {lex}
ZREVRANGEBYLEX {zset} {lex} {lex}
ZREMRANGEBYRANK {zset} {index} {index}
ZREMRANGEBYSCORE {zset} {score} {score}
ZREMRANGEBYLEX {zset} {lex} {lex}
ZRANGESTORE {zset} {zset} {index} {index}
ZPOPMIN {zset}
ZPOPMAX {zset} 2
ZMPOP 2 {zset} {zset} MIN COUNT 2
BZPOPMIN {zset} {zset} 0.005
BZPOPMAX {zset} 0.005
BZMPOP 0.005 1 {zset} MAX
ZRANDMEMBER {missing}
ZRANDMEMBER {zset} 0
ZUNION 2 {zset} {zset} WITHSCORES
ZINTER 2 {zset} {set} WEIGHTS 2 {float} WITHSCORES
ZDIFF 2 {zset} {zset}
ZINTERCARD 2 {zset} {zset}
ZUNIONSTORE {zset} 2 {zset} {zset} AGGREGATE MAX
ZINTERSTORE {zset} 2 {zset} {zset}
ZDIFFSTORE {zset} 2 {zset} {zset}
ZSCAN {zset} 0 MATCH f1
LPUSH {list} {value}
RPUSH {list} {value} {value}
LPUSHX {list} {value}
RPUSHX {list} {value}
LPOP {list}
RPOP {list} 2
LPOP {missing} 2
LLEN {list}
LRANGE {list} {index} {index}
LINDEX {list} {index}
LSET {list} {index} {value}
LINSERT {list} BEFORE {value} {value}
LREM {list} {index} {value}
LTRIM {list} {index} {index}
LPOS {list} {value} RANK -1 COUNT 0
LMOVE {list} {list} LEFT RIGHT
RPOPLPUSH {list} {list}
LMPOP 2 {list} {list} LEFT COUNT 2
BLPOP {list} {list} 0.005
BRPOP {list} 0.005
BRPOPLPUSH {list} {list} 0.005
BLMOVE {list} {list} RIGHT LEFT 0.005
BLMPOP 0.005 2 {list} {list} RIGHT
BLPOP {list} soon
BLPOP {list} -1
XADD {stream} {id} {field} {value}
XADD {stream} MAXLEN 3 {id} {field} {value} {field} {value}
XADD {stream} NOMKSTREAM {id} {field} {value}
XLEN {stream}
XRANGE {stream} - +
XRANGE {stream} {id} + COUNT 2
XREVRANGE {stream} + - COUNT 2
XDEL {stream} {id}
XTRIM {stream} MAXLEN 2
XSETID {stream} {id}
XREAD COUNT 2 STREAMS {stream} {stream} 0 {id}
XREAD BLOCK 1 STREAMS {stream} $
XGROUP CREATE {stream} g1 0 MKSTREAM
XGROUP CREATECONSUMER {stream} g1 c1
XGROUP DELCONSUMER {stream} g1 c1
XGROUP DESTROY {stream} g1
XREADGROUP GROUP g1 c1 COUNT 1 STREAMS {stream} >
XACK {stream} g1 {id}
XPENDING {stream} g1
XCLAIM {stream} g1 c2 0 {id} JUSTID
XAUTOCLAIM {stream} g1 c2 0 0 JUSTID
XINFO GROUPS {stream}
XINFO STREAM {stream}
XINFO CONSUMERS {stream} nosuch
XGROUP SETID {stream} g1 {id}
SETBIT {string} {number} 1
SETBIT {string} {number} 2
GETBIT {string} {number}
BITCOUNT {string}
BITCOUNT {string} {index} {index}
BITPOS {string} 1
BITOP AND {string} {string} {string}
BITOP NOT {string} {string} {string}
BITFIELD {string} SET u8 0 {number} INCRBY i5 3 1 OVERFLOW FAIL GET u4 0
BITFIELD_RO {string} GET u8 {number}
PFADD {hll} {value} {field}
PFCOUNT {hll} {hll}
PFMERGE {hll} {hll}
GEOADD {geo} 13.361389 38.115556 {field} 15.087269 37.502669 {field}
GEOADD {geo} 200 {float} {field}
GEODIST {geo} {field} {field} KM
GEOPOS {geo} {field} {field}
GEOHASH {geo} {field}
GEOSEARCH {geo} FROMLONLAT 15 37 BYRADIUS 200 KM ASC WITHDIST WITHCOORD
GEOSEARCHSTORE {geo} {geo} FROMLONLAT 15 37 BYBOX 400 400 KM ASC
GEORADIUS {geo} 15 37 200 KM WITHHASH ASC
GEORADIUSBYMEMBER {geo} {field} 100 KM ASC
GEORADIUS_RO {geo} 15 37 200 KM WITHDIST ASC
GEORADIUSBYMEMBER_RO {geo} {field} 100 KM DESC
GEORADIUS {geo} 15 37 200 KM ASC STORE {geo}
DEL {any}
DEL {any} {any} {any}
UNLINK {any} {any}
EXISTS {any} {any} {any}
TOUCH {any} {any}
TYPE {any}
RENAME {any} {any}
RENAMENX {any} {any}
COPY {any} {any}
COPY {any} {any} REPLACE
COPY {any} {any} DB {db}
MOVE {any} {db}
OBJECT ENCODING {any}
OBJECT NOSUCH {any}
OBJECT FREQ {any}
OBJECT REFCOUNT nosuch
OBJECT IDLETIME {missing}
MIGRATE 127.0.0.1 1 {missing} 0 5
EXPIRE {relative} 1000
EXPIRE {any} -1
EXPIRE {any} {bad}
EXPIREAT {any} {far_s}
EXPIREAT {any} 1
PEXPIRE {any} -100
PEXPIREAT {any} {far_ms}
PEXPIREAT {any} {far_ms} NX
PEXPIREAT {any} {far_ms} XX
PEXPIREAT {any} {far_ms} GT
PEXPIREAT {any} {far_ms} LT
PEXPIREAT {any} {far_ms} SOON
EXPIREAT {any} {far_s} XX GT
PEXPIRETIME {any}
EXPIRETIME {any}
PERSIST {any}
PERSIST {relative}
TTL {never}
PTTL {never}
TTL {missing}
SET {never} {value}
DEL {never}
SORT {list} ALPHA
SORT {list}
SORT {set} DESC LIMIT 0 2
SORT {zset} BY nosort
SORT {list} BY {string} GET # GET {string} ALPHA
SORT {list} ALPHA STORE {list}
SORT_RO {list} ALPHA DESC
SORT {words} ALPHA
SADD {words} {plain} {plain}
SREM {words} {plain}
SCARD {words}
SISMEMBER {words} {plain}
DBSIZE
KEYS t*1
KEYS *ttl*
SCAN 0 COUNT 1000 MATCH t1
SCAN 0 COUNT 1000 MATCH __ttl*
SCAN x
SCAN 0 COUNT {bad}
SCAN 0 COUNT 1000 TYPE nosuch
MULTI
EXEC
DISCARD
WATCH {any} {any}
UNWATCH
SELECT {db}
SELECT 99
SELECT {bad}
SWAPDB 0 {db}
FLUSHDB
FLUSHALL
FLUSHALL NOSUCH
WAIT 0 0
HELLO
HELLO 2
HELLO 3
HELLO 4
HELLO {bad}
HELLO 3 SETNAME {field}
RESET
CLIENT GETNAME
CLIENT SETNAME {field}
CLIENT SETNAME {value}
CLIENT TRACKINGINFO
CLIENT CACHING YES
CLIENT NO-EVICT ON
CLIENT REPLY SKIP
CLIENT REPLY ON
CLIENT REPLY NOSUCH
CLIENT NOSUCH
CLIENT GETREDIR
CLIENT TRACKING OFF
CLIENT UNBLOCK 0
CLIENT UNPAUSE
CLIENT PAUSE soon
ACL WHOAMI
ACL GETUSER nobody
ACL NOSUCH
ACL CAT {value}
ACL SETUSER someone off
ACL DELUSER someone
ACL DRYRUN default GET {any}
ACL LOAD
ACL SAVE
ROLE
READONLY
READWRITE
ASKING
REPLCONF nosuch 1
FAILOVER ABORT
CLUSTER INFO
CLUSTER ADDSLOTS 1
CLUSTER ADDSLOTSRANGE 1 2
CLUSTER BUMPEPOCH
CLUSTER COUNT-FAILURE-REPORTS x
CLUSTER COUNTKEYSINSLOT 1
CLUSTER DELSLOTS 1
CLUSTER DELSLOTSRANGE 1 2
CLUSTER FAILOVER
CLUSTER FLUSHSLOTS
CLUSTER FORGET x
CLUSTER GETKEYSINSLOT 1 1
CLUSTER HELP
CLUSTER KEYSLOT {any}
CLUSTER LINKS
CLUSTER MEET 127.0.0.1 1
CLUSTER MYID
CLUSTER NODES
CLUSTER REPLICAS x
CLUSTER REPLICATE x
CLUSTER RESET
CLUSTER SAVECONFIG
CLUSTER SET-CONFIG-EPOCH 1
CLUSTER SETSLOT 1 STABLE
CLUSTER SHARDS
CLUSTER SLAVES x
CLUSTER SLOTS
CONFIG GET databases
CONFIG NOSUCH
CONFIG SET nosuch 1
CONFIG REWRITE
CONFIG RESETSTAT
DEBUG NOSUCH
LATENCY DOCTOR
LATENCY GRAPH nosuch
LATENCY HISTORY nosuch
LATENCY LATEST
LATENCY RESET
MEMORY PURGE
MEMORY USAGE {missing}
MODULE LIST
MODULE LOAD /nonexistent
MODULE LOADEX /nonexistent
MODULE UNLOAD nosuch
SLOWLOG RESET
PFDEBUG NOSUCH {hll}
COMMAND GETKEYS SET a b
COMMAND GETKEYS GET
EVAL return{KEYS[1],ARGV[1]}--d 1 {any} {value}
EVAL return(redis.call('GET',KEYS[1]))--d 1 {any}
EVAL return(redis.pcall('HGETALL',KEYS[1]))--d 1 {any}
EVAL return(redis.call('HSET',KEYS[1],ARGV[1],ARGV[2]))--d 1 {hash} {field} {value}
EVAL return(redis.error_reply('MINE'))--d 0
EVAL return(redis.status_reply('fine'))--d 0
EVAL redis.setresp(3)return(redis.call('HGETALL',KEYS[1]))--d 1 {hash}
EVAL return{1,2.9,false,'x',{'y'}}--d 0
EVAL return(nosuch())--d 0
EVAL not-lua 0
EVAL return(1)--d {bad}
EVAL return(1)--d 3 {any}
EVAL_RO return(redis.call('SET',KEYS[1],'x'))--d 1 {string}
EVALSHA ffffffffffffffffffffffffffffffffffffffff 0
EVALSHA_RO ffffffffffffffffffffffffffffffffffffffff 0
EVALSHA 59a894e0767129567e4da12b7aa691b96fcc5fa5 1 {any} {value}
SCRIPT LOAD return(1)--d
SCRIPT EXISTS 59a894e0767129567e4da12b7aa691b96fcc5fa5 {field}
SCRIPT NOSUCH
SCRIPT FLUSH SYNC
SCRIPT KILL
FUNCTION NOSUCH
FUNCTION LOAD {value}
FUNCTION LOAD REPLACE {library}
FUNCTION DELETE mine
FUNCTION DUMP
FUNCTION RESTORE {value}
FUNCTION FLUSH
FUNCTION KILL
FUNCTION LIST
FUNCTION STATS
FCALL nosuch 1 {any}
FCALL put 1 {hash} {field} {value}
FCALL_RO nosuch 1 {any}
FCALL_RO put 1 {hash} {field} {value}
PUBLISH differential-1 {value}
SPUBLISH differential-1 {value}
PUBSUB NUMSUB differential-1
PUBSUB NUMPAT
PUBSUB SHARDCHANNELS differential-*
PUBSUB SHARDNUMSUB differential-1
SUNSUBSCRIBE
UNSUBSCRIBE
PUNSUBSCRIBE
UNSUBSCRIBE differential-1
NOSUCH
NOSUCH {value} {field} {blob}
{value}
{blob} {value}
GET
SET {string}
HSET
LPUSH {list}
"""

# With a word more or less these would give replies that differ, or do harm.
EXACT = """
ACL GENPASS 0
ACL LOG RESET
CLIENT KILL 127.0.0.1:1
CLIENT LIST TYPE replica
COMMAND DOCS get nosuch
COMMAND GETKEYSANDFLAGS GET a
COMMAND INFO get nosuch
COMMAND LIST FILTERBY MODULE nosuch
LATENCY HISTOGRAM nosuch
LOLWUT VERSION 7
PUBSUB CHANNELS differential-*
SLOWLOG GET 0
""" + "".join(
    f"{name} HELP\n"
    for name in (
        *("ACL", "CLIENT", "COMMAND", "CONFIG", "FUNCTION", "LATENCY", "MEMORY", "MODULE"),
        *("OBJECT", "PUBSUB", "SCRIPT", "SLOWLOG", "XGROUP", "XINFO"),
    )
)

# Commands that no row can compare.
REASONS = {
    "ACL|LIST": "shows the users of other tests",
    "ACL|USERS": "shows the users of other tests",
    "BGREWRITEAOF": "forks, and its answer depends on what else has forked",
    "BGSAVE": "forks, and its answer depends on what else has forked",
    "CLIENT|ID": "an id of its own for each connection",
    "CLIENT|INFO": "an id of its own for each connection",
    "COMMAND|COUNT": "counts the virtual commands too",
    "HOST:": "Redis takes it for an attack and closes: see test_protocol_errors",
    "INFO": "clocks, sizes, process ids",
    "LASTSAVE": "a clock",
    "MEMORY|DOCTOR": "sizes of a process",
    "MEMORY|MALLOC-STATS": "sizes of a process",
    "MEMORY|STATS": "sizes of a process",
    "MONITOR": "shows other clients' requests: see test_conversations",
    "PFSELFTEST": "takes seconds",
    "POST": "Redis takes it for an attack and closes: see test_protocol_errors",
    "PSYNC": "makes the connection a replica's: see test_conversations",
    "RANDOMKEY": "picks at random",
    "REPLICAOF": "makes the server a replica",
    "SAVE": "writes a file, and is refused while a fork writes one",
    "SCRIPT|DEBUG": "its answer depends on whether other answers are still on their way",
    "SHUTDOWN": "ends the server",
    "SLAVEOF": "makes the server a replica",
    "SLOWLOG|LEN": "counts what was slow",
    "SYNC": "makes the connection a replica's: see test_conversations",
    "TIME": "a clock",
}

POOLS: dict[str, list[bytes]] = {
    "string": [b"t1", b"t2", b"t3"],
    "short": [b"u1", b"u2"],  # LCS needs the product of two lengths in time and memory
    "hash": [b"h1", b"h2"],
    "set": [b"s1", b"s2", b"s3"],
    "zset": [b"z1", b"z2"],
    "list": [b"l1", b"l2"],
    "stream": [b"x1", b"x2"],
    "hll": [b"p1", b"p2"],
    "geo": [b"g1", b"g2"],
    "any": [b"t1", b"t2", b"h1", b"h2", b"s1", b"s2", b"z1", b"l1", b"x1", b"p1", b"g1", b"gone"],
    "missing": [b"missing"],
    "lone": [b"lone"],
    "words": [b"w1"],
    "relative": [b"relative"],
    "never": [b"never1"],
    "value": [
        *(b"", b"a", b"value", b"10", b"-3", b"1.5", b"0x1f", b" 7", b"9223372036854775807"),
        *(b"\x00\r\n\xff", b"*1\r\n$4\r\nPING\r\n", b'quo"ted', b"with space", b"y" * 60),
    ],
    "blob": [b"z" * 300, b"\x00\xff\r\n" * 5_000, b"k" * 70_000],
    "field": [b"f1", b"f2", b"f3", b"f4", b"\x00f\r\n"],
    "plain": [b"a", b"b", b"c"],
    "library": [
        b"#!lua name=mine\nredis.register_function('put', function(keys, args)"
        b" return redis.call('HSET', keys[1], args[1], args[2]) end)"
    ],
    "number": [b"0", b"1", b"2", b"3", b"7", b"12", b"-1"],
    "bad": [b"abc", b"", b" 1", b"1.0", b"+1", b"01", b"9223372036854775808", b"-"],
    "index": [b"-3", b"-1", b"0", b"1", b"2", b"5"],
    "float": [b"0", b"1.5", b"-2", b"1e3", b"inf", b"nan", b"0.1"],
    "score": [b"-inf", b"(1", b"0", b"1.5", b"+inf", b"x"],
    "lex": [b"-", b"+", b"[f1", b"(f3", b"f2"],
    "far_ms": [b"4102444800000", b"4102444800123", b"4133980800000"],
    "far_s": [b"4102444800", b"4133980800"],
    "id": [b"1-1", b"2-1", b"3-5", b"9-9", b"0-0", b"nonsense"],
    "db": [b"0", b"1", b"3"],
}

KEYS = frozenset({"string", "hash", "set", "zset", "list", "stream", "hll", "geo"})

# With another number of words these would block for long, hold a subscription, pick at random, or
# become commands of KeyDB's dialect.
NEVER_FLAWED = frozenset(
    {"BLPOP", "BRPOP", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP", "BRPOPLPUSH", "BLMOVE", "XREAD",
     "WAIT", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SPOP", "ZRANDMEMBER", "TTL", "PTTL", "PERSIST"}
)  # fmt: skip

# Redis 8 does not answer a refused AUTH that it reads together with the requests before it.
BEFORE_REDIS_8 = """
HELLO 3 AUTH {field} {value}
AUTH {value}
AUTH {field} {value}
"""

SUBSCRIBED = """
PING
PING {value}
GET {string}
PUBLISH differential-1 {value}
PUBLISH differential-pattern {value}
SUBSCRIBE differential-1
PSUBSCRIBE differential-p*
SSUBSCRIBE differential-1
SPUBLISH differential-1 {value}
"""
