"""Blocking commands and user scripts on managed keys: reaped, forwarded as they came, swept.

A script of ours could not block, or would change the reply.
"""

from __future__ import annotations

import socket

import pytest

from tests.support.containers import AnyServer
from tests.support.conversation import Talk, hold
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.redis_content import read, until_swept
from tests.support.server_queries import until_blocked

# Redis serves a blocked client at the end of the transaction: then its element has a deadline.
PUSHED = """
    MULTI                                   -> OK
    RPUSH l a                               -> QUEUED
    LEXPIREELEMENT l a 100                  -> QUEUED
    EXEC                                    -> [1, 1]
"""
ADDED = """
    MULTI                                   -> OK
    ZADD z 1 a                              -> QUEUED
    ZEXPIREMEMBER z a 100                   -> QUEUED
    EXEC                                    -> [1, 1]
"""
POPPED = b"*2\r\n$1\r\nl\r\n$1\r\na\r\n"


@pytest.mark.usefixtures("no_reaper")
def test_a_blocking_pop_does_not_see_what_is_past_its_deadline(
    talk: Talk, server: AnyServer
) -> None:
    since_7 = """
        BLMPOP 0.01 2 none l5 LEFT          -> ["l5", ["b"]]
        BZMPOP 0.01 1 z3 MIN                -> ["z3", [["b", "2"]]]
    """
    talk(f"""
        {_lists(6)}
        {_sorted_sets(4)}
        wait 20
        BLPOP none l1 0.01                  -> ["l1", "b"]
        BRPOP l2 0.01                       -> ["l2", "b"]
        BRPOPLPUSH l3 to 0.01               -> "b"
        BLMOVE l4 to LEFT RIGHT 0.01        -> "b"
        BZPOPMIN z1 0.01                    -> ["z1", "b", "2"]
        BZPOPMAX z2 0.01                    -> ["z2", "b", "2"]
        {"" if server.name == "6.2" else since_7}
        LRANGE to 0 -1                      -> ["b", "b"]
        BLPOP l1 0.01                       -> nil
    """)


def _lists(count: int) -> str:
    return "\n".join(
        f"RPUSH l{n} a b -> 2\nLPEXPIREELEMENT l{n} a 20 -> 1" for n in range(1, count)
    )


def _sorted_sets(count: int) -> str:
    return "\n".join(
        f"ZADD z{n} 1 a 2 b -> 2\nZPEXPIREMEMBER z{n} a 20 -> 1" for n in range(1, count)
    )


@pytest.mark.parametrize(
    ("fill", "pop", "again", "left"),
    [
        ("RPUSH k a b", "BLPOP k 1", "RPUSH k a", "LTTLELEMENT k a"),
        ("RPUSH k b a", "BRPOP k 1", "RPUSH k a", "LTTLELEMENT k a"),
        ("RPUSH k b a", "BRPOPLPUSH k to 1", "LPUSH k a", "LTTLELEMENT k a"),
        ("RPUSH k a b", "BLMOVE k to LEFT LEFT 1", "LPUSH k a", "LTTLELEMENT k a"),
        ("ZADD k 1 a 2 b", "BZPOPMIN k 1", "ZADD k 1 a", "ZTTLMEMBER k a"),
        ("ZADD k 2 a 1 b", "BZPOPMAX k 1", "ZADD k 1 a", "ZTTLMEMBER k a"),
    ],
)
def test_what_was_popped_leaves_its_deadline_behind(
    talk: Talk, fill: str, pop: str, again: str, left: str
) -> None:
    expire = "LEXPIREELEMENT" if "PUSH" in fill else "ZEXPIREMEMBER"
    talk(f"""
        {fill}                              -> 2
        {expire} k a 100                    -> 1
        {pop}                               -> *
        {again}                             -> *
        {left}                              -> -1
    """)


