"""Whole keys: commands that replace, copy and move them, in one database and across; blocking
commands, scripts and WATCH. docs/semantics.md says what they do to keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.containers import AnyServer
from tests.support.conversation import WAYS, Talk, hold, let_pass, said_in
from tests.support.error_texts import WRONGTYPE
from tests.support.per_type import every_type, said_of, said_to_all
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import until_swept
from tests.support.server_queries import calls

talk = said_in(WAYS)
every = said_to_all(WAYS)


# --- what replaces a key


REPLACING = """
    SET k v                                 -> OK
    SET k v XX                              -> OK
    SET k v EX 100                          -> OK
    SET k v KEEPTTL                         -> OK
    SETEX k 100 v                           -> OK
    PSETEX k 100000 v                       -> OK
    MSET new 1 k v                          -> OK
    BITOP OR k text nokey                   -> 4
    BITOP OR k nokey nokey                  -> 0
    SINTERSTORE k nokey other               -> 0
    SUNIONSTORE k other                     -> 2
    SDIFFSTORE k other other                -> 0
    ZUNIONSTORE k 1 other                   -> 2
    ZINTERSTORE k 1 nokey                   -> 0
    ZDIFFSTORE k 2 other nokey              -> 2
    ZRANGESTORE k nokey 0 -1                -> 0
    ZRANGESTORE k geo 0 -1                  -> 1
    SORT other ALPHA STORE k                -> 2
    SORT nokey STORE k                      -> 0
    GEOSEARCHSTORE k geo FROMLONLAT 15 37 BYRADIUS 200 km -> 1
    GEORADIUS geo 15 37 200 km STORE k      -> 1
    GEORADIUS geo 16 37 1 m STOREDIST k     -> 0
    GEORADIUSBYMEMBER geo m 200 km STORE k  -> 1
"""
NOT_REPLACING = f"""
    SET k v NX                              -> nil
    SET k v EX x                            -> ERR value is not an integer or out of range
    SET k v SOON                            -> ERR syntax error
    SET k v GET                             -> {WRONGTYPE}
    SET k v XX GET                          -> {WRONGTYPE}
    SETEX k 0 v                             -> ERR invalid expire time*
    GETSET k v                              -> {WRONGTYPE}
    SETNX k v                               -> 0
    MSETNX new 1 k v                        -> 0
    MSET new 1 k                            -> ERR wrong number of arguments for*
    BITOP NOT k text text          -> ERR BITOP NOT must be called with a single source key.
    BITOP AND k hash                        -> {WRONGTYPE}
    PFMERGE k text                          -> WRONGTYPE*
    PFMERGE k nokey                         -> WRONGTYPE*
    RESTORE k 0 x                           -> BUSYKEY Target key name already exists.
    RESTORE k 0 x REPLACE                   -> ERR DUMP payload version or checksum are wrong
    SINTERSTORE k text                      -> {WRONGTYPE}
    SUNIONSTORE k text k                    -> {WRONGTYPE}
    ZUNIONSTORE k 0 x                       -> ERR at least 1 input key is needed*
    ZUNIONSTORE k 1 text                    -> {WRONGTYPE}
    ZRANGESTORE k text 0 -1                 -> {WRONGTYPE}
    SORT text STORE k                       -> {WRONGTYPE}
    SORT words STORE k             -> ERR One or more scores can't be converted into double
    GEORADIUS text 1 2 3 km STORE k         -> {WRONGTYPE}
"""
SOURCES = """
    SET text text                           -> OK
    HSET hash f v                           -> 1
    SADD words x y                          -> 2
    SADD other a b                          -> 2
    GEOADD geo 15 37 m                      -> 1
"""


def _for_each(writes: str, before: str, after: str) -> str:
    """Each write with the lines before and after it, on a key of its own: k0, k1 and so on."""
    lines = filter(None, map(str.strip, writes.splitlines()))
    return SOURCES + "".join(
        re.sub(r"\bk\b", f"k{n}", f"{before}\n{line}\n{after}\n") for n, line in enumerate(lines)
    )


BEFORE = """
    ADD k a b                               -> 2
    HEXPIREFIELD k a 100                    -> 1
