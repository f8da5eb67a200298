"""What each native command does to deadlines: the tables of docs/semantics.md, and R1 to R6.

Hashes, sets, whole keys, and what all types have in common. The virtual commands are in
test_virtual.py and test_timed_writes.py.
"""

from __future__ import annotations

import re

import pytest

from tests.support.containers import Container
from tests.support.conversation import ALL_WAYS, Talk, hold, let_pass, said_in
from tests.support.error_texts import NOT_AN_INTEGER, WRONGTYPE
from tests.support.per_type import every_type, said_of, said_to_all
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.redis_content import read
from tests.support.servers import Proxy, Server

talk = said_in(ALL_WAYS)
every = said_to_all(ALL_WAYS)


# --- R1: past its deadline an element is absent for every command, though nobody reaped it


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


# --- R2, hashes: replacing a value clears its deadline, altering it keeps it


@pytest.mark.parametrize(("write", "answer"), [("HSET", "1"), ("HMSET", "OK")])
def test_writing_a_field_clears_its_deadline_and_no_other(
    talk: Talk, write: str, answer: str
) -> None:
    talk(f"""
        HSET h a 1 b 1                      -> 2
        HEXPIREFIELD h 100 FIELDS 2 a b     -> [1, 1]
        {write} h a 2 new 2                 -> {answer}
        HTTLFIELD h FIELDS 3 a b new        -> [-1, 100, -1]
        HGET h a                            -> "2"
    """)


def test_a_written_field_outlives_its_old_deadline(talk: Talk) -> None:
    talk("""
        HSET h a 1 b 1                      -> 2
        HPEXPIREFIELD h 20 FIELDS 2 a b     -> [1, 1]
        HSET h a 2                          -> 0
        wait 20 in time
        HGETALL h                           -> ["a", "2"]
    """)


def test_an_expired_field_counts_as_created(talk: Talk) -> None:
    talk("""
        HSET h a 1 b 1 c 1                  -> 3
        HPEXPIREFIELD h 20 FIELDS 2 a b     -> [1, 1]
        wait 20
        HSET h a 2 c 2                      -> 1
        HSETNX h b 2                        -> 1
        HTTLFIELD h FIELDS 3 a b c          -> [-1, -1, -1]
    """)


def test_hsetnx_keeps_the_deadline_it_does_not_overwrite(talk: Talk) -> None:
    talk("""
        HSET h a 1                          -> 1
        HEXPIREFIELD h a 100                -> 1
        HSETNX h a 2                        -> 0
        HSETNX h b 2                        -> 1
        HTTLFIELD h FIELDS 2 a b            -> [100, -1]
    """)


def test_incrementing_keeps_the_deadline(talk: Talk) -> None:
    talk("""
        HSET h n 1 f 1.5 w word             -> 3
        HEXPIREFIELD h 100 FIELDS 3 n f w   -> [1, 1, 1]
        HINCRBY h n 2                       -> 3
        HINCRBYFLOAT h f 0.25               -> "1.75"
        HINCRBY h w 1                       -> ERR hash value is not an integer
        HINCRBYFLOAT h w 1                  -> ERR hash value is not a float
        HINCRBY h n 9223372036854775807     -> ERR increment or decrement would overflow
        HTTLFIELD h FIELDS 3 n f w          -> [100, 100, 100]
        HINCRBY h new 7                     -> 7
        HTTLFIELD h new                     -> -1
    """)


def test_incrementing_a_dated_field_reaches_every_64_bit_number(talk: Talk) -> None:
    """A Lua script's integer reply has only 53 exact bits."""
    talk("""
        HSET h n 9007199254740992           -> 1
        HEXPIREFIELD h n 100                -> 1
        HINCRBY h n 1                       -> 9007199254740993
        HINCRBY h n 9214364837600034814     -> 9223372036854775807
        HINCRBY h n -9223372036854775807    -> 0
        HINCRBY h n -9223372036854775808    -> -9223372036854775808
        HTTLFIELD h n                       -> 100
    """)


def test_incrementing_an_expired_field_starts_from_0_without_a_deadline(talk: Talk) -> None:
    talk("""
        HSET h n 41 f 41.5                  -> 2
        HPEXPIREFIELD h 20 FIELDS 2 n f     -> [1, 1]
        wait 20
        HINCRBY h n 1                       -> 1
        HINCRBYFLOAT h f 0.5                -> "0.5"
        HTTLFIELD h FIELDS 2 n f            -> [-1, -1]
    """)


