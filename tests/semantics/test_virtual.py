"""The replies of HEXPIREFIELD and similar commands, word for word: docs/semantics.md on deadlines.

Everything here is sent for every type: one by one, in a pipeline under RESP3, and in MULTI.
"""

from __future__ import annotations

from tests.support.conversation import Talk
from tests.support.error_texts import NOT_AN_INTEGER

SETTERS = ["HEXPIREFIELD", "HPEXPIREFIELD", "HEXPIREATFIELD", "HPEXPIREATFIELD"]
QUERIES = ["HTTLFIELD", "HPTTLFIELD", "HEXPIRETIMEFIELD", "HPEXPIRETIMEFIELD", "HPERSISTFIELD"]


# --- errors, and which comes first


def test_a_word_for_a_number_is_refused_as_redis_parses_numbers(every: Talk) -> None:
    times = ["x", '""', "+1", "01", '" 1"', '"1 "', "1.5", "-0", "0x10",
             "9223372036854775808", "-9223372036854775809"]  # fmt: skip
    every("ADD k a -> 1")
    for time in times:
        every(f"""
            HEXPIREFIELD k a {time}              -> {NOT_AN_INTEGER}
            HPEXPIREATFIELD k {time} FIELDS 1 a  -> {NOT_AN_INTEGER}
            HEXPIREFIELD nokey a {time}          -> {NOT_AN_INTEGER}
            HEXPIREFIELD k a {time} ZZ           -> {NOT_AN_INTEGER}
            HPEXPIREFIELD k {time} WORDS 0 a     -> {NOT_AN_INTEGER}
        """)
    every("HTTLFIELD k a -> -1")


def test_the_queries_long_form_has_redis_8s_errors_in_redis_8s_order(every: Talk) -> None:
    word = "ERR Mandatory argument FIELDS is missing or not at the right position"
    positive = "ERR Number of fields must be a positive integer"
    match = "ERR The `numfields` parameter must match the number of arguments"
    every("ADD k a b -> 2")
    for query in QUERIES:
        every(f"""
            {query} k WORDS 0 a           -> {word}
            {query} k 1 FIELDS a          -> {word}
            {query} k FIELDS 0 a          -> {positive}
            {query} k FIELDS x a          -> {positive}
            {query} k FIELDS 2 a          -> {match}
            {query} nokey FIELDS 1 a b    -> {match}
        """)


def test_a_wrong_number_of_words_is_refused_and_the_connection_lives(
    every_one_by_one: Talk,
) -> None:
    setters = [f"{name} {words}" for name in SETTERS for words in ("", "k", "k a")]
    queries = [f"{name} {words}" for name in QUERIES for words in ("", "k", "k FIELDS 1")]
    for request in [*setters, *queries, "hPexpireField k a", "hTTLfield k"]:
        name = request.split()[0].lower()
        every_one_by_one(f"{request} -> ERR wrong number of arguments for '{name}' command")
    every_one_by_one("HTTLFIELD k a -> -2")


# --- names


def test_an_element_named_like_a_word_of_the_grammar_is_an_element(every: Talk) -> None:
    for name in ["FIELDS", "WORDS", "fields", "NX", "gt", "KEEPTTL", "1", "-1", '""']:
        every(f"""
            ADD k {name} z                       -> 2
            HEXPIREFIELD k {name} 100            -> 1
            HEXPIREFIELD k {name} 100 NX         -> 0
            HTTLFIELD k {name}                   -> 100
            HPERSISTFIELD k {name}               -> 1
            HEXPIREFIELD k 100 FIELDS 1 {name}   -> [1]
            HTTLFIELD k FIELDS 2 {name} {name}   -> [100, 100]
            HEXPIREFIELD k {name} 0              -> 2
            REM k z                              -> 1
        """)


NAMES = ["a{b}c", "{}x", "a}b", "}{", "{{a}}", "{a", "a}:b", "t:k", r"\x00\r\n\xff", "", "__ttl",
         "schedule", r"\"", "x" * 300]  # fmt: skip


def test_any_bytes_are_a_key_and_any_bytes_are_an_element(every: Talk) -> None:
    for name in NAMES:
        every(f"""
            ADD "{name}" "{name}" b c             -> 3
            HEXPIREFIELD "{name}" "{name}" 100    -> 1
            HTTLFIELD "{name}" "{name}"           -> 100
            HPEXPIREFIELD "{name}" 40 FIELDS 2 "{name}" b -> [1, 1]
        """)
    every("wait 40")
    for name in NAMES:
        every(f"""
            LEN "{name}"                          -> 1
            HTTLFIELD "{name}" "{name}"           -> -2
            RENAME "{name}" other                 -> OK
            HEXPIREFIELD other c 100              -> 1
            RENAME other "{name}"                 -> OK
            HTTLFIELD "{name}" c                  -> 100
        """)
