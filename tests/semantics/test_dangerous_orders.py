"""Orders of events that could lose a deadline, or give it to the wrong element.

There is one test for each. A blocking command, a transaction or a missing reaper makes each race
certain, never a sleep. A SELECT that fails misleads only with two proxies, so it is in
test_selected_databases.py; a layout newer than ours is in tests/faults/test_kills.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.conftest import StartProxy, StartServer
from tests.features.test_lease import REFUSED
from tests.support.containers import AnyServer
from tests.support.conversation import Talk, hold, let_pass
from tests.support.per_type import every_type, said_of
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.redis_content import read, until_swept
from tests.support.server_queries import until_blocked
from tests.support.servers import Proxy
from ttlproxy.core.keys import Keys

# --- an element, or a key, that is written again


def test_an_element_removed_and_added_again_before_its_old_deadline(every: Talk) -> None:
    every("""
        ADD k a b                       -> 2
        HPEXPIREFIELD k a 20            -> 1
        HEXPIREFIELD k b 100            -> 1
        REM k a                         -> 1
        ADD k a                         -> *
        HTTLFIELD k FIELDS 2 a b        -> [-1, 100]
        wait 20 in time
        LEN k                           -> 2
    """)


@pytest.mark.parametrize("expire", ["PEXPIRE k 20", "PEXPIREAT k @-1ms", "EXPIRE k 0"])
def test_a_write_after_the_key_expired_as_a_whole(every: Talk, expire: str) -> None:
    every(f"""
        ADD k a b                       -> 2
        HPEXPIREFIELD k a 40            -> 1
        HEXPIREFIELD k b 100            -> 1
        {expire}                        -> 1
        wait 20
        EXISTS k                        -> 0
        ADD k a b                       -> 2
        HTTLFIELD k FIELDS 2 a b        -> [-1, -1]
        wait 30
        LEN k                           -> 2
    """)


def test_renaming_a_plain_key_onto_a_managed_one(every: Talk) -> None:
    every("""
        ADD plain a b                   -> 2
        ADD k a c                       -> 2
        HPEXPIREFIELD k 20 FIELDS 2 a c -> [1, 1]
        RENAME plain k                  -> OK
        HTTLFIELD k FIELDS 3 a b c      -> [-1, -1, -2]
        wait 20
        LEN k                           -> 2
    """)


# --- behind the proxy's back


@every_type
def test_an_index_that_was_evicted(
    app: Connection, other: Connection, direct: Client, type_: str
) -> None:
    """Its elements stay for good, as if they never had a deadline, and can get one again."""
    hold(app, direct, said_of(type_, "ADD k a b -> 2\nHEXPIREFIELD k a 100 -> 1"))
    assert direct.ask("DEL", Keys().index(b"k")) == 1
    hold(other, direct, said_of(type_, "LEN k -> 2\nHTTLFIELD k FIELDS 2 a b -> [-1, -1]"))
    hold(other, direct, said_of(type_, "HPERSISTFIELD k a -> -1\nHPEXPIREFIELD k a 20 -> 1"))
    let_pass(direct, 20)
    hold(app, direct, said_of(type_, "LEN k -> 1"))
    until_swept(direct)


@pytest.mark.usefixtures("no_reaper")
@every_type
def test_a_key_that_was_evicted_and_is_written_again(
    app: Connection, other: Connection, direct: Client, type_: str
) -> None:
    """Its old index still exists, and must not affect what is written now."""
    dated = said_of(type_, "ADD k a b -> *\nHPEXPIREFIELD k 40 FIELDS 2 a b -> [1, 1]")

    def evicted() -> bool:
        """In time: no request has found the key's elements due, and removed them."""
        hold(app, direct, dated)
        return bool(direct.ask("DEL", "k") == 1)

    wait_until(evicted, "the key was evicted in time")
    hold(other, direct, said_of(type_, "ADD k a -> 1\nHTTLFIELD k a -> -1"))
    hold(app, direct, said_of(type_, "ADD k b -> *\nHTTLFIELD k FIELDS 2 a b -> [-1, -1]"))
    let_pass(direct, 40)
    hold(app, direct, said_of(type_, "LEN k -> 2"))
    until_swept(direct)