# --- what is refused changes nothing


def test_a_refused_write_of_a_hash_leaves_its_deadlines(talk: Talk) -> None:
    talk(f"""
        HSET k a word b 1                   -> 2
        HEXPIREFIELD k 100 FIELDS 2 a b     -> [1, 1]
        HSET k a 1 b                        -> ERR wrong number of arguments for 'hset' command
        HMSET k a 1 b                       -> ERR wrong number of arguments for 'hmset' command
        HINCRBY k a 1                       -> ERR hash value is not an integer
        HINCRBY k b x                       -> {NOT_AN_INTEGER}
        HINCRBYFLOAT k a 1                  -> ERR hash value is not a float
        HSETEX k EX x FIELDS 1 a 1          -> {NOT_AN_INTEGER}
        SADD k a                            -> {WRONGTYPE}
        SREM k a                            -> {WRONGTYPE}
        SPOP k                              -> {WRONGTYPE}
        SPOP k 1                            -> {WRONGTYPE}
        SMOVE k to a                        -> {WRONGTYPE}
        SADDEX k MEMBERS 1 a                -> {WRONGTYPE}
        SADDEX k 0 a                        -> {WRONGTYPE}
        EXPIRE k x                          -> {NOT_AN_INTEGER}
        RENAME nokey k                      -> ERR no such key
        HTTLFIELD k FIELDS 2 a b            -> [100, 100]
    """)


def test_a_refused_write_of_a_set_leaves_its_deadlines(talk: Talk) -> None:
    talk(f"""
        SADD k a b                          -> 2
        SEXPIREMEMBER k 100 MEMBERS 2 a b   -> [1, 1]
        SET text x                          -> OK
        HSET k a 1                          -> {WRONGTYPE}
        HMSET k a 1                         -> {WRONGTYPE}
        HSETNX k a 1                        -> {WRONGTYPE}
        HINCRBY k a 1                       -> {WRONGTYPE}
        HINCRBYFLOAT k a 1                  -> {WRONGTYPE}
        HDEL k a                            -> {WRONGTYPE}
        HSETEX k FIELDS 1 a 1               -> {WRONGTYPE}
        HSETEX k EX 0 FIELDS 1 a 1          -> {WRONGTYPE}
        SMOVE k text a                      -> {WRONGTYPE}
        SMOVE text k a                      -> {WRONGTYPE}
        SPOP k -1                           -> ERR value is out of range, must be positive
        SPOP k 1 1                          -> ERR syntax error
        PEXPIREAT k x                       -> {NOT_AN_INTEGER}
        STTLMEMBER k MEMBERS 2 a b          -> [100, 100]
    """)


# --- R3: removing an element removes its deadline


def test_removing_what_expired_counts_nothing(every: Talk) -> None:
    every("""
        ADD k a b c                     -> 3
        HPEXPIREFIELD k a 20            -> 1
        wait 20
        REM k a b b zz                  -> 1
        REM k c                         -> 1
        EXISTS k                        -> 0
    """)


def test_the_last_element_takes_its_key_and_all_that_belongs_to_it(every: Talk) -> None:
    every("""
        ADD k a b                       -> 2
        HEXPIREFIELD k 100 FIELDS 2 a b -> [1, 1]
        REM k a b                       -> 2
        EXISTS k                        -> 0
        ADD k a                         -> 1
        HTTLFIELD k FIELDS 2 a b        -> [-1, -2]
    """)


@pytest.mark.parametrize(("pop", "answer"), [("SPOP s", '"a"'), ("SPOP s 1", '["a"]'),
                                             ("SPOP s 9", '["a"]')])  # fmt: skip
def test_a_popped_member_leaves_its_deadline_behind(talk: Talk, pop: str, answer: str) -> None:
    talk(f"""
        SADDEX s 100 a                      -> 1
        {pop}                               -> {answer}
        EXISTS s                            -> 0
        SADD s a                            -> 1
        STTLMEMBER s a                      -> -1
    """)


def test_popping_one_of_many_leaves_the_others_their_deadlines(talk: Talk) -> None:
    talk("""
        SADDEX s 100 a b c d                -> 4
        SPOP s 0                            -> []
        SCARD s                             -> 4
        SPOP s 3                            -> [*
        SADDEX s KEEPTTL 200 a b c d        -> 3
        SPOP s -1                           -> ERR value is out of range, must be positive
        SPOP nokey                          -> nil
        SPOP nokey 3                        -> []
    """)


