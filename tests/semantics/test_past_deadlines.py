"""Past its deadline an element is absent for every command, though nobody reaped it: R1 of
docs/semantics.md.
"""

from __future__ import annotations

import re
import shlex

import pytest

from tests.support.conversation import Talk, hold, let_pass
from tests.support.error_texts import WRONGTYPE
from tests.support.per_type import every_type, said_of
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import read
from tests.support.servers import Proxy


@pytest.mark.usefixtures("no_reaper")
def test_the_first_look_after_the_deadline_does_not_see_the_field(talk: Talk) -> None:
    looks = _looks(f"""
        HGET k a                            -> nil
        HGET k b                            -> "1"
        HMGET k a b                         -> [nil, "1"]
        HLEN k                              -> 1
        HEXISTS k a                         -> 0
        HGETALL k                           -> ["b", "1"]
        HKEYS k                             -> ["b"]
        HVALS k                             -> ["1"]
        HSTRLEN k a                         -> 0
        HRANDFIELD k 9                      -> ["b"]
        HSCAN k 0                           -> ["0", ["b", "1"]]
        HTTLFIELD k a                       -> -2
        HPTTLFIELD k FIELDS 2 a b           -> [-2, -1]
        HPERSISTFIELD k a                   -> -2
        HEXPIREFIELD k a 100                -> -2
        HEXPIREFIELD k a 0                  -> -2
        HEXPIREFIELD k 100 FIELDS 2 a b     -> [-2, 1]
        HDEL k a                            -> 0
        HDEL k a b                          -> 1
        HSET k a 2                          -> 1
        HSETNX k a 2                        -> 1
        HINCRBY k a 5                       -> 5
        HINCRBYFLOAT k a 0.5                -> "0.5"
        HSETEX k FXX FIELDS 1 a 2           -> 0
        HSETEX k FNX FIELDS 1 a 2           -> 1
        SORT k BY nosort                    -> {WRONGTYPE}
        TYPE k                              -> hash
        EXISTS k                            -> 1
    """)
    talk(_each("HSET k a 1 b 1 -> 2", looks) + _each("HPEXPIREFIELD k a 40 -> 1", looks))
    talk("wait 40\n" + "".join(looks))


@pytest.mark.usefixtures("no_reaper")
def test_the_first_look_after_the_deadline_does_not_see_the_member(talk: Talk) -> None:
    looks = _looks("""
        SISMEMBER k a                       -> 0
        SMISMEMBER k a b                    -> [0, 1]
        SCARD k                             -> 1
        SMEMBERS k                          -> ["b"]
        SRANDMEMBER k                       -> "b"
        SRANDMEMBER k 5                     -> ["b"]
        SSCAN k 0                           -> ["0", ["b"]]
        SINTER k k                          -> ["b"]
        SUNION nokey k                      -> ["b"]
        SDIFF k nokey                       -> ["b"]
        SORT k ALPHA                        -> ["b"]
        STTLMEMBER k a                      -> -2
        SPTTLMEMBER k MEMBERS 2 a b         -> [-2, -1]
        SPERSISTMEMBER k a                  -> -2
        SEXPIREMEMBER k a 100               -> -2
        SEXPIREMEMBER k 0 MEMBERS 2 a b     -> [-2, 2]
        SREM k a                            -> 0
        SREM k a b                          -> 1
        SADD k a                            -> 1
        SADD k a b                          -> 1
        SPOP k                              -> "b"
        SPOP k 5                            -> ["b"]
        SMOVE k to a                        -> 0
        SMOVE k to b                        -> 1
        SADDEX k XX MEMBERS 1 a             -> 0
        SADDEX k NX MEMBERS 1 a             -> 1
        SADDEX k KEEPTTL 100 a              -> 1
        TYPE k                              -> set
        EXISTS k                            -> 1
    """)
    talk(_each("SADD k a b -> 2", looks) + _each("SPEXPIREMEMBER k a 40 -> 1", looks))
    talk("wait 40\n" + "".join(looks))