def test_what_a_blocked_client_popped_is_swept_when_it_goes_on(
    app: Connection, other: Connection, server: AnyServer, direct: Client
) -> None:
    """Only then the proxy can know that its index entry is stale."""
    for pop, key, added in (("BLPOP", "l", PUSHED), ("BZPOPMIN", "z", ADDED)):
        app.send(command(pop, key, 0))
        until_blocked(server.port, 1)
        hold(other, direct, added)
        assert app.read().startswith(b"*")
        assert read([direct], (7, 0)).faults
        app.ask("PING")
        until_swept(direct)


def test_a_woken_pop_and_then_a_blocking_move_of_an_equal_value(
    app: Connection, other: Connection, server: AnyServer, direct: Client
) -> None:
    """A later equal value does not get the stale deadline that the pop left in the index."""
    app.send(command("BLPOP", "l", 0))
    until_blocked(server.port, 1)
    hold(other, direct, PUSHED)
    assert app.read() == POPPED
    for move in ("BLMOVE from l LEFT LEFT 1", "BRPOPLPUSH from l 1"):
        hold(
            other,
            direct,
            f"""
            RPUSH from a                    -> 1
            {move}                          -> "a"
            LTTLELEMENT l a                 -> -1
            DEL l                           -> 1
        """,
        )
        hold(other, direct, PUSHED)
        assert app.ask("BLPOP", "l", 0) == POPPED


def test_a_blocking_move_in_a_transaction_meets_no_deadline_of_one_that_is_gone(
    app: Connection, other: Connection, server: AnyServer, direct: Client
) -> None:
    hold(other, direct, "MULTI -> OK\nRPUSH from a -> QUEUED\nBLMOVE from l LEFT LEFT 1 -> QUEUED")
    app.send(command("BLPOP", "l", 0))
    until_blocked(server.port, 1)
    with Connection(app.socket.getpeername()[1]) as third:
        hold(third, direct, PUSHED)
    assert app.read() == POPPED
    hold(other, direct, 'EXEC -> [1, "a"]\nLTTLELEMENT l a -> -1')


def test_a_blocking_move_does_not_carry_the_deadline(talk: Talk) -> None:
    talk("""
        RPUSH l a b                         -> 2
        LEXPIREELEMENT l 100 ELEMENTS 2 a b -> [1, 1]
        RPUSH to b                          -> 1
        LEXPIREELEMENT to b 200             -> 1
        BLMOVE l to LEFT LEFT 1             -> "a"
        BRPOPLPUSH l to 1                   -> "b"
        LTTLELEMENT to ELEMENTS 2 a b       -> [-1, 200]
        EXISTS l                            -> 0
    """)


# --- user scripts


@pytest.mark.usefixtures("no_reaper")
def test_the_declared_keys_of_a_script_are_reaped_first(talk: Talk, server: AnyServer) -> None:
    read_only = "EVAL" if server.name == "6.2" else "EVAL_RO"
    talk(f"""
        SADD s a b                          -> 2
        SADD t a b                          -> 2
        SPEXPIREMEMBER s a 20               -> 1
        SPEXPIREMEMBER t a 20               -> 1
        wait 20
        EVAL "return(redis.call('SCARD',KEYS[2]))" 2 none s -> 1
        {read_only} "return(redis.call('SCARD',KEYS[1]))" 1 t -> 1
    """)


def test_what_a_script_removed_is_swept(app: Connection, direct: Client) -> None:
    hold(app, direct, "SADDEX s 100 a -> 1\nSADD s b -> 1")
    app.ask("SCRIPT", "LOAD", "return redis.call('SREM', KEYS[1], 'a')")
    assert app.ask("EVAL", "return redis.call('SREM', KEYS[1], 'a')", 1, "s") == b":1\r\n"
    until_swept(direct)
    hold(app, direct, "SADD s a -> 1\nSTTLMEMBER s a -> -1\nSADDEX s 100 a -> 0")
    assert app.ask("EVAL", "return redis.call('DEL', KEYS[1])", 1, "s") == b":1\r\n"
    until_swept(direct)