def test_expired_members_are_not_popped(talk: Talk) -> None:
    talk("""
        SADD s a b c                        -> 3
        SPEXPIREMEMBER s 20 MEMBERS 2 a b   -> [1, 1]
        wait 20
        SPOP s 5                            -> ["c"]
        SPOP s                              -> nil
    """)


# --- SADD


def test_adding_a_member_again_keeps_its_deadline_and_a_new_one_has_none(talk: Talk) -> None:
    talk("""
        SADD s a                            -> 1
        SEXPIREMEMBER s a 100               -> 1
        SADD s a b                          -> 1
        STTLMEMBER s MEMBERS 2 a b          -> [100, -1]
    """)


def test_an_expired_member_added_again_is_new_and_has_no_deadline(talk: Talk) -> None:
    talk("""
        SADD s a b                          -> 2
        SPEXPIREMEMBER s a 20               -> 1
        wait 20
        SADD s a b                          -> 1
        STTLMEMBER s MEMBERS 2 a b          -> [-1, -1]
        SCARD s                             -> 2
    """)


# --- R4: SMOVE


def test_a_moved_member_takes_its_deadline_along(talk: Talk) -> None:
    talk("""
        SADDEX from 100 a b                 -> 2
        SADD from c                         -> 1
        SMOVE from to a                     -> 1
        SMOVE from to c                     -> 1
        STTLMEMBER to MEMBERS 3 a b c       -> [100, -2, -1]
        STTLMEMBER from MEMBERS 2 a b       -> [-2, 100]
        SADD from a                         -> 1
        STTLMEMBER from a                   -> -1
    """)


def test_a_moved_member_goes_at_its_old_deadline(talk: Talk) -> None:
    talk("""
        SADDEX from PX 20 MEMBERS 1 a       -> 1
        SADD to z                           -> 1
        SMOVE from to a                     -> 1
        EXISTS from                         -> 0
        wait 20 in time
        SMEMBERS to                         -> ["z"]
    """)


def test_a_live_equal_member_at_the_destination_keeps_its_own_deadline(talk: Talk) -> None:
    talk("""
        SADDEX from 100 a b                 -> 2
        SADD from c                         -> 1
        SADDEX to 200 a c                   -> 2
        SADD to b                           -> 1
        SMOVE from to a                     -> 1
        SMOVE from to b                     -> 1
        SMOVE from to c                     -> 1
        STTLMEMBER to MEMBERS 3 a b c       -> [200, -1, 200]
        EXISTS from                         -> 0
    """)


def test_an_expired_equal_member_at_the_destination_does_not_count(talk: Talk) -> None:
    talk("""
        SADDEX from 100 a                   -> 1
        SADD from b                         -> 1
        SADDEX to PX 20 MEMBERS 2 a b       -> 2
        wait 20
        SMOVE from to a                     -> 1
        SMOVE from to b                     -> 1
        STTLMEMBER to MEMBERS 2 a b         -> [100, -1]
    """)


def test_an_expired_member_cannot_be_moved(talk: Talk) -> None:
    talk("""
        SADD from a b                       -> 2
        SPEXPIREMEMBER from a 20            -> 1
        wait 20
        SMOVE from to a                     -> 0
        EXISTS to                           -> 0
    """)


def test_moving_nowhere_or_to_the_wrong_place_changes_nothing(talk: Talk) -> None:
    talk(f"""
        SADDEX s 100 a                      -> 1
        SET t text                          -> OK
        SMOVE s s a                         -> 1
        SMOVE s s zz                        -> 0
        SMOVE s to zz                       -> 0
        SMOVE s t a                         -> {WRONGTYPE}
        SMOVE t s a                         -> {WRONGTYPE}
        SMOVE nokey t a                     -> 0
        STTLMEMBER s a                      -> 100
    """)


def test_moving_into_an_expiring_set_keeps_that_keys_expiry(talk: Talk) -> None:
    talk("""
        SADDEX from 200 a b                 -> 2
        EXPIRE from 300                     -> 1
        SADD to z                           -> 1
        EXPIRE to 100                       -> 1
        SMOVE from to a                     -> 1
        SMOVE from new b                    -> 1
        TTL to                              -> 100
        TTL new                             -> -1
        STTLMEMBER new b                    -> 200
    """)


# --- R4: RENAME and RENAMENX


