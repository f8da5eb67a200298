"""ONWRITE: native commands give deadlines to what they write, by a rule for the key."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from threading import Thread

import pytest

from tests.conftest import StartProxy
from tests.support.containers import AnyServer
from tests.support.conversation import WAYS, Talk, one_by_one, talking
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.server_queries import connections
from tests.support.servers import Proxy
from ttlproxy.commands.router import OVERRIDES

PUSHES = "ttlproxy:pushes"


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def talk(request: pytest.FixtureRequest, proxy: Proxy, server: AnyServer) -> Iterator[Talk]:
    with talking(proxy, server, request.param) as say:
        yield say


@pytest.fixture
def talk_one_by_one(proxy: Proxy, server: AnyServer) -> Iterator[Talk]:
    with talking(proxy, server, one_by_one) as say:
        yield say


@pytest.fixture
def rule(client: Client) -> Client:
    """Sets rules: each is in force when it has replied OK."""
    return client


# --- the rules themselves


def test_a_rule_is_shown_as_it_was_given(talk: Talk) -> None:
    talk("""
        ONWRITE                                             -> []
        ONWRITE a:*                                         -> nil
        ONWRITE a:* ex 100                                  -> OK
        ONWRITE a:* type SET px 5000 jitter 10 refresh      -> OK
        ONWRITE a:b EX 5 maxlen 3 evict                     -> OK
        ONWRITE a:*                                         -> ["a:*", "EX", "100"]
        ONWRITE a:* TYPE set -> ["a:*", "TYPE", "set", "PX", "5000", "JITTER", "10", "REFRESH"]
        ONWRITE a:* TYPE list                               -> nil
        ONWRITE -> [["a:*", "TYPE", "set", "PX", "5000", "JITTER", "10", "REFRESH"], \
["a:*", "EX", "100"], ["a:b", "EX", "5", "MAXLEN", "3", "EVICT"]]
        ONWRITE a:* DEL                                     -> OK
        ONWRITE a:* DEL                                     -> OK
        ONWRITE a:b DEL                                     -> OK
        ONWRITE -> [["a:*", "TYPE", "set", "PX", "5000", "JITTER", "10", "REFRESH"]]
        ONEXPIRE                                            -> []
        DBSIZE                                              -> 0
    """)


def test_what_is_malformed_is_refused(talk: Talk) -> None:
    talk(r"""
        ONWRITE k EX                        -> ERR syntax error
        ONWRITE k EX ten                    -> ERR value is not an integer or out of range
        ONWRITE k EX 0                      -> ERR invalid expire time in 'onwrite' command
        ONWRITE k EX -1                     -> ERR invalid expire time, must be >= 0
        ONWRITE k PX 99999999999999         -> ERR invalid expire time in 'onwrite' command
        ONWRITE k EXAT 100                  -> ERR syntax error
        ONWRITE k EX 10 JITTER              -> ERR syntax error
        ONWRITE k EX 10 JITTER 101          -> ERR value is not an integer or out of range
        ONWRITE k EX 10 MAXLEN 0            -> ERR value is out of range, must be positive
        ONWRITE k EX 10 EVICT               -> ERR syntax error
        ONWRITE k EX 10 REFRESH more        -> ERR syntax error
        ONWRITE k TYPE                      -> ERR syntax error
        ONWRITE k TYPE string EX 10         -> ERR the type must be hash, set, zset or list
        ONWRITE k DEL now                   -> ERR syntax error
        ONEXPIRE "\x01write:-:k" KEEP       -> ERR a pattern may not begin with these bytes
        ONWRITE                             -> []
    """)


def test_setting_a_rule_needs_the_right_to_all_keys_that_match(
    direct: Client, app: Connection
) -> None:
    direct.ask("ACL", "SETUSER", "some", "on", ">word", "~a:*", "~__ttl:*", "&*", "+@all")
    assert app.ask("AUTH", "some", "word") == b"+OK\r\n"
    assert app.ask("ONWRITE", "a:*", "EX", "10") == b"+OK\r\n"
    assert app.ask("ONWRITE", "*", "EX", "10").startswith(b"-NOPERM")
    direct.ask("ACL", "DELUSER", "some")


@pytest.mark.parametrize("in_multi", [False, True])
def test_a_user_who_may_run_no_scripts_writes_without_deadlines(
    rule: Client, app: Connection, in_multi: bool
) -> None:
    rule.ask("ACL", "SETUSER", "some", "on", ">word", "~*", "&*", "+@all", "-@scripting")
    try:
        rule.ask("ONWRITE", "k*", "EX", 10)
        assert app.ask("AUTH", "some", "word") == b"+OK\r\n"
        requests = [line.split() for line in UNSCRIPTED]
        for request in [["MULTI"], *requests, ["EXEC"]] if in_multi else requests:
            assert not app.ask(*request).startswith(b"-"), request
        assert rule.ask("STTLMEMBER", "k:to", "MEMBERS", 2, "a", "c") == [-1, -1]
        assert rule.ask("HTTLFIELD", "k:h", "FIELDS", 2, "a", "b") == [-1, -1]
        assert rule.ask("LTTLELEMENT", "k:l", "ELEMENTS", 2, "a", "c") == [-1, -1]
        assert rule.ask("ZTTLMEMBER", "k:z", "MEMBERS", 2, "a", "b") == [-1, -1]
    finally:
        rule.ask("ACL", "DELUSER", "some")


# --- native writes


UNSCRIPTED = """
    SADD k:s a b
    SMOVE k:s k:to a
    SADD k:to c
    HSET k:h a 1
    HINCRBY k:h b 1
    ZADD k:z 1 a
    ZINCRBY k:z 1 b
    RPUSH k:ls a b
    LMOVE k:ls k:l LEFT LEFT
    LINSERT k:l BEFORE a c