# --- transactions


@every_type
def test_a_flush_of_scripts_between_multi_and_exec(
    app: Connection, other: Connection, direct: Client, type_: str
) -> None:
    hold(app, direct, said_of(type_, "ADD k a b -> 2\nMULTI -> OK\nHEXPIREFIELD k a 100 -> QUEUED"))
    assert other.ask("SCRIPT", "FLUSH") == b"+OK\r\n"
    hold(app, direct, said_of(type_, "HTTLFIELD k a -> QUEUED\nEXEC -> [1, 100]"))


def test_a_flush_of_scripts_inside_a_transaction(app: Connection, direct: Client) -> None:
    hold(app, direct, "SADD k a -> 1\nMULTI -> OK\nSCRIPT FLUSH -> QUEUED")
    hold(app, direct, "SEXPIREMEMBER k a 100 -> QUEUED\nEXEC -> [OK, 1]\nSTTLMEMBER k a -> 100")


@pytest.mark.usefixtures("no_reaper")
@every_type
def test_an_element_that_expires_between_watch_and_exec(
    app: Connection, other: Connection, direct: Client, type_: str
) -> None:
    """As with Redis's own expiry of fields: a deletion counts as a change."""
    dated = "ADD k a b -> 2\nHPEXPIREFIELD k a 20 -> 1"
    hold(app, direct, said_of(type_, dated + "\nWATCH k -> OK\nwait 20 in time"))
    hold(other, direct, said_of(type_, "LEN k -> 1"))
    hold(app, direct, "MULTI -> OK\nSET text x -> QUEUED\nEXEC -> nil\nGET text -> nil")


@every_type
def test_a_plain_write_in_a_transaction_while_another_gives_the_first_deadline(
    app: Connection, other: Connection, direct: Client, type_: str
) -> None:
    """The write is queued while the key has no deadline, and carried out when it has one."""
    hold(other, direct, "SADDEX elsewhere 100 m -> 1")
    hold(app, direct, said_of(type_, "ADD k a b -> 2\nMULTI -> OK\nREM k a -> QUEUED"))
    hold(app, direct, said_of(type_, "ADD k a -> QUEUED"))
    hold(other, direct, said_of(type_, "HPEXPIREFIELD k a 40 -> 1"))
    hold(app, direct, said_of(type_, "EXEC -> [*\nHTTLFIELD k a -> -1"))
    let_pass(direct, 40)
    hold(app, direct, said_of(type_, "LEN k -> 2"))


@every_type
def test_a_virtual_command_in_a_discarded_transaction(
    app: Connection, other: Connection, direct: Client, type_: str
) -> None:
    hold(app, direct, said_of(type_, "ADD k a -> 1\nMULTI -> OK\nHPEXPIREFIELD k a 20 -> QUEUED"))
    hold(app, direct, said_of(type_, "HEXPIREFIELD k a 0 -> QUEUED\nDISCARD -> OK"))
    let_pass(direct, 20)
    hold(other, direct, said_of(type_, "HTTLFIELD k a -> -1\nADD k b -> *\nLEN k -> 2"))
    assert direct.ask("EXISTS", Keys().index(b"k"), Keys().schedule) == 0


# --- requests that are carried out later than they were checked


@every_type
def test_a_plain_write_behind_a_blocking_command_while_another_gives_the_first_deadline(
    app: Connection, other: Connection, server: AnyServer, direct: Client, type_: str
) -> None:
    hold(other, direct, said_of(type_, "SADDEX elsewhere 100 m -> 1\nADD k a b -> 2"))
    written = [
        line.partition(" ->")[0].split()
        for line in said_of(type_, "REM k a -> 1\nADD k a -> 1").splitlines()
    ]
    app.send(command("BLPOP", "gate", 0) + b"".join(command(*words) for words in written))
    until_blocked(server.port, 1)
    hold(other, direct, said_of(type_, "HPEXPIREFIELD k a 40 -> 1\nRPUSH gate x -> 1"))
    app.read_many(1 + len(written))
    hold(other, direct, said_of(type_, "HTTLFIELD k a -> -1"))
    let_pass(direct, 40)
    hold(other, direct, said_of(type_, "LEN k -> 2"))