@pytest.mark.parametrize(("rename", "done"), [("RENAME", "OK"), ("RENAMENX", "1")])
def test_a_renamed_key_takes_its_deadlines_along(every: Talk, rename: str, done: str) -> None:
    every(f"""
        ADD k a b                       -> 2
        HEXPIREFIELD k a 100            -> 1
        EXPIRE k 200                    -> 1
        {rename} k {{new}}              -> {done}
        HTTLFIELD {{new}} FIELDS 2 a b  -> [100, -1]
        TTL {{new}}                     -> 200
        ADD k a                         -> 1
        HTTLFIELD k a                   -> -1
    """)


def test_deadlines_pass_under_the_new_name(every: Talk) -> None:
    every("""
        ADD k a b                       -> 2
        HPEXPIREFIELD k a 20            -> 1
        RENAME k new                    -> OK
        wait 20
        LEN new                         -> 1
        EXISTS k                        -> 0
    """)


def test_the_destinations_old_deadlines_go_when_a_key_is_renamed_onto_it(every: Talk) -> None:
    every("""
        ADD plain a b                   -> 2
        ADD k a c                       -> 2
        HEXPIREFIELD k 100 FIELDS 2 a c -> [1, 1]
        EXPIRE k 300                    -> 1
        RENAME plain k                  -> OK
        HTTLFIELD k FIELDS 3 a b c      -> [-1, -1, -2]
        TTL k                           -> -1
        HEXPIREFIELD k b 200            -> 1
        SET text x                      -> OK
        RENAME text k                   -> OK
        TYPE k                          -> string
        DEL k                           -> 1
        ADD k b                         -> 1
        HTTLFIELD k b                   -> -1
    """)


def test_renaming_a_managed_key_onto_a_managed_one_leaves_only_its_own_deadlines(
    every: Talk,
) -> None:
    every("""
        ADD k a b                       -> 2
        HEXPIREFIELD k a 100            -> 1
        ADD other a b                   -> 2
        HPEXPIREFIELD other b 20        -> 1
        RENAMENX k other                -> 0
        RENAME k other                  -> OK
        wait 20
        HTTLFIELD other FIELDS 2 a b    -> [100, -1]
    """)


def test_an_all_expired_destination_does_not_block_renamenx(every: Talk) -> None:
    every("""
        ADD k a                         -> 1
        HEXPIREFIELD k a 100            -> 1
        ADD other a b                   -> 2
        HPEXPIREFIELD other 20 FIELDS 2 a b -> [1, 1]
        RENAMENX k other                -> 0
        wait 20 in time
        RENAMENX k other                -> 1
        HTTLFIELD other FIELDS 2 a b    -> [100, -2]
    """)


def test_renaming_a_key_to_its_own_name_changes_nothing(every: Talk) -> None:
    every("""
        ADD k a                         -> 1
        HEXPIREFIELD k a 100            -> 1
        RENAME k k                      -> OK
        RENAMENX k k                    -> 0
        HTTLFIELD k a                   -> 100
        RENAME nokey nokey              -> ERR no such key
    """)


# --- R5 and whole keys


@pytest.mark.parametrize("delete", ["DEL", "UNLINK"])
def test_a_deleted_key_starts_clean(every: Talk, delete: str) -> None:
    every(f"""
        ADD k a b                       -> 2
        HPEXPIREFIELD k a 20            -> 1
        HEXPIREFIELD k b 100            -> 1
        {delete} k nokey k              -> 1
        ADD k a b                       -> 2
        HTTLFIELD k FIELDS 2 a b        -> [-1, -1]
        wait 20
        LEN k                           -> 2
    """)


@pytest.mark.parametrize("expire", ["EXPIRE k 200", "PEXPIRE k 200000", "EXPIREAT k @+200s",
                                    "PEXPIREAT k @+200000ms"])  # fmt: skip
def test_the_keys_own_expiry_leaves_deadlines_alone_and_persist_does_too(
    every: Talk, expire: str
) -> None:
    every(f"""
        ADD k a b                       -> 2
        HEXPIREFIELD k a 100            -> 1
        {expire}                        -> 1
        HTTLFIELD k FIELDS 2 a b        -> [100, -1]
        HEXPIREFIELD k b 300            -> 1
        PERSIST k                       -> 1
        PERSIST k                       -> 0
        TTL k                           -> -1
        HTTLFIELD k FIELDS 2 a b        -> [100, 300]
    """)