"""


def test_a_replaced_key_starts_clean(every: Talk) -> None:
    after = """
        DEL k                               -> *
        ADD k a                             -> 1
        HTTLFIELD k FIELDS 2 a b            -> [-1, -2]
    """
    every(_for_each(REPLACING, BEFORE, after))


def test_a_key_that_was_not_replaced_keeps_its_deadlines(every: Talk) -> None:
    every(_for_each(NOT_REPLACING, BEFORE, "HTTLFIELD k FIELDS 2 a b -> [100, -1]"))


@pytest.mark.parametrize(
    ("store", "size"),
    [
        ("SUNIONSTORE k k other", 3),
        ("SUNIONSTORE k other", 2),
        ("SINTERSTORE k k k", 2),
        ("SDIFFSTORE k other nokey", 2),
    ],
)
def test_a_stored_set_has_no_deadlines_though_an_equal_member_had_one(
    talk: Talk, store: str, size: int
) -> None:
    talk(f"""
        SADDEX k 100 a b                    -> 2
        SADDEX other 100 a c                -> 2
        {store}                             -> {size}
        STTLMEMBER k a                      -> -1
        STTLMEMBER other a                  -> 100
        STTLMEMBER k b                      -> -*
    """)


def test_sources_of_a_stored_key_are_reaped_first(talk: Talk) -> None:
    talk("""
        SADD s a b                          -> 2
        SADD t a b c                        -> 3
        SADDEX k 100 z                      -> 1
        SPEXPIREMEMBER s a 20               -> 1
        SPEXPIREMEMBER t b 20               -> 1
        wait 20
        SUNIONSTORE new s                   -> 1
        SUNIONSTORE k s t                   -> 3
        SDIFFSTORE k t s                    -> 2
        SINTERSTORE k s t                   -> 0
        ZUNIONSTORE z 2 s t WEIGHTS 1 1     -> 3
        ZINTERSTORE z 2 s t                 -> 0
        SORT t ALPHA STORE k                -> 2
        BITOP OR k nokey nokey              -> 0
    """)


def test_a_set_of_an_all_expired_key_is_that_of_no_key(every: Talk) -> None:
    every("""
        ADD k a                             -> 1
        ADD l a                             -> 1
        ADD m a                             -> 1
        HPEXPIREFIELD k a 20                -> 1
        HPEXPIREFIELD l a 20                -> 1
        HPEXPIREFIELD m a 20                -> 1
        wait 20
        SET k v XX                          -> nil
        SET k v NX                          -> OK
        GETSET l v                          -> nil
        MSETNX m v new v                    -> 1
    """)


def test_replacing_replies_have_the_shape_of_the_client_s_resp(app: Connection) -> None:
    app.ask("HELLO", 3)
    app.ask("HSET", "h", "f", "v")
    app.ask("HEXPIREFIELD", "h", "f", 100)
    assert app.ask("SET", "h", "v", "NX") == b"_\r\n"
    assert app.ask("MULTI") == b"+OK\r\n"
    for request in (["SET", "h", "v", "NX"], ["SET", "h", "v"], ["SET", "h", "w", "GET"],
                    ["SINTERSTORE", "h", "nokey"], ["SET", "h", "v", "GET"]):  # fmt: skip
        assert app.ask(*request) == b"+QUEUED\r\n"
    assert app.ask("EXEC") == b"*5\r\n_\r\n+OK\r\n$1\r\nv\r\n:0\r\n_\r\n"


def test_a_restored_key_starts_clean(app: Connection, direct: Client) -> None:
    app.ask("SADD", "s", "a", "b")
    payload = direct.ask("DUMP", "s")
    for restore in ("RESTORE", "RESTORE-ASKING"):
        hold(app, direct, "SEXPIREMEMBER s a 100 -> 1")
        assert app.ask(restore, "s", 0, payload) == b"-BUSYKEY Target key name already exists.\r\n"
        hold(app, direct, "STTLMEMBER s a -> 100")
        assert app.ask(restore, "s", 0, payload, "REPLACE") == b"+OK\r\n"
        hold(app, direct, "STTLMEMBER s MEMBERS 2 a b -> [-1, -1]")


def test_more_words_than_lua_can_hand_on(app: Connection, direct: Client) -> None:
    app.ask("SADDEX", "k", 100, "a")
    pairs = [word for n in range(5000) for word in (f"n{n}", "v")]
    assert app.ask("MSET", *pairs, "k", "v") == b"+OK\r\n"
    assert app.ask("MULTI") == b"+OK\r\n"
    assert app.ask("SUNIONSTORE", "stored", *pairs) == b"+QUEUED\r\n"
    assert app.ask("SADDEX", "l", 100, "a") == b"+QUEUED\r\n"
    assert app.ask("EXEC").startswith(b"*2\r\n-WRONGTYPE")
    hold(app, direct, 'GET k -> "v"\nDEL k -> 1\nSADD k a -> 1\nSTTLMEMBER k a -> -1')


# --- COPY and MOVE


def test_a_copied_key_has_the_deadlines_of_the_original(every: Talk) -> None:
    every("""
        ADD k a b                           -> 2
        HEXPIREFIELD k a 100                -> 1
        EXPIRE k 300                        -> 1
        COPY k new                          -> 1
        HTTLFIELD new FIELDS 2 a b          -> [100, -1]
        TTL new                             -> 300
        HTTLFIELD k FIELDS 2 a b            -> [100, -1]
        REM k a                             -> 1
        HTTLFIELD new a                     -> 100
        COPY nokey new                      -> 0
        COPY k k                            -> ERR source and destination objects are the same
        HTTLFIELD k b                       -> -1
    """)


def test_a_key_copied_onto_a_managed_one_replaces_its_deadlines(every: Talk) -> None:
    every("""
        ADD k a b                           -> 2
        HEXPIREFIELD k a 100                -> 1
        ADD other a b                       -> 2
        HPEXPIREFIELD other b 40            -> 1
        COPY k other                        -> 0
        COPY k other DB 0                   -> 0
        HTTLFIELD other a                   -> -1
        COPY k other REPLACE                -> 1
        HTTLFIELD other FIELDS 2 a b        -> [100, -1]
        ADD plain a b                       -> 2
        COPY plain k REPLACE                -> 1
        HTTLFIELD k FIELDS 2 a b            -> [-1, -1]
        SET text x                          -> OK
        COPY text other REPLACE             -> 1
        DEL other                           -> 1
        ADD other a                         -> 1
        HTTLFIELD other a                   -> -1
        wait 40
        LEN k                               -> 2
    """)


def test_the_deadlines_of_a_copy_pass_and_those_of_the_original_too(every: Talk) -> None:
    every("""
        ADD k a b                           -> 2
        HPEXPIREFIELD k a 30                -> 1
        COPY k new                          -> 1
        COPY k new DB 1                     -> 1
        wait 30
        LEN k                               -> 1
        LEN new                             -> 1
        SELECT 1                            -> OK
        LEN new                             -> 1
    """)


def test_an_all_expired_target_does_not_stop_a_copy_or_a_move(every: Talk) -> None:
    every("""
        ADD k a                             -> 1
        HEXPIREFIELD k a 100                -> 1
        ADD other a                         -> 1
        HPEXPIREFIELD other a 20            -> 1
        SELECT 1                            -> OK
        ADD k a b                           -> 2
        HPEXPIREFIELD k 20 FIELDS 2 a b     -> [1, 1]
        SELECT 0                            -> OK
        wait 20
        COPY k other                        -> 1
        HTTLFIELD other a                   -> 100
        MOVE k 1                            -> 1
        EXISTS k                            -> 0
        SELECT 1                            -> OK
        HTTLFIELD k FIELDS 2 a b            -> [100, -2]
    """)


def test_a_key_is_copied_to_another_database_with_its_deadlines(every: Talk) -> None:
    every("""
        ADD k a b                           -> 2
        HEXPIREFIELD k a 100                -> 1
        COPY k k DB 1                       -> 1
        COPY k k db 1                       -> 0
        COPY k k DB 1 replace               -> 1
        COPY k k DB 0                       -> ERR source and destination objects are the same
        REM k a                             -> 1
        ADD k a                             -> *
        SELECT 1                            -> OK
        HTTLFIELD k FIELDS 2 a b            -> [100, -1]
        COPY k other DB 0 REPLACE           -> 1
        COPY k k DB 1                       -> ERR source and destination objects are the same
        SELECT 0                            -> OK
        HTTLFIELD other FIELDS 2 a b        -> [100, -1]
        LEN k                               -> 2
    """)


def test_a_moved_key_takes_its_deadlines_along(every: Talk) -> None:
    every("""
        ADD k a b                           -> 2
        HEXPIREFIELD k a 100                -> 1
        EXPIRE k 300                        -> 1
        MOVE k 1                            -> 1
        MOVE k 1                            -> 0
        ADD k a                             -> 1
        HTTLFIELD k a                       -> -1
        MOVE k 1                            -> 0
        SELECT 1                            -> OK
        HTTLFIELD k FIELDS 2 a b            -> [100, -1]
        TTL k                               -> 300
        REM k b                             -> 1
        MOVE k 0                            -> 0
        SELECT 0                            -> OK
        DEL k                               -> 1
        SELECT 1                            -> OK
        MOVE k 0                            -> 1
        EXISTS k                            -> 0
        SELECT 0                            -> OK
        HTTLFIELD k a                       -> 100
    """)


def test_deadlines_pass_in_the_database_that_a_key_was_moved_to(every: Talk) -> None:
    every("""
        ADD k a b                           -> 2
        HPEXPIREFIELD k a 30                -> 1
        MOVE k 1                            -> 1
        SELECT 1                            -> OK
        wait 30
        LEN k                               -> 1
        SELECT 0                            -> OK
        EXISTS k                            -> 0
    """)


@pytest.mark.parametrize(
    ("refused", "answer"),
    [
        ("MOVE k 0", "ERR source and destination objects are the same"),
        ("MOVE k 99", "ERR DB index is out of range"),
        ("MOVE k -1", "ERR*"),
        ("MOVE k x", "ERR value is not an integer or out of range"),
        ("MOVE k 99999999999", "ERR*"),
        ("COPY k new DB 99", "ERR DB index is out of range"),
        ("COPY k new DB x", "ERR value is not an integer or out of range"),
        ("COPY k new DB", "ERR syntax error"),
        ("COPY k new REPLACE NOW", "ERR syntax error"),
        ("COPY k text", "0"),
        ("COPY nokey k REPLACE", "0"),
        ("MOVE nokey 1", "0"),
    ],
)
def test_a_refused_copy_or_move_changes_nothing(talk: Talk, refused: str, answer: str) -> None:
    talk(f"""
        SADDEX k 100 a                      -> 1
        SET text x                          -> OK
        {refused}                           -> {answer}
        EXISTS new                          -> 0
        STTLMEMBER k a                      -> 100
    """)


@pytest.mark.parametrize("refused", ["MOVE k 99", "MOVE k -1", "MOVE k x", "MOVE k 99999999999",
                                     "COPY k new DB -1", "COPY k new DB 99999999999",
                                     "COPY k new DB 99"])  # fmt: skip
def test_a_database_that_is_not_there_is_refused_in_redis_own_words(
    app: Connection, server: AnyServer, direct: Client, refused: str
) -> None:
    app.ask("SADDEX", "k", 100, "a")
    with Connection(server.port) as native:
        assert app.ask(*refused.split()) == native.ask(*refused.split())
    hold(app, direct, "STTLMEMBER k a -> 100")


# --- SWAPDB, FLUSHDB, FLUSHALL


def test_swapped_databases_take_their_deadlines_along(every: Talk) -> None:
    every("""
        ADD k a b                           -> 2
        HEXPIREFIELD k a 100                -> 1
        SELECT 1                            -> OK
        ADD k a b                           -> 2
        ADD l a b                           -> 2
        HPEXPIREFIELD l a 30                -> 1
        SWAPDB 0 1                          -> OK
        HTTLFIELD k FIELDS 2 a b            -> [100, -1]
        ADD k a c                           -> *
        EXISTS l                            -> 0
        SELECT 0                            -> OK
        HTTLFIELD k FIELDS 2 a b            -> [-1, -1]
        wait 30
        LEN l                               -> 1
        SWAPDB 0 99                         -> ERR*
        SWAPDB 0 x                          -> ERR*
        SWAPDB 0 0                          -> OK
        SWAPDB 1 0                          -> OK
        EXISTS l                            -> 0
    """)


@pytest.mark.usefixtures("no_reaper")
def test_what_another_client_swapped_is_looked_for_where_it_is_now(
    app: Connection, other: Connection, direct: Client
) -> None:
    hold(app, direct, "SADD s a b -> 2\nSPEXPIREMEMBER s a 40 -> 1\nSELECT 7 -> OK\nSCARD s -> 0")
    hold(other, direct, "SWAPDB 0 7 -> OK")
    let_pass(direct, 40)
    hold(app, direct, "SCARD s -> 1")
    hold(other, direct, "SWAPDB 7 0 -> OK\nSCARD s -> 1")


@pytest.mark.parametrize("flush", ["FLUSHALL", "FLUSHDB", "FLUSHALL ASYNC"])
def test_a_flushed_key_starts_clean_and_is_forgotten(
    app: Connection, server: AnyServer, direct: Client, flush: str
) -> None:
    hold(
        app,
        direct,
        f"""
        SADDEX s 100 a                      -> 1
        {flush}                             -> OK
        SADD s a                            -> 1
        STTLMEMBER s a                      -> -1
    """,
    )

    def goes_on_as_it_came() -> bool:
        scripts = calls(server.port, "evalsha")
        app.ask("SADD", "s", "b")
        return calls(server.port, "evalsha") == scripts

    wait_until(goes_on_as_it_came, "the proxy forgets")


# --- EXPIRE


@pytest.mark.parametrize("time", ["EXPIRE k -1", "PEXPIREAT k 1", "PEXPIRE k 1", "EXPIRE k 100"])
def test_the_expiry_of_a_key_that_a_pop_has_emptied_leaves_nothing(talk: Talk, time: str) -> None:
    talk(f"""
        RPUSH k a b                         -> 2
        LEXPIREELEMENT k 100 ELEMENTS 2 a b -> [1, 1]
        BLPOP k 0                           -> ["k", "a"]
        BLPOP k 0                           -> ["k", "b"]
        {time}                              -> 0
        EXISTS k                            -> 0
    """)


# --- WATCH


@every_type
@pytest.mark.parametrize(
    "change",
    [
        "HEXPIREFIELD k a 100 -> 1",
        "HEXPIREFIELD k b 100 -> 1",
        "HPERSISTFIELD k b -> 1",
        "HEXPIREFIELD k a 0 -> 2",
        "ADD k a -> *\nADD k b -> *\nREM k b -> 1",
        "RENAME k other -> OK",
        "EXPIRE k 1000 -> 1",
    ],
)
def test_what_changes_a_deadline_aborts_the_transaction_of_who_watches(
    app: Connection, other: Connection, direct: Client, type_: str, change: str
) -> None:
    hold(app, direct, said_of(type_, "ADD k a b -> 2"))
    if "b" in change:
        hold(app, direct, said_of(type_, "HEXPIREFIELD k b 200 -> 1"))
    hold(app, direct, "WATCH nokey k -> OK")
    hold(other, direct, said_of(type_, change))
    hold(app, direct, "MULTI -> OK\nSET text x -> QUEUED\nEXEC -> nil\nGET text -> nil")


@every_type
def test_what_changes_nothing_does_not_abort_the_transaction_of_who_watches(
    app: Connection, other: Connection, direct: Client, type_: str
) -> None:
    hold(app, direct, said_of(type_, "ADD k a b -> 2\nHEXPIREFIELD k a 100 -> 1\nWATCH k -> OK"))
    hold(other, direct, said_of(type_, "HEXPIREFIELD k a 50 NX -> 0\nHTTLFIELD k a -> 100"))
    hold(other, direct, said_of(type_, "HEXPIREFIELD k zz 50 -> -2\nHPERSISTFIELD k b -> -1"))
    hold(app, direct, "MULTI -> OK\nSET text x -> QUEUED\nEXEC -> [OK]")


@pytest.mark.usefixtures("no_reaper")
@every_type
def test_an_element_that_was_due_before_the_watch_does_not_abort_it(
    app: Connection, direct: Client, type_: str
) -> None:
    hold(app, direct, said_of(type_, "ADD k a b -> 2\nHPEXPIREFIELD k a 20 -> 1\nwait 20"))
    hold(app, direct, said_of(type_, "WATCH k -> OK\nLEN k -> 1\nMULTI -> OK\nLEN k -> QUEUED"))
    hold(app, direct, "EXEC -> [1]")


@pytest.mark.usefixtures("no_reaper")
@every_type
def test_an_element_that_falls_due_aborts_a_transaction_that_names_its_key(
    app: Connection, direct: Client, type_: str
) -> None:
    dated = "ADD k a b -> 2\nHPEXPIREFIELD k a 20 -> 1"
    hold(app, direct, said_of(type_, dated + "\nWATCH k -> OK\nwait 20 in time"))
    hold(app, direct, said_of(type_, "MULTI -> OK\nLEN k -> QUEUED\nEXEC -> nil"))
    hold(app, direct, said_of(type_, "LEN k -> 1"))


def test_watching_is_refused_in_redis_own_words(app: Connection, plain: AnyServer) -> None:
    app.ask("SADDEX", "k", 100, "a")
    said = ["WATCH", "WATCH k", "UNWATCH", "MULTI", "WATCH k"]
    with Connection(plain.port) as direct:
        for line in said:
            assert app.ask(*line.split()) == direct.ask(*line.split()), line


def test_a_user_without_a_right_to_indexes_has_its_transactions(
    app: Connection, other: Connection, direct: Client
) -> None:
    direct.ask("ACL", "SETUSER", "watcher", "on", "nopass", "~app:*", "&*", "+@all")
    try:
        wait_until(lambda: _watches_as("watcher", other), "the proxy knows the user")
        hold(app, direct, "SET app:x 1 -> OK\nSADDEX managed 100 m -> 1")
        hold(other, direct, "MULTI -> OK\nGET app:x -> QUEUED\nEXEC -> nil")
        hold(other, direct, "MULTI -> OK\nSADD app:s a -> QUEUED\nEXEC -> [1]")
    finally:
        direct.ask("ACL", "DELUSER", "watcher")


def _watches_as(user: str, app: Connection) -> bool:
    assert app.ask("AUTH", user, "any") == b"+OK\r\n"
    return app.ask("WATCH", "app:x") == b"+OK\r\n"


# --- a full server, and a key on another server


@pytest.fixture
def full(app: Connection, direct: Client) -> Iterator[None]:
    """A managed set in a server that has no memory left."""
    hold(app, direct, "SADDEX s 100 a b -> 2\nSADD other a -> 1\nSELECT 0 -> OK")
    direct.ask("CONFIG", "SET", "maxmemory", 1)
    yield
    direct.ask("CONFIG", "SET", "maxmemory", 0)


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("write", ["SET s v", "SUNIONSTORE s other", "COPY s new", "COPY s s DB 1",
                                   "COPY other s REPLACE", "SORT other ALPHA STORE s"])  # fmt: skip
def test_a_full_server_refuses_a_write_and_nothing_has_changed(
    app: Connection, direct: Client, write: str
) -> None:
    hold(
        app,
        direct,
        f"""
        {write}                             -> OOM command not allowed when used memory*
        STTLMEMBER s MEMBERS 2 a b          -> [100, 100]
        EXISTS new                          -> 0
    """,
    )


@pytest.mark.usefixtures("full")
def test_a_full_server_moves_keys_and_swaps_databases_as_ever(
    app: Connection, direct: Client
) -> None:
    hold(
        app,
        direct,
        """
        MOVE s 1                            -> 1
        SWAPDB 0 1                          -> OK
        STTLMEMBER s MEMBERS 2 a b          -> [100, 100]
        EXISTS other                        -> 0
    """,
    )


def test_a_migrated_key_leaves_its_deadlines_and_its_index_is_swept(
    app: Connection, plain: AnyServer, direct: Client
) -> None:
    hold(
        app,
        direct,
        f"""
        SADDEX s 100 a b                    -> 2
        SADDEX s PX 20 MEMBERS 1 c          -> 1
        wait 20
        MIGRATE 127.0.0.1 {plain.port} s 0 5000 -> OK
        EXISTS s                            -> 0
        SADD s a                            -> 1
        STTLMEMBER s a                      -> -1
    """,
    )
    there = Client(plain.port)
    assert sorted(there.ask("SMEMBERS", "s")) == [b"a", b"b"]
    assert there.ask("DBSIZE") == 1
    there.close()
    until_swept(direct)