def test_a_pop_woken_by_a_dated_push_and_then_an_equal_value_moved_there(
    app: Connection, other: Connection, server: AnyServer, direct: Client
) -> None:
    app.send(command("BLPOP", "l", 0))
    until_blocked(server.port, 1)
    hold(other, direct, "LPUSHEX l 100 v -> 1")
    assert app.read() == b"*2\r\n$1\r\nl\r\n$1\r\nv\r\n"
    hold(other, direct, 'RPUSH from v -> 1\nBLMOVE from l LEFT RIGHT 0 -> "v"')
    hold(other, direct, "LTTLELEMENT l v -> -1\nLLEN l -> 1")


@every_type
def test_a_reap_that_finds_no_index_while_the_next_deadline_is_on_its_way(
    app: Connection, other: Connection, server: AnyServer, direct: Client, type_: str
) -> None:
    """The request waits behind a blocking one; until then the key must count as managed."""
    setter = {"hash": "HEXPIREFIELD", "set": "SEXPIREMEMBER", "zset": "ZEXPIREMEMBER"}
    hold(other, direct, said_of(type_, "ADD k a b c -> 3\nHPEXPIREFIELD k c 20 -> 1"))
    app.send(
        command("BLPOP", "gate", 0) + command(setter.get(type_, "LEXPIREELEMENT"), "k", "a", 9)
    )
    until_blocked(server.port, 1)
    let_pass(direct, 20)
    hold(other, direct, said_of(type_, "LEN k -> 2"))
    assert direct.ask("EXISTS", Keys().index(b"k")) == 0, "reaped, and no index left"
    hold(other, direct, "RPUSH gate x -> 1")
    assert app.read_many(2)[1] == b":1\r\n"
    hold(other, direct, said_of(type_, "HTTLFIELD k a -> 9\nREM k a -> 1\nADD k a -> *"))
    hold(other, direct, said_of(type_, "HTTLFIELD k a -> -1"))


# --- refused


@pytest.fixture
def limited(proxy: Proxy, server: AnyServer, direct: Client) -> Iterator[Connection]:
    """A client of a user whose rights a test may take away; `_restrict` sets the user up again."""
    _restrict(direct)
    with Connection(proxy.port) as client:
        assert client.ask("AUTH", "limited", "any") == b"+OK\r\n"
        yield client
    direct.ask("ACL", "DELUSER", "limited")


def _restrict(direct: Client, *rules: str) -> None:
    everything = ["reset", "on", "nopass", "~*", "&*", "+@all"]
    assert direct.ask("ACL", "SETUSER", "limited", *everything, *rules) == b"OK"


# Of rights to keys, and to scripts; test_lacking_rights.py takes away one command at a time.
_RULES = [
    "resetkeys ~k",
    "-evalsha -eval",
    "-select",
    "resetkeys ~k ~new ~__ttl:*",
    *(f"resetkeys ~k ~other ~new ~__ttl:{key}" for key in ("schedule", "{*", "[^!]*", "[^n]*")),
]


