"""A user who lacks one right changes all or nothing: docs/security.md.

Each command that runs as a script is sent by users who lack one of the commands that the script
calls, for each of these. MONITOR tells which they are.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple, TypeAlias

import pytest

from tests.support.containers import AnyServer
from tests.support.raw_client import Connection
from tests.support.raw_client import command as encoded
from tests.support.redis_client import Client
from tests.support.servers import Proxy
from ttlproxy.commands.router import OVERRIDES, VIRTUALS
from ttlproxy.core.keys import Keys

KEYS = Keys()

Request: TypeAlias = "list[bytes | str]"


class Case(NamedTuple):
    """Requests that come before, and the one that is refused."""

    before: tuple[str, ...]
    request: str


MANAGED = (
    "HSETEX h MAXLEN 1000 EX 1000 FIELDS 2 a 1 b 2",  # so it is ours on each server
    "SADDEX s 1000 a b",
    "ZADDEX z 1000 1 a 2 b",
    "RPUSHEX l 1000 a b c",
    "SADD s a2",
    "SADD sets a c",
    "ZADD zs 1 a 2 c",
    "GEOADD g 1 2 a",
    "RPUSH ls 2 1",
    "SET text x",
)
# Each command of Redis that a script carries out -> requests; each meets the keys above.
REWRITTEN = {
    "BITOP": ["BITOP NOT h text"],
    "COPY": ["COPY h new", "COPY h s REPLACE", "COPY h h DB 1", "COPY text h REPLACE"],
    "DEL": ["DEL h s none"],
    "EXPIRE": ["EXPIRE h 100", "EXPIRE h -1"],
    "EXPIREAT": ["EXPIREAT h 4102444800"],
    "GEOADD": ["GEOADD z 1 2 a 3 4 c"],
    "GEORADIUS": ["GEORADIUS g 1 2 9 km STORE z"],
    "GEORADIUSBYMEMBER": ["GEORADIUSBYMEMBER g a 9 km STORE z"],
    "GEOSEARCHSTORE": ["GEOSEARCHSTORE z g FROMMEMBER a BYRADIUS 9 km"],
    "HDEL": ["HDEL h a", "HDEL h a b", "HDEL h none"],
    "HINCRBYFLOAT": ["HINCRBYFLOAT h a 1", "HINCRBYFLOAT h new 1"],
    "HMSET": ["HMSET h a 9 c 1"],
    "HSET": ["HSET h a 9", "HSET h c 9", "HSET h a 9 b 9"],
    "HSETNX": ["HSETNX h c 1", "HSETNX h a 1"],
    "LINSERT": ["LINSERT l BEFORE a x"],
    "LMOVE": ["LMOVE l new LEFT RIGHT", "LMOVE ls l LEFT RIGHT"],
    "LPOP": ["LPOP l"],
    "LPUSH": ["LPUSH l x", "LPUSH l a x"],
    "LPUSHX": ["LPUSHX l x"],
    "LREM": ["LREM l 0 a"],
    "LSET": ["LSET l 0 x"],
    "LTRIM": ["LTRIM l 1 1", "LTRIM l 5 9"],
    "MOVE": ["MOVE h 1"],
    "MSET": ["MSET h 1 new 2"],
    "PERSIST": ["PERSIST s"],
    "PEXPIRE": ["PEXPIRE h 100000"],
    "PEXPIREAT": ["PEXPIREAT h 4102444800000"],
    "PTTL": ["PTTL h"],
    "PSETEX": ["PSETEX h 100000 v"],
    "RENAME": ["RENAME h s", "RENAME text s"],
    "RENAMENX": ["RENAMENX h new"],
    "RESTORE": ["RESTORE h 0 DUMP REPLACE"],
    "RPOP": ["RPOP l"],
    "RPOPLPUSH": ["RPOPLPUSH l new"],
    "RPUSH": ["RPUSH l x"],
    "RPUSHX": ["RPUSHX l x"],
    "SADD": ["SADD s c", "SADD s a"],
    "SDIFFSTORE": ["SDIFFSTORE h sets none"],
    "SET": ["SET h v"],
    "SETEX": ["SETEX h 100 v"],
    "SINTERSTORE": ["SINTERSTORE h sets s", "SINTERSTORE h none"],
    "SMOVE": ["SMOVE s new a", "SMOVE sets s c"],
    "SORT": ["SORT ls STORE h"],
    "SPOP": ["SPOP s", "SPOP s 9"],
    "SREM": ["SREM s a"],
    "SUNIONSTORE": ["SUNIONSTORE h sets s"],
    "UNLINK": ["UNLINK h s none"],
    "ZADD": ["ZADD z 9 a", "ZADD z 9 c", "ZADD z XX CH 9 a", "ZADD z INCR 9 a"],
    "ZDIFFSTORE": ["ZDIFFSTORE h 1 zs"],
    "ZINCRBY": ["ZINCRBY z 1 a", "ZINCRBY z 1 c"],
    "ZINTERSTORE": ["ZINTERSTORE h 2 zs z"],
    "ZPOPMAX": ["ZPOPMAX z"],
    "ZPOPMIN": ["ZPOPMIN z"],
    "ZRANGESTORE": ["ZRANGESTORE h zs 0 -1"],
    "ZREM": ["ZREM z a b"],
    "ZREMRANGEBYLEX": ["ZREMRANGEBYLEX z - +"],
    "ZREMRANGEBYRANK": ["ZREMRANGEBYRANK z 0 0"],
    "ZREMRANGEBYSCORE": ["ZREMRANGEBYSCORE z 1 1"],
    "TTL": ["TTL h"],
    "ZUNIONSTORE": ["ZUNIONSTORE h 2 zs z"],
    "SWAPDB": ["SWAPDB 0 1"],
}
# Not on all servers of these tests, or only from a master to its replica.
ELSEWHERE = {"DELEX", "EXPIRETIME", "MSETEX", "PEXPIRETIME", "RESTORE-ASKING"}
# Requests of ours that their examples do not have: what goes at once, and what makes room.
MORE = {
    "HSETEX": [
        "HSETEX h EX 100 FIELDS 1 c 3",
        "HSETEX h PXAT 1 FIELDS 1 a 3",
        "HSETEX h MAXLEN 2 EVICT EX 10 FIELDS 1 c 3",
        "HSETEX h EX 5000 FIELDS 1 a 3",
        "HSETEX new MAXLEN 1000 EX 100 FIELDS 1 a 1",
    ],
    "SADDEX": [
        "SADDEX s EX 100 MEMBERS 1 c",
        "SADDEX s PXAT 1 MEMBERS 1 a",
        "SADDEX new 100 a",
        "SADDEX s EX 5000 MEMBERS 1 c",
    ],
    "ZADDEX": ["ZADDEX z PXAT 1 MEMBERS 1 1 a", "ZADDEX new 100 1 a"],
    "LPUSHEX": ["LPUSHEX l PXAT 1 ELEMENTS 1 x", "LPUSHEX new 100 x"],
    "RPUSHEX": ["RPUSHEX l PXAT 1 ELEMENTS 9 a b c d e f g h i"],
    "HEXPIREFIELD": ["HEXPIREFIELD h a 0", "HEXPIREFIELD h a 10"],
    "SEXPIREMEMBER": ["SEXPIREMEMBER s a 0", "SEXPIREMEMBER s a2 10"],
    "ZEXPIREMEMBER": ["ZEXPIREMEMBER z a 0"],
    "LEXPIREELEMENT": ["LEXPIREELEMENT l a 0"],
    "LEASE": ["LEASE l s EX 30", "LEASE l new EX 30 COUNT 3", "LEASE ls new EX 10"],
    "INCREX": [
        "INCREX n BYINT 2 EX 60",
        "INCREX n PERSIST",
        "INCREX n BYFLOAT 0.5 EX 60",
        "INCREX n BYFLOAT 9 UBOUND 1.5 SATURATE PERSIST",
    ],
    "DEFER": ["DEFER EX 100 ID t1 DEL h", "DEFER EX 100 ID t1 PUBLISH news x"],
    "HGETEX": ["HGETEX h EX 10 FIELDS 1 a", "HGETEX h PXAT 1 FIELDS 2 a b"],
}
# Some examples give elements so little time.
_SOON_MS = 1
NUMBERS = ("SET n 1 EX 1000",)
# The writes that a rule of ONWRITE changes, on keys that it matches.
RULES = (
    "ONWRITE h EX 2000 REFRESH",
    "ONWRITE new* EX 100 JITTER 9 MAXLEN 9 EVICT",
    "ONWRITE ? EX 500",
)
RULED = {
    "GEOADD": ["GEOADD z 1 2 a 3 4 c", "GEOADD new 1 2 a"],
    "HINCRBY": ["HINCRBY h a 1", "HINCRBY h c 1", "HINCRBY new a 1"],
    "HINCRBYFLOAT": ["HINCRBYFLOAT h a 1", "HINCRBYFLOAT new a 1"],
    "HMSET": ["HMSET h a 9 c 1"],
    "HSET": ["HSET h a 9", "HSET new a 9 b 9"],
    "HSETNX": ["HSETNX h c 1", "HSETNX h a 1", "HSETNX new a 1"],
    "LINSERT": ["LINSERT l BEFORE a x"],
    "LMOVE": ["LMOVE ls new LEFT RIGHT", "LMOVE l new LEFT RIGHT"],
    "LPUSH": ["LPUSH l a x", "LPUSH new x"],
    "LPUSHX": ["LPUSHX l x"],
    "LSET": ["LSET l 0 x", "LSET l 0 a"],
    "RPOPLPUSH": ["RPOPLPUSH ls new"],
    "RPUSH": ["RPUSH new x"],
    "RPUSHX": ["RPUSHX l x"],
    "SADD": ["SADD s c", "SADD s a", "SADD new a"],
    "SMOVE": ["SMOVE sets new c", "SMOVE s new a"],
    "ZADD": ["ZADD z 9 a", "ZADD z XX CH 9 a", "ZADD z INCR 9 c", "ZADD new 1 a"],
    "ZINCRBY": ["ZINCRBY z 1 a", "ZINCRBY new 1 c"],
}


def _cases() -> Iterator[tuple[str, Case]]:
    for name, requests in REWRITTEN.items():
        first = ("EXPIRE s 1000",) if name == "PERSIST" else ()
        for request in requests:
            yield name, Case((*MANAGED, *first), request)
    for name, virtual in VIRTUALS.items():
        lines = [line for line, _ in virtual.example]
        for at, line in enumerate(lines):
            if line.split()[0] == name and "BLOCK" not in line:
                yield name, Case(tuple(lines[:at]), line)
        for request in MORE.get(name, ()):
            yield name, Case((*MANAGED, *NUMBERS), request)


CASES = [*_cases()]

# A script does without these: there are no events, and it believes the last SELECT.
OPTIONAL = {"PUBLISH", "MOVE"}


# What only the fast path of a script reads: without the right to it the general part does the same.
ONLY_FAST = {"LINDEX", "SMISMEMBER", "TIME", "ZCARD", "ZMSCORE", "ZSCORE"}


def content(direct: Client, keys: Keys = KEYS) -> dict[tuple[int, bytes], tuple[object, bool]]:
    """(database, key) -> (its value, whether it has an expiry), but for what a proxy writes itself.

    That is the lease of the reaper. And the state, and its place among the other internal keys,
    which a heartbeat writes again after FLUSHALL.
    """
    lease, state = map(keys.home, (keys.lease, keys.state))
    found = {}
    for db in (0, 1):
        _, names = direct.ask_many([("SELECT", db), ("KEYS", "*")])
        are_others = [key.startswith(keys.others) for key in names]
        looks = zip(names, are_others, strict=True)
        values = [("SMEMBERS" if is_others else "DUMP", key) for key, is_others in looks]
        replies = direct.ask_many([*values, *(("PTTL", key) for key in names)])
        rows = zip(names, are_others, replies, replies[len(names) :], strict=False)
        for key, is_others, value, left_ms in rows:
            what = {*value} - {state} if is_others else value
            if what and key not in (lease, state):
                found[db, key] = what, left_ms >= 0
    direct.ask("SELECT", 0)
    return found


def _is_optional(name: str, words: bytes) -> bool:
    """The list of internal keys that DBSIZE leaves out is kept as far as the client may."""
    return name in OPTIONAL or (name in ("SADD", "SREM") and b'"%b' % KEYS.others in words)


class World:
    """One proxy, its server, and users who each lack one command."""

    keys = KEYS

    def __init__(self, proxy: Proxy, port: int, direct: Client, stack: ExitStack) -> None:
        """`port`: of the server."""
        self.direct = direct
        self._stack = stack
        self._proxy = proxy
        self._users: dict[str, Connection] = {}
        self.full = stack.enter_context(Connection(proxy.port))
        self._monitor = stack.enter_context(Connection(port))
        self._monitor.ask("MONITOR")

    def prepare(self, case: Case) -> None:
        removals: list[tuple[str | int | bytes, ...]] = []
        for db, key in self.content():
            removals += [("SELECT", db), ("DEL", key)]
        self.direct.ask_many([*removals, ("SELECT", 0)])
        some: list[str] = []
        for line in case.before:
            some.append(line)
            if line.startswith(("ONEXPIRE", "ONWRITE")):  # it holds once its reply is there
                self._sent(some)
                some = []
        self._sent(some)
        # With KEYS, what is due goes now, and not while contents are compared.
        until_ms = self.direct.now_ms() + _SOON_MS
        while self.direct.now_ms() <= until_ms:
            pass
        self._sent(["KEYS *"])

    def _sent(self, lines: Sequence[str]) -> None:
        """Sends all at once."""
        self.full.send(b"".join(encoded(*self.words(line)) for line in lines))
        for line, reply in zip(lines, self.full.read_many(len(lines)), strict=True):
            assert not reply.startswith(b"-"), (line, reply)

    def content(self) -> dict[tuple[int, bytes], tuple[object, bool]]:
        return content(self.direct, self.keys)

    def words(self, line: str) -> Request:
        return [
            self.direct.ask("DUMP", "text") if word == "DUMP" else word
            for word in shlex.split(line)
        ]

    def called(self, client: Connection, request: Request) -> tuple[bytes, list[str]]:
        """The reply to a request, and what its script calls."""
        client.ask("ECHO", "begin")
        reply = client.ask(*request)
        client.ask("ECHO", "end")
        found: list[str] = []
        ours, is_ours = b"", False
        while True:
            sender, _, words = self._monitor.read().partition(b"] ")
            name = words.split(b'"')[1].upper().decode()
            if name == "ECHO":
                if b'"end"' in words:
                    return reply, found
                found, ours = [], sender.split(b" ")[-1]
            elif sender.endswith(b" lua"):
                if is_ours and not _is_optional(name, words):
                    found.append(name)
            else:
                is_ours = sender.split(b" ")[-1] == ours

    def lacking(self, command: str, *more: str) -> Connection:
        """A connection of a user who lacks one command; `more`: rules on top of that."""
        if command not in self._users:
            name = f"without-{command.lower()}"
            rules = ["reset", "on", ">word", "~*", "&*", "+@all", f"-{command.lower()}", *more]
            assert self.full.ask("ACL", "SETUSER", name, *rules) == b"+OK\r\n"
            assert self.full.ask("PING") == b"+PONG\r\n"  # the proxy has read the rules by now
            self._stack.callback(self.direct.ask, "ACL", "DELUSER", name)
            client = self._stack.enter_context(Connection(self._proxy.port))
            assert client.ask("AUTH", name, "word") == b"+OK\r\n"
            self._users[command] = client
        return self._users[command]


@pytest.fixture
def world(proxy: Proxy, server: AnyServer, direct: Client) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(proxy, server.port, direct, stack)


def test_every_command_that_runs_as_a_script_is_here() -> None:
    only_ruled = {row.name for row in OVERRIDES.values() if row.only_ruled}
    named = {*VIRTUALS, *OVERRIDES, "SWAPDB"} - ELSEWHERE - only_ruled
    assert {name for name, _ in CASES} == named
    rows = {row.name for row in OVERRIDES.values() if row.on_write or row.with_rule}
    assert RULED.keys() == rows


@pytest.mark.parametrize("name", list(dict.fromkeys(name for name, _ in CASES)))
def test_who_lacks_a_command_of_the_script_changes_nothing(world: World, name: str) -> None:
    for case in (case for known, case in CASES if known == name):
        changes_nothing(world, case)


@pytest.mark.parametrize("name", RULED)
def test_the_same_where_a_rule_of_onwrite_matches(world: World, name: str) -> None:
    for request in RULED[name]:
        changes_nothing(world, Case((*RULES, *MANAGED), request))


def changes_nothing(world: World, case: Case) -> None:
    """Fails if a user who lacks a command of the script changes something."""
    world.prepare(case)
    before = world.content()
    reply, called = world.called(world.full, world.words(case.request))
    assert not reply.startswith(b"-"), (case, reply)
    only_reads = world.content() == before
    is_prepared = False  # what was refused leaves it so
    for command in sorted(set(called)):
        if not is_prepared:
            world.prepare(case)
        request, client = world.words(case.request), world.lacking(command)
        if not is_prepared:
            before, is_prepared = world.content(), True
        refused = client.ask(*request)
        # Of SPOP another member may come.
        shown = slice(1 if case.request.startswith("SPOP ") else None)
        if command in ONLY_FAST and refused[shown] == reply[shown]:
            is_prepared = False
            continue
        assert world.content() == before, (case.request, command, refused)
        assert refused.startswith(b"-NOPERM ") or only_reads, (case.request, command, refused)


def test_a_missing_right_to_one_key_alone_is_found_too(
    world: World, version: str, direct: Client
) -> None:
    """From 7.0 on a user may have a command on some keys, by a selector."""
    if version == "6.2":
        pytest.skip("there are no selectors before 7.0")
    case = Case(MANAGED, "HDEL h a")
    world.prepare(case)
    client = world.lacking("hdel", "(+hdel ~other)")
    before = content(direct)
    assert client.ask("HDEL", "h", "a").startswith(b"-NOPERM ")
    assert content(direct) == before


def test_a_script_runs_twice_only_for_a_user_who_lacks_a_right(world: World) -> None:
    def looked(client: Connection) -> int:
        reply, called = world.called(client, ["HEXPIREFIELD", "h", "a", "200"])
        assert reply == b":1\r\n"
        return called.count("HEXISTS")

    world.prepare(Case(MANAGED, ""))
    once = looked(world.full)
    # The dry run takes the general part, which also checks the type.
    assert looked(world.lacking("hdel")) == 2 + once


def test_the_error_is_that_of_the_command_itself(world: World, server: AnyServer) -> None:
    world.prepare(Case(MANAGED, ""))
    with Connection(server.port) as native:
        client = world.lacking("hdel")
        native.ask("AUTH", "without-hdel", "word")
        assert client.ask("HDEL", "h", "a") == native.ask("HDEL", "h", "a")


@pytest.mark.parametrize("request_", ["HDEL h a", "HSETEX h EX 9 FIELDS 1 a 1"])
def test_in_a_transaction_too(world: World, direct: Client, request_: str) -> None:
    world.prepare(Case(MANAGED, request_))
    client = world.lacking("hset" if "EX" in request_ else "hdel")
    before = content(direct)
    assert client.ask("MULTI") == b"+OK\r\n"
    assert client.ask(*request_.split()) == b"+QUEUED\r\n"
    assert b"-NOPERM " in client.ask("EXEC")
    assert content(direct) == before