@pytest.mark.usefixtures("no_reaper")
def test_the_first_look_after_the_deadline_does_not_see_the_list_element(talk: Talk) -> None:
    looks = _looks("""
        LRANGE k 0 -1                       -> ["b", "c"]
        LINDEX k 0                          -> "b"
        LINDEX k 2                          -> nil
        LLEN k                              -> 2
        LPOS k a                            -> nil
        LPOS k c                            -> 1
        SORT k ALPHA DESC                   -> ["c", "b"]
        LTTLELEMENT k a                     -> -2
        LPTTLELEMENT k ELEMENTS 2 a b       -> [-2, -1]
        LPERSISTELEMENT k a                 -> -2
        LEXPIREELEMENT k a 100              -> -2
        LEXPIREELEMENT k 0 ELEMENTS 2 a b   -> [-2, 2]
        LREM k 0 a                          -> 0
        LREM k 0 b                          -> 1
        LPUSH k a                           -> 3
        RPUSHX k b                          -> 3
        LINSERT k BEFORE a c                -> -1
        LINSERT k BEFORE b a                -> 3
        LSET k 2 d                          -> ERR index out of range
        LSET k 0 d                          -> OK
        LTRIM k 0 0                         -> OK
        LPOP k                              -> "b"
        RPOP k                              -> "c"
        LPOP k 3                            -> ["b", "c"]
        LMOVE k to LEFT RIGHT               -> "b"
        RPOPLPUSH k to                      -> "c"
        BLPOP k 0                           -> ["k", "b"]
        BRPOP nokey k 0                     -> ["k", "c"]
        BLMOVE k to LEFT LEFT 0             -> "b"
        BRPOPLPUSH k to 0                   -> "c"
        TYPE k                              -> list
        EXISTS k                            -> 1
    """)
    talk(_each("RPUSH k a b a c -> 4", looks) + _each("LPEXPIREELEMENT k a 40 -> 1", looks))
    talk("wait 40\n" + "".join(looks))


@pytest.mark.usefixtures("no_reaper")
def test_a_key_whose_elements_are_all_past_their_deadlines_is_not_there(every: Talk) -> None:
    looks = _looks("""
        EXISTS k                            -> 0
        EXISTS k nokey k                    -> 0
        TOUCH k                             -> 0
        TYPE k                              -> none
        TTL k                               -> -2
        OBJECT ENCODING k                   -> nil
        DUMP k                              -> nil
        LEN k                               -> 0
        HTTLFIELD k a                       -> -2
        HEXPIREFIELD k a 100                -> -2
        DEL k                               -> 0
        UNLINK nokey k                      -> 0
        EXPIRE k 100                        -> 0
        PERSIST k                           -> 0
        RENAME k new                        -> ERR no such key
        RENAMENX k new                      -> ERR no such key
        COPY k new                          -> 0
        ADD k a                             -> 1
        ODD k a                             -> 1
        GET k                               -> nil
        SETNX k text                        -> 1
        INCR k                              -> 1
        APPEND k text                       -> 4
        LPUSH k a                           -> 1
    """)
    every(
        _each("ADD k a b -> 2", looks) + _each("HPEXPIREFIELD k 40 FIELDS 2 a b -> [1, 1]", looks)
    )
    every("wait 40\n" + "".join(looks))


def _looks(text: str) -> list[str]:
    """Each line gets a key of its own, k0, k1 and so on, so that each is the key's first read."""
    lines = filter(None, map(str.strip, text.splitlines()))
    return [re.sub(r"\bk\b", f"k{n}", line) + "\n" for n, line in enumerate(lines)]


def _each(line: str, looks: list[str]) -> str:
    """The line for the key of each read."""
    return "".join(re.sub(r"\bk\b", f"k{n}", line) + "\n" for n in range(len(looks)))