@pytest.mark.parametrize(
    ("type_", "rules"),
    [
        *(("hash", rules) for rules in _RULES),
        *((type_, _RULES[0]) for type_ in ("set", "zset", "list")),
    ],
)
def test_a_user_who_is_refused_in_the_middle_of_a_script_has_changed_nothing(
    limited: Connection, app: Connection, direct: Client, type_: str, rules: str
) -> None:
    is_prepared = False  # what was refused leaves it so
    for line in said_of(type_, _WRITES + _OWN_WRITES[type_]).splitlines():
        if not is_prepared:
            hold(app, direct, "DEL k other new -> *")
            hold(app, direct, said_of(type_, "ADD k a b -> 2\nHEXPIREFIELD k a 100 -> 1"))
            before = read([direct], (7, 0)).model.frozen()
        _restrict(direct, *rules.split())
        answer = limited.ask(*line.partition(" ->")[0].split())
        _restrict(direct)
        is_prepared = answer.startswith(b"-")
        if is_prepared:
            assert read([direct], (7, 0)).model.frozen() == before, (line, answer)


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        *(("-hget", line) for line in ("HGETDEL h FIELDS 1 a", "HGETEX h EX 9 FIELDS 2 a b")),
        *(("-hget", line) for line in ("HGETEX h PERSIST FIELDS 1 a", "HGETEX h FIELDS 1 b")),
        ("-zrem", "HGETEX h PERSIST FIELDS 1 a"),
        ("-zadd", "HGETEX h EX 9 FIELDS 1 b"),
        *(("-zrangebyscore", line) for line in ("DUE h", "TTLPROXY KEY h")),
        ("-hexists", "DUE h"),
        ("-dbsize", "DBSIZE"),
        ("-keys", "KEYS *"),
        ("-randomkey", "RANDOMKEY"),
        ("-scan", "SCAN 0"),
    ],
)
def test_who_may_not_read_what_a_script_reads_is_told_so(
    limited: Connection, app: Connection, direct: Client, rule: str, line: str
) -> None:
    hold(app, direct, "HSET h a 1 b 2 -> 2\nHEXPIREFIELD h a 100 -> 1")
    before = read([direct], (7, 0)).model.frozen()
    _restrict(direct, rule)
    answer = limited.ask(*line.split())
    _restrict(direct)
    assert re.match(REFUSED, answer), answer
    assert read([direct], (7, 0)).model.frozen() == before


@every_type
def test_a_full_server_refuses_what_it_would_refuse_by_itself_and_that_whole(
    app: Connection, client: Client, direct: Client, type_: str
) -> None:
    """Servers that have HGETEX and HEXPIRE never refuse them; but a new deadline of ours needs
    memory."""
    for line in said_of(type_, _WRITES + _OWN_WRITES[type_]).splitlines():
        words = line.partition(" ->")[0].split()
        hold(app, direct, "DEL k other new -> *")
        hold(app, direct, said_of(type_, "ADD k a b -> 2\nHEXPIREFIELD k a 100 -> 1"))
        before = read([direct], (7, 0)).model.frozen()
        direct.ask("CONFIG", "SET", "maxmemory", 1)
        answer = app.ask(*words)
        direct.ask("CONFIG", "SET", "maxmemory", 0)
        ((_, _, flags, *_),) = client.ask("COMMAND", "INFO", words[0])
        if words[0] == "HGETEX":
            needs_memory = "50" in words
        else:  # an element whose deadline is past is only removed
            needs_memory = b"denyoom" in flags and words[1:] != ["k", "a", "0"]
        assert answer.startswith(b"-OOM") is needs_memory, (line, answer)
        if answer.startswith(b"-"):
            assert read([direct], (7, 0)).model.frozen() == before, (line, answer)
        else:
            until_swept(direct)