def test_a_function_is_reaped_for_and_swept_after(
    app: Connection, server: AnyServer, direct: Client
) -> None:
    if server.name == "6.2":
        pytest.skip("functions came with Redis 7.0")
    code = """#!lua name=tests
        redis.register_function('remove', function(keys, args)
          return redis.call('SREM', keys[1], args[1])
        end)
        redis.register_function{function_name='count', callback=function(keys)
          return redis.call('SCARD', keys[1])
        end, flags={'no-writes'}}"""
    assert app.ask("FUNCTION", "LOAD", "REPLACE", code) == b"$5\r\ntests\r\n"
    hold(
        app,
        direct,
        """
        SADD s b c                          -> 2
        SADDEX s PX 20 MEMBERS 1 a          -> 1
        SEXPIREMEMBER s b 100               -> 1
        wait 20
        FCALL_RO count 1 s                  -> 2
        FCALL remove 1 s b                  -> 1
    """,
    )
    until_swept(direct)
    assert app.ask("FUNCTION", "DELETE", "tests") == b"+OK\r\n"


@pytest.mark.parametrize(
    ("held", "reply"),
    [
        ("ACL DELUSER nobody-of-that-name", b":0\r\n"),
        ("LEASE src dst EX 100 BLOCK 1", b"$-1\r\n"),
    ],
)
@pytest.mark.usefixtures("no_reaper")
def test_what_stands_behind_a_request_that_waits_twice_is_answered(
    app: Connection, client: Client, direct: Client, held: str, reply: bytes
) -> None:
    """It waits first for the reap of the request before it, then for itself."""
    client.ask("SADDEX", "s", "PX", 1, "MEMBERS", 1, "gone")
    deadline_ms = direct.now_ms() + 1
    wait_until(lambda: direct.now_ms() > deadline_ms, "the deadline")
    app.send(command("SCARD", "s") + command(*held.split()) + command("PING"))
    assert app.read_many(3) == [b":0\r\n", reply, b"+PONG\r\n"]


BEHIND = pytest.mark.parametrize("behind", ["SCRIPT FLUSH", "ACL SETUSER nobody", "PING"])


@BEHIND
def test_a_client_that_is_gone_while_it_is_blocked_gets_no_item(
    server: AnyServer, other: Connection, app: Connection, behind: str
) -> None:
    """Also if it waits for the replies to what it has sent behind the blocking request."""
    app.send(command("BLPOP", "l", 0) + command(*behind.split()))
    until_blocked(server.port, 1)
    app.close()
    until_blocked(server.port, 0)
    assert other.ask("RPUSH", "l", "a") == b":1\r\n"
    assert other.ask("LLEN", "l") == b":1\r\n"


@BEHIND
def test_a_client_that_says_no_more_is_not_blocked(
    other: Connection, app: Connection, behind: str
) -> None:
    app.send(command("BLPOP", "l", 0) + command(*behind.split()))
    app.socket.shutdown(socket.SHUT_WR)
    assert app.read_to_end() == b""
    assert other.ask("RPUSH", "l", "a") == b":1\r\n"
    assert other.ask("LLEN", "l") == b":1\r\n"


def test_what_a_waiting_client_was_given_comes_back_without_its_deadline(
    app: Connection, other: Connection, server: AnyServer
) -> None:
    app.send(command("BLPOP", "l", 0))
    until_blocked(server.port, 1)
    for words in ("MULTI", "RPUSH l a", "LEXPIREELEMENT l a 100", "EXEC"):
        other.ask(*words.split())
    assert app.read() == b"*2\r\n$1\r\nl\r\n$1\r\na\r\n"
    assert other.ask("RPUSH", "l", "a") == b":1\r\n"
    assert app.ask("LTTLELEMENT", "l", "a") == b":-1\r\n"
