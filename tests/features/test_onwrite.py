"""ONWRITE: native commands give deadlines to what they write, by a rule for the key."""

from __future__ import annotations

import signal
from threading import Thread

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import FLAGS, metric, pages
from tests.support.containers import AnyServer
from tests.support.conversation import Talk
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.redis_content import SHARED
from tests.support.relay import Relay
from tests.support.server_queries import connections
from tests.support.servers import Proxy
from ttlproxy.commands.router import OVERRIDES

PUSHES = "ttlproxy:pushes"


# --- the rules themselves


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


def test_every_proxy_knows_a_rule_once_ok_is_there(
    app: Connection, proxy: Proxy, serve: StartProxy
) -> None:
    with Connection(serve().port) as other:
        for number in range(1, 20):
            assert other.ask("ONWRITE", "k", "EX", number * 100) == b"+OK\r\n"
            assert app.ask("SADD", "k", number) == b":1\r\n"
            assert app.ask("STTLMEMBER", "k", number) == b":%d\r\n" % (number * 100)
        assert other.ask("ONWRITE", "k", "DEL") == b"+OK\r\n"
        assert app.ask("SADD", "k", "more") == b":1\r\n"
        assert app.ask("STTLMEMBER", "k", "more") == b":-1\r\n"
    app.ask("ONWRITE", "k", "EX", 50)
    with Connection(serve().port) as late:
        assert late.ask("SADD", "k", "late") == b":1\r\n"
        assert late.ask("STTLMEMBER", "k", "late") == b":50\r\n"


def test_a_proxy_that_asks_at_each_request_knows_a_rule_once_ok_is_there(
    app: Connection, serve: StartProxy
) -> None:
    asking = serve(asks=True)
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


@pytest.mark.parametrize("letter", ["s", "z", "l"])
def test_what_makes_room_is_handed_on_once_whoever_writes(
    rule: Client, proxy: Proxy, serve: StartProxy, letter: str
) -> None:
    """Clients of two proxies write at once."""
    ports = [proxy.port, serve().port]
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


@pytest.mark.parametrize("times", ["", "EX 60"], ids=["alone", "with a time"])
def test_an_overwritten_element_keeps_its_deadline(talk: Talk, rule: Client, times: str) -> None:
    rule.ask("ONWRITE", "k*", *times.split(), "KEEPTTL")
    new = "60" if times else "-1"
    talk(f"""
        HSET k:h a 1 b 2 c 3                        -> 3
        HEXPIREFIELD k:h a 100                      -> 1
        HPERSISTFIELD k:h b                         -> *
        HSET k:h a 5 b 6 d 7                        -> 1
        HMSET k:h a 8                               -> OK
        HINCRBY k:h a 1                             -> 9
        HSETNX k:h a 1                              -> 0
        HTTLFIELD k:h FIELDS 3 a b d                -> [100, -1, {new}]
        HDEL k:h a                                  -> 1
        HSET k:h a 1                                -> 1
        HTTLFIELD k:h a                             -> {new}
        ZADD k:z 1 a 2 b                            -> 2
        ZEXPIREMEMBER k:z a 100                     -> 1
        ZPERSISTMEMBER k:z b                        -> *
        ZADD k:z CH 9 a 9 b 9 c                     -> 3
        ZADD k:z GT 10 a                            -> 0
        ZADD k:z 10 a                               -> 0
        ZINCRBY k:z 1 a                             -> "11"
        GEOADD k:z 1 2 a                            -> 0
        ZTTLMEMBER k:z MEMBERS 3 a b c              -> [100, -1, {new}]
        SADD k:s a                                  -> 1
        SEXPIREMEMBER k:s a 100                     -> 1
        SADD k:s a b                                -> 1
        STTLMEMBER k:s MEMBERS 2 a b                -> [100, {new}]
        RPUSH k:l a                                 -> 1
        LEXPIREELEMENT k:l a 100                    -> 1
        RPUSH k:l a b                               -> 3
        LSET k:l 0 a                                -> OK
        LTTLELEMENT k:l ELEMENTS 2 a b              -> [100, {new}]
    """)


def test_a_key_without_deadlines_needs_no_script(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(start_server().url, *FLAGS)
    with Connection(proxy.port) as client:
        assert client.ask("ONWRITE", "undated*", "KEEPTTL") == b"+OK\r\n"
        for line in (
            "HSET undated:h a 1",
            "HSET undated:h a 2",
            "SADD undated:s a",
            "ZADD undated:z 1 a",
            "RPUSH undated:l a",
        ):
            assert not client.ask(*line.split()).startswith(b"-"), line
        assert metric(pages(proxy), "ttlproxy_requests_total", kind="rewritten") == 0
        assert client.ask("HEXPIREFIELD", "undated:h", "a", 100) == b":1\r\n"
        assert client.ask("HSET", "undated:h", "a", 3) == b":0\r\n"
        assert client.ask("HTTLFIELD", "undated:h", "a") == b":100\r\n"