def test_a_replica_refuses_writes_in_redis_own_words(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """Each type has a database."""
    server = start_server()
    with Connection(start_proxy(server.url).port) as app, Client(server.port) as direct:
        for db, type_ in enumerate(_OWN_WRITES):
            app.ask("SELECT", db)
            hold(app, direct, said_of(type_, "ADD k a b -> 2\nHEXPIREFIELD k a 100 -> 1"))
        direct.ask("REPLICAOF", "127.0.0.1", 1)
    with Connection(start_proxy(server.url).port) as app:
        for db, type_ in enumerate(_OWN_WRITES):
            app.ask("SELECT", db)
            for line in said_of(type_, _WRITES + _OWN_WRITES[type_]).splitlines():
                answer = app.ask(*line.partition(" ->")[0].split())
                assert answer.startswith(b"-READONLY"), (line, answer)


_WRITES = """
    ADD k a -> *
    ADD k new -> *
    HEXPIREFIELD k b 200 -> *
    HEXPIREFIELD k a 50 -> *
    HEXPIREFIELD k a 0 -> *
    HPERSISTFIELD k a -> *
    REM k a -> *
    RENAME k other -> *
    DEL k -> *
    EXPIRE k 100 -> *
    PERSIST k -> *
    COPY k other -> *
    MOVE k 1 -> *
    RENAMENX k other -> *
"""
# The command that writes elements with a deadline: `two` and `one` name elements, `kept` those of
# KEEPTTL.
_TIMED_WRITES = """
        {name} k EX 200 {two}
        {other} k EX 50 {two}
        {name} k {two}
        {name} k KEEPTTL {kept}
        {name} k EX 0 {two}
        {name} k MAXLEN 2 EVICT EX 200 {one}
        {name} new EX 200 {one}
"""


def _timed_writes(name: str, two: str, kept: str, one: str, other: str = "") -> str:
    return _TIMED_WRITES.format(name=name, other=other or name, two=two, kept=kept, one=one)


# Those that only one type has.
_OWN_WRITES = {
    "hash": _timed_writes("HSETEX", "FIELDS 2 a 9 new 9", "FIELDS 2 a 9 new 9", "FIELDS 1 new 9")
    + """
        HGETEX k EX 50 FIELDS 1 a
        HGETEX k EX 0 FIELDS 1 a
        HGETEX k PERSIST FIELDS 1 a
        HGETDEL k FIELDS 2 a b
        HINCRBY k a 1
    """,
    "set": _timed_writes("SADDEX", "MEMBERS 2 a new", "50 a new", "MEMBERS 1 new")
    + """
        SPOP k 2
        SMOVE k other a
    """,
    "zset": _timed_writes("ZADDEX", "MEMBERS 2 1 a 1 new", "50 1 a 1 new", "MEMBERS 1 1 new")
    + """
        ZADD k CH 3 a 3 new
        ZPOPMIN k
        ZREMRANGEBYRANK k 0 0
        ZINCRBY k 1 a
    """,
    "list": _timed_writes("RPUSHEX", "ELEMENTS 2 a new", "50 a new", "ELEMENTS 1 new", "LPUSHEX")
    + """
        LPOP k 2
        RPOPLPUSH k other
        LMOVE k other LEFT LEFT
        LSET k 0 new
        LINSERT k BEFORE a new
        LTRIM k 1 -1
        LEASE k other PX 100000
    """,
}


@pytest.mark.usefixtures("no_reaper")
def test_a_multi_that_was_refused(limited: Connection, app: Connection, direct: Client) -> None:
    """Later requests are carried out at once, and not at an EXEC."""
    _restrict(direct, "-multi", "-exec")
    assert limited.ask("MULTI").startswith(b"-NOPERM")
    hold(app, direct, "SADD k a b -> 2\nSPEXPIREMEMBER k a 20 -> 1")
    let_pass(direct, 20)
    hold(limited, direct, "SCARD k -> 1\nSADDEX k 100 b -> 0\nSREM k b -> 1\nSADD k b -> 1")
    hold(limited, direct, "STTLMEMBER k b -> -1\nSPEXPIREMEMBER k b 20 -> 1\nwait 20\nSCARD k -> 0")
    assert b"NOPERM" in limited.ask("EXEC")
    hold(limited, direct, "EXISTS k -> 0")


# --- a client that never reads


@pytest.mark.usefixtures("no_reaper")
def test_a_client_that_never_reads_delays_nobodys_deadline(
    app: Connection, proxy: Proxy, direct: Client
) -> None:
    """Its replies fill every buffer on the way; other clients see elements expire in time."""
    hold(app, direct, "SADDEX k 100 a b -> 2")
    app.ask("HSET", "big", "f", b"x" * (1 << 20))
    with Connection(proxy.port) as never:
        never.socket.settimeout(0.2)
        request = command("HGET", "big", "f") * 64 + command("SPEXPIREMEMBER", "k", "a", "20")
        never.send(request)
        wait_until(
            lambda: direct.ask("ZSCORE", Keys().index(b"k"), "a") is not None, "the deadline"
        )
        hold(app, direct, "SEXPIREMEMBER k b 0 -> 2\nSADDEX k PX 20 MEMBERS 1 c -> 1\nwait 20")
        hold(app, direct, "SISMEMBER k c -> 0")