def test_deadlines_that_come_back_follow_the_keys_expiry_again(every: Talk) -> None:
    """The index was emptied in between, and lost its own expiry with that."""
    every("""
        ADD k a                         -> 1
        HEXPIREFIELD k a 100            -> 1
        PEXPIRE k 20                    -> 1
        HPERSISTFIELD k a               -> 1
        HEXPIREFIELD k a 100            -> 1
        wait 20 in time
        ADD k a                         -> 1
        HTTLFIELD k a                   -> -1
    """)


def test_conditions_of_expire_hold_for_deadlines_too(
    every: Talk, server: Server | Container
) -> None:
    if server.name == "6.2":
        pytest.skip("EXPIRE takes conditions from Redis 7.0 on")
    every("""
        ADD k a b                       -> 2
        HEXPIREFIELD k a 100            -> 1
        EXPIRE k 10 XX                  -> 0
        PEXPIRE k 20 GT                 -> 0
        EXPIREAT k @+200s NX            -> 1
        EXPIRE k 0 GT                   -> 0
        PEXPIREAT k @+200000ms LT       -> 0
        PEXPIRE k 20 lt                 -> 1
        wait 20
        ADD k a                         -> 1
        HTTLFIELD k a                   -> -1
    """)


def test_the_same_key_in_another_database_is_another_key(every: Talk) -> None:
    every("""
        SELECT 1                        -> OK
        ADD k a b                       -> 2
        HPEXPIREFIELD k a 20            -> 1
        HEXPIREFIELD k b 100            -> 1
        SELECT 0                        -> OK
        ADD k a b                       -> 2
        HTTLFIELD k a                   -> -1
        wait 20
        LEN k                           -> 2
        DEL k                           -> 1
        SELECT 1                        -> OK
        LEN k                           -> 1
        HTTLFIELD k b                   -> 100
    """)


# --- transactions


@every_type
@pytest.mark.parametrize(
    "refused", ["HEXPIREFIELD k a", "HEXPIREFIELD", "HTTLFIELD k", "HTTLFIELD k FIELDS 1",
                "HPERSISTFIELD k a b", "HSETEX h FIELDS 1 a", "SADDEX s 100"],
)  # fmt: skip
def test_a_virtual_command_of_too_few_words_aborts_the_transaction(
    app: Connection, direct: Client, type_: str, refused: str
) -> None:
    conversation = f"""
        MULTI                               -> OK
        SET text x                          -> QUEUED
        {refused}                           -> ERR*
        SET text y                          -> QUEUED
        EXEC -> EXECABORT Transaction discarded because of previous errors.
        GET text                            -> nil
    """
    hold(app, direct, said_of(type_, conversation))


def test_an_error_inside_exec_stands_in_its_place(app: Connection) -> None:
    requests: list[list[str | int]] = [
        ["MULTI"], ["HSET", "h", "a", 1], ["HEXPIREFIELD", "h", "a", "x"],
        ["SEXPIREMEMBER", "h", "a", 100], ["HEXPIREFIELD", "h", "a", 100],
        ["HTTLFIELD", "h", "a"], ["EXEC"],
    ]  # fmt: skip
    app.send(b"".join(command(*words) for words in requests))
    assert app.read_many(7)[-1] == (
        b"*5\r\n:1\r\n-ERR value is not an integer or out of range\r\n"
        b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n:1\r\n:100\r\n"
    )


# --- RESP3


def test_replies_about_managed_keys_keep_their_resp3_types(app: Connection) -> None:
    app.ask("HELLO", 3)
    app.ask("HSET", "h", "a", 1)
    app.ask("HEXPIREFIELD", "h", "a", 100)
    app.ask("SADDEX", "s", 100, "a")
    assert app.ask("HGETALL", "h") == b"%1\r\n$1\r\na\r\n$1\r\n1\r\n"
    assert app.ask("HGET", "h", "zz") == b"_\r\n"
    assert app.ask("SMEMBERS", "s") == b"~1\r\n$1\r\na\r\n"
    assert app.ask("HINCRBYFLOAT", "h", "a", "0.5") == b"$3\r\n1.5\r\n"
    assert app.ask("SPOP", "s", 9) == b"~1\r\n$1\r\na\r\n"
    assert app.ask("SPOP", "s") == b"_\r\n"
    assert app.ask("HTTLFIELD", "h", "FIELDS", 2, "a", "zz") == b"*2\r\n:100\r\n:-2\r\n"