@every_type
@pytest.mark.usefixtures("no_reaper")
def test_a_transaction_is_as_fresh_as_its_exec(proxy: Proxy, direct: Client, type_: str) -> None:
    with Connection(proxy.port) as one, Connection(proxy.port) as other:
        hold(other, direct, said_of(type_, "ADD k a b -> 2"))
        assert one.ask("MULTI") == b"+OK\r\n"
        hold(one, direct, said_of(type_, "LEN k -> QUEUED"))
        hold(other, direct, said_of(type_, "HPEXPIREFIELD k a 20 -> 1"))
        hold(one, direct, said_of(type_, "LEN k -> QUEUED"))
        let_pass(direct, 20)
        assert one.ask("EXEC") == b"*2\r\n:1\r\n:1\r\n"


@every_type
@pytest.mark.usefixtures("no_reaper")
def test_a_deadline_that_another_client_set_is_known_to_all(
    proxy: Proxy, direct: Client, type_: str
) -> None:
    with Connection(proxy.port) as one, Connection(proxy.port) as other:
        hold(one, direct, said_of(type_, "ADD k a b -> 2"))
        hold(other, direct, said_of(type_, "HPEXPIREFIELD k a 20 -> 1"))
        let_pass(direct, 20)
        hold(one, direct, said_of(type_, "LEN k -> 1"))


@pytest.mark.usefixtures("no_reaper")
def test_an_earlier_deadline_behind_a_later_one_is_the_one_that_counts(every: Talk) -> None:
    every("""
        ADD k a b                           -> 2
        HEXPIREFIELD k a 100                -> 1
        HPEXPIREFIELD k a 20                -> 1
        ADD other a b                       -> 2
        HEXPIREFIELD other b 100            -> 1
        HPEXPIREFIELD other a 20            -> 1
        wait 20
        LEN k                               -> 1
        LEN other                           -> 1
    """)


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        pytest.param("", 0, id="no rules"),
        pytest.param("HSET __ttl:rules version 1", 0, id="all rules are gone"),
        pytest.param(r'HSET __ttl:rules ":\x01write:?:k" ""', 0, id="a rule of ONWRITE"),
        pytest.param("HSET __ttl:rules :k ''", 1, id="a rule of ONEXPIRE"),
        pytest.param("SET __ttl:rules 1", 1, id="no list of rules"),
    ],
)
@pytest.mark.usefixtures("no_reaper")
def test_a_deadline_in_the_past_waits_for_rules_that_no_proxy_has_read(
    app: Connection, direct: Client, rules: str, left: int
) -> None:
    # As after a promotion, where the rules have come with another master's data.
    if rules:
        direct.ask(*(word.replace("\\x01", "\x01") for word in shlex.split(rules)))
    for words in ("MULTI", "HSET k a 1 b 1", "HPEXPIREATFIELD k a 1", "HLEN k"):
        app.ask(*words.split())
    assert app.ask("EXEC") == b"*3\r\n:2\r\n:2\r\n:%d\r\n" % (1 + left)


def test_an_element_that_nobody_reads_is_gone_from_redis_soon_after(
    every: Talk, direct: Client
) -> None:
    every("""
        ADD k a b                               -> 2
        ADD gone a                              -> 1
        HPEXPIREFIELD k a 20                    -> 1
        HPEXPIREFIELD gone a 20                 -> 1
    """)
    wait_until(lambda: direct.ask("KEYS", "[gk]*") == [b"k"], "the reaper")
    # On a busy machine each key may be reaped by its own call, in any order.
    wait_until(lambda: len(read([direct], (7, 0)).model.databases[0][b"k"]) == 1, "the other one")
    (left,) = read([direct], (7, 0)).model.databases
    assert b"b" in left[b"k"]
    assert len(left[b"k"]) == 1
    assert not left[b"k"].deadlines