""".strip().splitlines()


# What is there before, what puts the element `a` into the key `k:` with a rule, and what asks for
# its deadline.
OWN_STEP = {
    "SADD": ("", "SADD k:1 a", "STTLMEMBER k:1 a"),
    "SMOVE": ("SADD from a", "SMOVE from k:2 a", "STTLMEMBER k:2 a"),
    "HSET": ("", "HSET k:3 a 1", "HTTLFIELD k:3 a"),
    "HMSET": ("", "HMSET k:4 a 1", "HTTLFIELD k:4 a"),
    "HSETNX": ("", "HSETNX k:5 a 1", "HTTLFIELD k:5 a"),
    "HINCRBY": ("", "HINCRBY k:6 a 1", "HTTLFIELD k:6 a"),
    "HINCRBYFLOAT": ("", "HINCRBYFLOAT k:7 a 1", "HTTLFIELD k:7 a"),
    "ZADD": ("", "ZADD k:8 1 a", "ZTTLMEMBER k:8 a"),
    "GEOADD": ("", "GEOADD k:9 13 38 a", "ZTTLMEMBER k:9 a"),
    "ZINCRBY": ("", "ZINCRBY k:10 1 a", "ZTTLMEMBER k:10 a"),
    "LPUSH": ("", "LPUSH k:11 a", "LTTLELEMENT k:11 a"),
    "RPUSH": ("", "RPUSH k:12 a", "LTTLELEMENT k:12 a"),
    "LPUSHX": ("RPUSH k:13 b", "LPUSHX k:13 a", "LTTLELEMENT k:13 a"),
    "RPUSHX": ("RPUSH k:14 b", "RPUSHX k:14 a", "LTTLELEMENT k:14 a"),
    "LINSERT": ("RPUSH k:15 b", "LINSERT k:15 AFTER b a", "LTTLELEMENT k:15 a"),
    "LSET": ("RPUSH k:16 b", "LSET k:16 0 a", "LTTLELEMENT k:16 a"),
    "LMOVE": ("RPUSH list a", "LMOVE list k:17 LEFT RIGHT", "LTTLELEMENT k:17 a"),
    "RPOPLPUSH": ("RPUSH list a", "RPOPLPUSH list k:18", "LTTLELEMENT k:18 a"),
}


@pytest.mark.each_server
def test_each_override_that_writes_elements_dates_them_in_its_own_step(
    rule: Client, talk: Talk
) -> None:
    """In every database, and where the command is written in lower case."""
    writers = {name for name, row in OVERRIDES.items() if row.on_write or row.with_rule}
    assert OWN_STEP.keys() == writers
    for db in (0, 5):
        rule.ask("SELECT", db)
        rule.ask("ONWRITE", "k:*", "EX", 100 + db)
        lines = [f"SELECT {db} -> OK"]
        for name, (fill, line, asks) in OWN_STEP.items():
            written = line.replace(name, name.lower())
            lines += [f"{fill} -> *"] if fill else []
            lines += [f"{written} -> *", f"{asks} -> {100 + db}"]
        talk("\n".join(lines))


def test_native_writes_give_the_deadline_of_the_rule(rule: Client, talk: Talk) -> None:
    rule.ask("ONWRITE", "k:*", "EX", 100)
    talk("""
        SADD k:s a b a                      -> 2
        STTLMEMBER k:s MEMBERS 2 a b        -> [100, 100]
        SADD other a                        -> 1
        STTLMEMBER other a                  -> -1
        HSET k:h a 1 b 2                    -> 2
        HSET k:h a 2                        -> 0
        HMSET k:h c 1                       -> OK
        HSETNX k:h d 1                      -> 1
        HSETNX k:h d 2                      -> 0
        HINCRBY k:h e 5                     -> 5
        HINCRBYFLOAT k:h f 1.5              -> "1.5"
        HTTLFIELD k:h FIELDS 6 a b c d e f  -> [100, 100, 100, 100, 100, 100]
        HGETALL k:h -> ["a", "2", "b", "2", "c", "1", "d", "1", "e", "5", "f", "1.5"]
        ZADD k:z 1 a 2 b                    -> 2
        ZADD k:z CH 2 a 2 b 3 c             -> 2
        ZADD k:z XX 5 nobody                -> 0
        ZADD k:z INCR 2 d                   -> "2"
        ZADD k:z XX INCR 2 nobody           -> nil
        ZINCRBY k:z 1.5 e                   -> "1.5"
        GEOADD k:z 13 38 f                  -> 1
        ZTTLMEMBER k:z MEMBERS 7 a b c d e f nobody -> [100, 100, 100, 100, 100, 100, -2]
        RPUSH k:l a b a                     -> 3
        LPUSH k:l c                         -> 4
        RPUSHX k:l d                        -> 5
        LPUSHX k:none d                     -> 0
        LINSERT k:l BEFORE a e              -> 6
        LINSERT k:l BEFORE none e           -> -1
        LSET k:l -1 f                       -> OK
        LRANGE k:l 0 -1                     -> ["c", "e", "a", "b", "a", "f"]
        LTTLELEMENT k:l ELEMENTS 7 a b c d e f none -> [100, 100, 100, -2, 100, 100, -2]
        EXISTS k:none                       -> 0
    """)


def test_errors_stay_those_of_redis(rule: Client, talk: Talk) -> None:
    rule.ask("ONWRITE", "*", "EX", 100)
    talk("""
        SET s text                  -> OK
        SADD s a                    -> WRONGTYPE *
        HSET s a 1                  -> WRONGTYPE *
        HINCRBY s a 1               -> WRONGTYPE *
        ZADD s 1 a                  -> WRONGTYPE *
        ZINCRBY s 1 a               -> WRONGTYPE *
        HINCRBY s a one             -> ERR value is not an integer or out of range
        HINCRBYFLOAT s a one        -> ERR value is not a valid float
        ZINCRBY s one a             -> ERR value is not a valid float
        ZADD s INCR nan a           -> ERR value is not a valid float
        ZADD s nan a                -> ERR value is not a valid float
        GEOADD s 1 x a              -> ERR value is not a valid float
        GEOADD s 1 100 a            -> ERR invalid longitude,latitude pair *
        RPUSH s a                   -> WRONGTYPE *
        LINSERT s BEFORE a b        -> WRONGTYPE *
        LSET s 0 a                  -> WRONGTYPE *
        LSET none 0 a               -> ERR no such key
        RPUSH l a                   -> 1
        LSET l 5 b                  -> ERR index out of range
        LSET l x b                  -> ERR value is not an integer or out of range
        LINSERT l MIDDLE a b        -> ERR syntax error
        ZADD z nan a                -> ERR value is not a valid float
        ZADD z one a                -> ERR value is not a valid float
        ZINCRBY z one a             -> ERR value is not a valid float
        HSET h a 1 b                -> ERR wrong number of arguments for 'hset' command
        HSET h a text               -> 1
        HINCRBY h a 1               -> ERR hash value is not an integer
        HINCRBY h b one             -> ERR value is not an integer or out of range
        HINCRBYFLOAT h b one        -> ERR value is not a valid float
        HTTLFIELD h FIELDS 2 a b    -> [100, -2]
        EXISTS z none               -> 0
        HSET h a 9007199254740993   -> 0
        HINCRBY h a 1               -> ERR ttlproxy cannot do HINCRBY beyond 2^53 *
        HGET h a                    -> "9007199254740993"
    """)


def test_what_is_only_altered_or_added_again_keeps_what_it_has(rule: Client, talk: Talk) -> None:
    rule.ask("ONWRITE", "k*", "EX", 100)
    talk("""
        SADDEX k1 500 a             -> 1
        SADDEX k1 EX 500 MEMBERS 1 p -> 1
        SPERSISTMEMBER k1 p         -> 1
        SADD k1 a b p               -> 1
        STTLMEMBER k1 MEMBERS 3 a b p -> [500, 100, -1]
        HSETEX k2 EX 500 FIELDS 2 a 1 b 1 -> 1
        HINCRBY k2 a 1              -> 2
        HINCRBYFLOAT k2 a 0.5       -> "2.5"
        HSETNX k2 a 1               -> 0
        HSET k2 b 1                 -> 0
        HTTLFIELD k2 FIELDS 2 a b   -> [500, 100]
        ZADDEX k3 500 1 a 1 b 1 c   -> 3
        ZADD k3 1 a                 -> 0
        ZADD k3 NX 9 b              -> 0
        ZADD k3 GT 0 b              -> 0
        ZINCRBY k3 1 b              -> "2"
        ZADD k3 INCR 1 b            -> "3"
        ZADD k3 5 c                 -> 0
        ZTTLMEMBER k3 MEMBERS 3 a b c -> [500, 500, 100]
        RPUSHEX k4 500 a b          -> 2
        RPUSH k4 a c                -> 4
        LSET k4 1 b                 -> OK
        LTTLELEMENT k4 ELEMENTS 3 a b c -> [500, 500, 100]
    """)


def test_with_refresh_it_gets_the_deadline_anew(rule: Client, talk: Talk) -> None:
    rule.ask("ONWRITE", "k*", "EX", 100, "REFRESH")
    talk("""
        SADDEX k1 500 a             -> 1
        SADD k1 a b                 -> 1
        STTLMEMBER k1 MEMBERS 2 a b -> [100, 100]
        HSETEX k2 EX 500 FIELDS 3 a 1 b 1 c 1 -> 1
        HINCRBY k2 a 1              -> 2
        HINCRBYFLOAT k2 b 0.5       -> "1.5"
        HSETNX k2 c 1               -> 0
        HTTLFIELD k2 FIELDS 3 a b c -> [100, 100, 500]
        ZADDEX k3 500 1 a 1 b 1 c 1 d -> 4
        ZADD k3 1 a                 -> 0
        ZADD k3 NX 9 b              -> 0
        ZADD k3 GT 1 b              -> 0
        ZADD k3 XX 1 d              -> 0
        ZINCRBY k3 1 c              -> "2"
        ZTTLMEMBER k3 MEMBERS 4 a b c d -> [100, 500, 100, 100]
        RPUSHEX k4 500 a b c        -> 3
        RPUSH k4 a                  -> 4
        LSET k4 1 b                 -> OK
        LTTLELEMENT k4 ELEMENTS 3 a b c -> [100, 100, 500]
    """)


def test_a_command_that_gives_a_time_itself_wins(rule: Client, talk: Talk) -> None:
    rule.ask("ONWRITE", "k", "EX", 100)
    talk("""
        HSETEX k EX 500 FIELDS 1 a 1        -> 1
        HSETEX k FIELDS 1 b 1               -> 1
        HSET k c 1 d 1                      -> 2
        HPERSISTFIELD k c                   -> 1
        HSETEX k KEEPTTL FIELDS 1 d 2       -> 1
        HEXPIREFIELD k d 300                -> 1
        HTTLFIELD k FIELDS 4 a b c d        -> [500, -1, -1, 300]
        HSET k c 2                          -> 0
        HTTLFIELD k c                       -> 100
    """)


# --- which rule


def test_the_name_wins_then_the_longest_pattern_then_a_type(rule: Client, talk: Talk) -> None:
    for words in (
        "* EX 10",
        "k* EX 20",
        "k* TYPE set EX 30",
        "* TYPE list EX 40",
        "k[1] EX 50",
        "k1 EX 60",
    ):
        assert rule.ask("ONWRITE", *words.split()) == b"OK"
    talk("""
        SADD x a                -> 1
        STTLMEMBER x a          -> 10
        SADD k2 a               -> 1
        STTLMEMBER k2 a         -> 30
        HSET k3 a 1             -> 1
        HTTLFIELD k3 a          -> 20
        RPUSH k4 a              -> 1
        LTTLELEMENT k4 a        -> 20
        RPUSH y a               -> 1
        LTTLELEMENT y a         -> 40
        SADD k1 a               -> 1
        STTLMEMBER k1 a         -> 60
    """)


def test_a_rule_is_of_one_database(rule: Client, app: Connection, talk: Talk) -> None:
    rule.ask("ONWRITE", "k", "EX", 100)
    app.ask("SELECT", "1")
    app.ask("ONWRITE", "k", "EX", "200", "REFRESH")
    talk("""
        SADD k a                -> 1
        SELECT 1                -> OK
        SADD k a                -> 1
        STTLMEMBER k a          -> 200
        SELECT 2                -> OK
        SADD k a                -> 1
        STTLMEMBER k a          -> -1
        HSET h a 1              -> 1
        SELECT 0                -> OK
        STTLMEMBER k a          -> 100
    """)


def test_rules_follow_their_database(talk_one_by_one: Talk) -> None:
    talk_one_by_one("""
        ONWRITE k EX 100        -> OK
        SADD k a                -> 1
        SWAPDB 0 1              -> OK
        SADD k a                -> 1
        STTLMEMBER k a          -> -1
        SELECT 1                -> OK
        SADD k b                -> 1
        STTLMEMBER k b          -> 100
        FLUSHDB                 -> OK
        ONWRITE                 -> []
        SADD k a                -> 1
        STTLMEMBER k a          -> -1
        ONWRITE k EX 100        -> OK
        SADD k b                -> 1
        ONWRITE k DEL           -> OK
        SADD k c                -> 1
        STTLMEMBER k MEMBERS 3 a b c -> [-1, 100, -1]
        HINCRBY h a 9007199254740993 -> 9007199254740993
    """)


def test_every_proxy_knows_a_rule_once_ok_is_there(
    app: Connection, server: AnyServer, proxy: Proxy, start_proxy: StartProxy
) -> None:
    with Connection(start_proxy(server.url).port) as other:
        for number in range(1, 20):
            assert other.ask("ONWRITE", "k", "EX", number * 100) == b"+OK\r\n"
            assert app.ask("SADD", "k", number) == b":1\r\n"
            assert app.ask("STTLMEMBER", "k", number) == b":%d\r\n" % (number * 100)
        assert other.ask("ONWRITE", "k", "DEL") == b"+OK\r\n"
        assert app.ask("SADD", "k", "more") == b":1\r\n"
        assert app.ask("STTLMEMBER", "k", "more") == b":-1\r\n"
    app.ask("ONWRITE", "k", "EX", 50)
    with Connection(start_proxy(server.url).port) as late:
        assert late.ask("SADD", "k", "late") == b":1\r\n"
        assert late.ask("STTLMEMBER", "k", "late") == b":50\r\n"


def test_a_proxy_that_looks_keys_up_knows_a_rule_once_ok_is_there(
    app: Connection, server: AnyServer, start_proxy: StartProxy
) -> None:
    asking = start_proxy(server.url, "--knowledge", "on-demand")
    with Connection(asking.port) as other:
        assert other.ask("SADD", "k", "before") == b":1\r\n"
        for number in range(1, 10):
            assert app.ask("ONWRITE", "k", "EX", number * 100) == b"+OK\r\n"
            assert other.ask("SADD", "k", number) == b":1\r\n"
            assert other.ask("HSET", "h", number, "v") == b":1\r\n"
            assert other.ask("STTLMEMBER", "k", number) == b":%d\r\n" % (number * 100)
        assert app.ask("SADD", "k", "too") == b":1\r\n"
        assert app.ask("STTLMEMBER", "k", "too") == b":900\r\n"
        assert app.ask("ONWRITE", "k", "DEL") == b"+OK\r\n"
        assert other.ask("SADD", "k", "after") == b":1\r\n"
        assert other.ask("STTLMEMBER", "k", "MEMBERS", 2, "before", "after") == (
            b"*2\r\n:-1\r\n:-1\r\n"
        )


def test_a_proxy_that_misses_the_announcement_of_a_rule_reads_the_rules(
    app: Connection, server: AnyServer, direct: Client, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(server.url)
    with Connection(proxy.port) as other:
        for number in range(1, 4):
            assert other.ask("SADD", "k", f"before {number}") == b":1\r\n"
            pushing = [each for each in connections(server.port) if each["name"] == PUSHES]
            proxy.child.send_signal(signal.SIGSTOP)
            other.send(command("PING"))  # so that it reads the client first
            direct.ask("CLIENT", "KILL", "ID", max(int(each["id"]) for each in pushing))
            assert app.ask("ONWRITE", "k", "EX", number * 100) == b"+OK\r\n"
            other.send(command("SADD", "k", number))
            proxy.child.send_signal(signal.SIGCONT)
            assert other.read_many(2) == [b"+PONG\r\n", b":1\r\n"]
            assert other.ask("STTLMEMBER", "k", number) == b":%d\r\n" % (number * 100)


def test_a_full_server_refuses_as_before_and_nothing_is_left(
    rule: Client, direct: Client, app: Connection
) -> None:
    rule.ask("ONWRITE", "k*", "EX", 100)
    app.ask("HSET", "k0", "a", "1")
    before = sorted(direct.ask("KEYS", "*"))
    direct.ask("CONFIG", "SET", "maxmemory", 1)
    writes = ("SADD k1 a", "HSET k2 a 1", "HINCRBY k2 a 1", "ZADD k3 1 a", "RPUSH k4 a")
    without_effect = ("HSETNX k0 a 1", "LPUSHX k4 a")
    try:
        for words in (*writes, *without_effect):
            assert app.ask(*words.split()).startswith(b"-OOM"), words
    finally:
        direct.ask("CONFIG", "SET", "maxmemory", 0)
    assert sorted(direct.ask("KEYS", "*")) == before


# --- moves, and what only a sweep can give


def test_what_is_moved_brings_its_deadline_or_gets_one(rule: Client, talk: Talk) -> None:
    rule.ask("ONWRITE", "to*", "EX", 100)
    talk("""
        SADDEX from1 500 a          -> 1
        SADD from1 b c              -> 2
        SADD to1 c                  -> 1
        SPERSISTMEMBER to1 c        -> 1
        SMOVE from1 to1 a           -> 1
        SMOVE from1 to1 b           -> 1
        SMOVE from1 to1 c           -> 1
        SMOVE from1 to1 none        -> 0
        STTLMEMBER to1 MEMBERS 4 a b c none -> [500, 100, -1, -2]
        RPUSHEX from2 500 a         -> 1
        RPUSH from2 b c             -> 3
        LMOVE from2 to2 LEFT RIGHT  -> "a"
        LMOVE from2 to2 LEFT RIGHT  -> "b"
        RPOPLPUSH from2 to2         -> "c"
        LTTLELEMENT to2 ELEMENTS 3 a b c -> [500, 100, 100]
        SET from3 text              -> OK
        SMOVE from3 to1 a           -> WRONGTYPE *
        LMOVE from3 to2 LEFT LEFT   -> WRONGTYPE *
        LMOVE to2 from3 LEFT LEFT   -> WRONGTYPE *
        LTTLELEMENT to2 a           -> 500
    """)


def test_moves_in_one_of_several_databases(
    rule: Client, app: Connection, talk_one_by_one: Talk
) -> None:
    app.ask("SELECT", "1")
    app.ask("ONWRITE", "to*", "EX", "100")
    talk_one_by_one("""
        SADD from a                 -> 1
        SMOVE from to a             -> 1
        STTLMEMBER to a             -> -1
        SELECT 1                    -> OK
        SADD from a                 -> 1
        SMOVE from to a             -> 1
        STTLMEMBER to a             -> 100
    """)


FROM = ["SADD from a b", "SADD other a b c", "ZADD zs 1 a 2 b", "RPUSH ls a", "GEOADD g 1 2 a"]
SWEPT = {
    "RENAME": ("RENAME from to", "S", "a"),
    "RENAMENX": ("RENAMENX from to", "S", "a"),
    "COPY": ("COPY from to", "S", "a"),
    "SUNIONSTORE": ("SUNIONSTORE to from other", "S", "c"),
    "SINTERSTORE": ("SINTERSTORE to from other", "S", "a"),
    "SDIFFSTORE": ("SDIFFSTORE to other from", "S", "c"),
    "ZUNIONSTORE": ("ZUNIONSTORE to 1 zs", "Z", "a"),
    "ZINTERSTORE": ("ZINTERSTORE to 1 zs", "Z", "a"),
    "ZDIFFSTORE": ("ZDIFFSTORE to 2 zs none", "Z", "a"),
    "ZRANGESTORE": ("ZRANGESTORE to zs 0 -1", "Z", "a"),
    "GEOSEARCHSTORE": ("GEOSEARCHSTORE to g FROMMEMBER a BYRADIUS 9 km", "Z", "a"),
    "GEORADIUS": ("GEORADIUS g 1 2 9 km STORE to", "Z", "a"),
    "GEORADIUSBYMEMBER": ("GEORADIUSBYMEMBER g a 9 km STORE to", "Z", "a"),
    "SORT": ("SORT from ALPHA STORE to", "L", "a"),
    "BLMOVE": ("BLMOVE ls to LEFT LEFT 1", "L", "a"),
    "BRPOPLPUSH": ("BRPOPLPUSH ls to 1", "L", "a"),
    "RESTORE": ("RESTORE to 0 DUMP", "S", "a"),
    "RESTORE-ASKING": ("RESTORE-ASKING to 0 DUMP", "S", "a"),
    "EVAL": ("EVAL return(redis.call('SADD',KEYS[1],'a')) 1 to", "S", "a"),
    "EVALSHA": ("EVALSHA SHA 1 to", "S", "a"),
}
SADD = "return redis.call('SADD', KEYS[1], 'a')"
FUNCTION = """#!lua name=puts
redis.register_function('put', function(keys) return redis.call('SADD', keys[1], 'a') end)"""
OF_7_0 = {"FCALL": ("FCALL put 1 to", "S", "a")}


def tagged(line: str, tag: str) -> list[str]:
    """The words, with the tag before each key of `FROM` and `SWEPT`."""
    keys = ("from", "to", "other", "zs", "ls", "g", "none")
    return [tag + word if word in keys else word for word in line.split()]


def test_all_commands_that_put_elements_somewhere_have_their_case_here() -> None:
    words = [*[b"1"] * 5, b"STORE", b"to"]
    overrides = {name: row for name, row in OVERRIDES.items() if row.filled([b"", *words])}
    others = {"BLMOVE", "BRPOPLPUSH", "EVAL", "EVALSHA", "FCALL"}
    assert SWEPT.keys() | OF_7_0.keys() | {"MOVE"} == overrides.keys() | others


@pytest.mark.each_server
@pytest.mark.parametrize("in_multi", [False, True])
def test_what_the_writes_own_step_cannot_do_is_done_soon_after(
    rule: Client, direct: Client, app: Connection, in_multi: bool
) -> None:
    rule.ask("ONWRITE", "*:to", "EX", 100)
    sha = direct.ask("SCRIPT", "LOAD", SADD)
    has_functions = direct.ask("FUNCTION", "LOAD", "REPLACE", FUNCTION) == b"puts"
    asked = list[list[str]]()
    for name, (line, letter, element) in {**SWEPT, **(OF_7_0 if has_functions else {})}.items():
        tag = f"{name}:"
        for fill in FROM:
            app.ask(*tagged(fill, tag))
        values = {"DUMP": direct.ask("DUMP", f"{tag}from"), "SHA": sha}
        words = [values.get(word, word) for word in tagged(line, tag)]
        for request in [["MULTI"], words, ["EXEC"]] if in_multi else [words]:
            assert not app.ask(*request).startswith(b"-"), request
        noun = "ELEMENT" if letter == "L" else "MEMBER"
        asked.append([f"{letter}TTL{noun}", f"{tag}to", element])
    app.ask("PING")  # after a blocking command the sweep comes with the next request
    wait_until(
        lambda: all(app.ask(*request) != b":-1\r\n" for request in asked), "all have deadlines"
    )
    for request in asked:
        assert app.ask(*request) in (b":100\r\n", b":99\r\n"), request


def test_a_key_that_comes_from_another_database_gets_its_deadlines_soon_after(
    rule: Client, app: Connection
) -> None:
    app.ask("SADD", "k", "a")
    rule.ask("SELECT", 1)
    rule.ask("ONWRITE", "k", "EX", 100)
    assert app.ask("MOVE", "k", 1) == b":1\r\n"
    wait_until(lambda: rule.ask("STTLMEMBER", "k", "a") in (99, 100), "the deadline by rule")


# --- JITTER, MAXLEN


def test_jitter_spreads_deadlines(rule: Client) -> None:
    rule.ask("ONWRITE", "k*", "PX", 1_000_000, "JITTER", 50)
    for add, ask in (
        (["SADD", "k1"], ["SPTTLMEMBER", "k1", "MEMBERS"]),
        (["RPUSH", "k2"], ["LPTTLELEMENT", "k2", "ELEMENTS"]),
    ):
        names = [f"m{number}" for number in range(200)]
        assert rule.ask(*add, *names) == 200
        left = rule.ask(*ask, 200, *names)
        assert all(990_000 < each <= 1_500_000 for each in left)
        assert len(set(left)) > 150
        assert max(left) - min(left) > 300_000


def test_a_native_write_beyond_maxlen_is_refused(rule: Client, talk: Talk) -> None:
    rule.ask("ONWRITE", "k*", "EX", 100, "MAXLEN", 2)
    refusal = "TTLMAXLEN a rule of ONWRITE allows this key 2 elements at most"
    talk(f"""
        SADD k1 a b                 -> 2
        SADD k1 a c                 -> {refusal}
        SADD k1 a b                 -> 0
        SCARD k1                    -> 2
        HSET k2 a 1 b 1             -> 2
        HSET k2 c 1                 -> {refusal}
        HSETNX k2 c 1               -> {refusal}
        HSETNX k2 a 9               -> 0
        HINCRBY k2 c 1              -> {refusal}
        HSET k2 a 2                 -> 0
        HINCRBY k2 a 1              -> 3
        HLEN k2                     -> 2
        ZADD k3 1 a 1 b 1 c         -> {refusal}
        EXISTS k3                   -> 0
        ZADD k3 1 a 1 b             -> 2
        ZINCRBY k3 1 c              -> {refusal}
        ZINCRBY k3 1 a              -> "2"
        ZADD k3 XX 1 c              -> 0
        RPUSH k4 a b                -> 2
        RPUSH k4 a                  -> {refusal}
        LINSERT k4 BEFORE a c       -> {refusal}
        LSET k4 0 c                 -> OK
        LLEN k4                     -> 2
    """)


def test_with_evict_the_earliest_go(rule: Client, talk_one_by_one: Talk) -> None:
    rule.ask("ONWRITE", "k*", "EX", 100, "MAXLEN", 2, "EVICT")
    talk_one_by_one("""
        SADDEX k1 50 a              -> 1
        SADD k1 b                   -> 1
        SADD k1 c                   -> 1
        SISMEMBER k1 a              -> 0
        SCARD k1                    -> 2
        HSETEX k2 EX 50 FIELDS 1 a 1 -> 1
        HSET k2 b 1                 -> 1
        HINCRBY k2 c 1              -> 1
        HKEYS k2                    -> ["b", "c"]
        ZADDEX k3 50 1 a            -> 1
        ZADD k3 2 b 3 c             -> 2
        ZRANGE k3 0 -1              -> ["b", "c"]
        RPUSHEX k4 50 a             -> 1
        RPUSH k4 b                  -> 2
        RPUSH k4 c                  -> 2
        LRANGE k4 0 -1              -> ["b", "c"]
        LINSERT k4 AFTER c d        -> 2
        LRANGE k4 0 -1              -> ["c", "d"]
        LLEN k4                     -> 2
    """)


def test_a_push_of_more_than_maxlen_keeps_the_last(rule: Client, talk_one_by_one: Talk) -> None:
    rule.ask("ONWRITE", "k*", "EX", 100, "MAXLEN", 3, "EVICT")
    talk_one_by_one("""
        RPUSH k1 a b c d e          -> 3
        LRANGE k1 0 -1              -> ["c", "d", "e"]
        LTTLELEMENT k1 ELEMENTS 4 b c d e -> [-2, 100, 100, 100]
        RPUSH k1 f g h i            -> 3
        LRANGE k1 0 -1              -> ["g", "h", "i"]
        LPUSH k2 a b c d e          -> 3
        LRANGE k2 0 -1              -> ["e", "d", "c"]
        RPUSH k3 a a a              -> 3
        RPUSH k3 a                  -> 3
        LRANGE k3 0 -1              -> ["a", "a", "a"]
        RPUSH k3 b a                -> 3
        LRANGE k3 0 -1              -> ["a", "b", "a"]
        RPUSH k3 b b                -> 3
        LRANGE k3 0 -1              -> ["b", "b", "b"]
        LTTLELEMENT k3 ELEMENTS 2 a b -> [-2, 100]
        LPUSH k4 a b                -> 2
        LPUSH k4 a b                -> 3
        LRANGE k4 0 -1              -> ["b", "a", "b"]
        RPUSHX k4 x y z             -> 3
        LRANGE k4 0 -1              -> ["x", "y", "z"]
    """)


def test_what_expires_is_handed_on_by_rule(talk_one_by_one: Talk) -> None:
    talk_one_by_one("""
        ONWRITE jobs:* PX 5         -> OK
        ONEXPIRE jobs:* RPUSH late  -> OK
        SADD jobs:1 a               -> 1
        BLPOP late 10               -> ["late", "a"]
        EXISTS jobs:1               -> 0
    """)


@pytest.mark.parametrize("letter", ["s", "z", "l"])
def test_what_makes_room_is_handed_on_once_whoever_writes(
    rule: Client, proxy: Proxy, server: AnyServer, start_proxy: StartProxy, letter: str
) -> None:
    """Clients of two proxies write at once."""
    ports = [proxy.port, start_proxy(server.url).port]
    rule.ask("ONEXPIRE", "jobs:*", "RPUSH", "late")
    rule.ask("ONWRITE", "jobs:*", "EX", 100, "MAXLEN", 3, "EVICT")
    write = {"s": ["SADD", "jobs:s"], "z": ["ZADD", "jobs:z", "1"], "l": ["RPUSH", "jobs:l"]}
    shown = {"s": "SMEMBERS jobs:s", "z": "ZRANGE jobs:z 0 -1", "l": "LRANGE jobs:l 0 -1"}

    def write_all(port: int, who: str) -> None:
        with Connection(port) as app:
            for number in range(30):
                assert app.ask(*write[letter], f"{who}{number}").startswith(b":")

    writers = [Thread(target=write_all, args=each) for each in zip(ports, "ab", strict=True)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    wait_until(lambda: rule.ask("LLEN", "late") == 57, "all but three have been handed on")
    live = rule.ask(*shown[letter].split())
    assert len(live) == 3
    names = [f"{who}{number}".encode() for who in "ab" for number in range(30)]
    assert sorted([*live, *rule.ask("LRANGE", "late", 0, -1)]) == sorted(names)
