"""ONWRITE: native commands give deadlines to what they write, by a rule for the key."""

from __future__ import annotations

import signal

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import FLAGS, metric, pages
from tests.support.containers import AnyServer
from tests.support.conversation import Talk
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.redis_content import SHARED
from tests.support.relay import Relay
from tests.support.server_queries import connections
from tests.support.servers import Proxy
from ttlproxy.commands.router import OVERRIDES

PUSHES = "ttlproxy:pushes"


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
        ONWRITE k EX 10 REFRESH KEEPTTL     -> ERR syntax error
        ONWRITE k KEEPTTL EX 10             -> ERR syntax error
        ONWRITE k KEEPTTL REFRESH           -> ERR syntax error
        ONWRITE k MAXLEN 5                  -> ERR syntax error
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


@pytest.mark.parametrize("asks", [False, True])
def test_what_a_rule_does_not_date_stays_a_native_command(
    start_server: StartServer, start_proxy: StartProxy, asks: bool
) -> None:
    """Also for a user who has no rights to the keys of ttlproxy, and where keys like these have
    deadlines for all that the proxy knows."""
    proxy = start_proxy(start_server().url, *FLAGS, asks=asks)
    requests = (
        "SET native:1 v",
        "SADD native:2 m",
        "SADD native:2 m",
        "RPUSH native:3 a",
        "ZADD native:4 1 m",
        "DEL native:2",
    )
    with Client(proxy.port) as rule, Connection(proxy.port) as other:
        rule.ask("ONWRITE", "native*", "TYPE", "hash", "EX", 10)
        rule.ask("ACL", "SETUSER", "some", "on", ">word", "~native*", "+@all")
        for user in ("default", "some", "some"):
            other.ask("AUTH", user, "word")
            for line in requests:
                assert not other.ask(*line.split()).startswith(b"-"), (user, line)
            assert metric(pages(proxy), "ttlproxy_requests_total", kind="rewritten") == 0
            rule.ask("SADDEX", "native:dated", 100, "m")


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
        LINSERT s MIDDLE a b        -> ERR syntax error
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
        HINCRBY h a 9223372036854775808 -> ERR value is not an integer or out of range
        HINCRBY h a 9214364837600034815 -> ERR increment or decrement would overflow
        HINCRBY h a 9214364837600034814 -> ERR ttlproxy cannot do HINCRBY beyond 2^53 *
        HSET h a -9223372036854775808   -> 0
        HINCRBY h a -1              -> ERR increment or decrement would overflow
        HINCRBY h a 9223372036854775807 -> -1
        HSET h a -9223372036854775809   -> 0
        HINCRBY h a 1               -> ERR hash value is not an integer
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


def test_a_proxy_that_asks_at_each_request_knows_a_rule_once_ok_is_there(
    app: Connection, server: AnyServer, start_proxy: StartProxy
) -> None:
    asking = start_proxy(server.url, asks=True)
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
    before = set(direct.ask("KEYS", "*")) - SHARED
    direct.ask("CONFIG", "SET", "maxmemory", 1)
    writes = ("SADD k1 a", "HSET k2 a 1", "HINCRBY k2 a 1", "ZADD k3 1 a", "RPUSH k4 a")
    without_effect = ("HSETNX k0 a 1", "LPUSHX k4 a")
    try:
        for words in (*writes, *without_effect):
            assert app.ask(*words.split()).startswith(b"-OOM"), words
    finally:
        direct.ask("CONFIG", "SET", "maxmemory", 0)
    assert set(direct.ask("KEYS", "*")) - SHARED == before


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_reply_to_a_transaction_with_a_rule_is_redis_s_own(
    server: AnyServer, start_proxy: StartProxy, direct: Client, protocol: int
) -> None:
    """It is held until all proxies know the rule, however it comes."""
    direct.ask("SET", "large", "x" * 300_000)
    direct.ask("HSET", "hash", "f", "v")
    rule = command("ONWRITE", "k:*", "EX", 100)
    reads = command("HGETALL", "hash") + command("GET", "large") + command("GET", "none")
    with Relay(server.port, 1000) as relay, Connection(server.port) as plain:
        proxy = start_proxy(f"redis://127.0.0.1:{relay.port}")
        with Connection(proxy.port) as client:
            for each in (plain, client):
                each.ask("HELLO", protocol)
            plain.send(command("MULTI") + reads + command("EXEC"))
            wanted = plain.read_many(5)[4].replace(b"*3\r\n", b"*4\r\n+OK\r\n", 1)
            for _ in range(2):
                client.send(command("MULTI") + rule + reads + command("EXEC") + command("PING"))
                assert client.read_many(7)[5:] == [wanted, b"+PONG\r\n"]
            client.ask("WATCH", "large")
            direct.ask("APPEND", "large", "x")
            client.send(command("MULTI") + rule + command("EXEC") + command("PING"))
            null = b"*-1\r\n" if protocol == 2 else b"_\r\n"
            assert client.read_many(4)[2:] == [null, b"+PONG\r\n"]
            client.send(command("MULTI") + rule + command("GET") + command("EXEC"))
            assert client.read_many(4)[3].startswith(b"-EXECABORT")
            assert client.ask("ONWRITE", "k:*", "DEL").startswith((b"+OK", b":1"))
