"""Replacing the value of a hash field clears its deadline, altering it keeps it."""

from __future__ import annotations

from tests.support.conversation import Talk
from tests.support.error_texts import NOT_AN_INTEGER, WRONGTYPE

# --- R2, hashes: replacing a value clears its deadline, altering it keeps it


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
