"""The replies of HEXPIREFIELD and similar commands, word for word: docs/semantics.md on deadlines.

Everything here is sent for every type: one by one, in a pipeline under RESP3, and in MULTI.
"""

from __future__ import annotations

import pytest

from tests.support.conversation import Talk
from tests.support.error_texts import NOT_AN_INTEGER, WRONGTYPE

SETTERS = ["HEXPIREFIELD", "HPEXPIREFIELD", "HEXPIREATFIELD", "HPEXPIREATFIELD"]
QUERIES = ["HTTLFIELD", "HPTTLFIELD", "HEXPIRETIMEFIELD", "HPEXPIRETIMEFIELD", "HPERSISTFIELD"]


# --- what the numbers mean


def test_a_deadline_set_answers_1_and_the_seconds_left_are_rounded_up(every: Talk) -> None:
    every("""
        ADD k a b c                    -> 3
        HEXPIREFIELD k a 100           -> 1
        HTTLFIELD k a                  -> 100
        HPEXPIREFIELD k b 99900        -> 1
        HTTLFIELD k b                  -> 100
        HTTLFIELD k c                  -> -1
    """)


def test_there_is_no_time_left_of_what_is_not_there(every: Talk) -> None:
    every("""
        ADD k a                        -> 1
        HTTLFIELD k zz                 -> -2
        HPTTLFIELD nokey a             -> -2
        HEXPIRETIMEFIELD k zz          -> -2
        HPEXPIRETIMEFIELD k a          -> -1
        HPERSISTFIELD k zz             -> -2
        HPERSISTFIELD nokey a          -> -2
        HEXPIREFIELD k zz 100          -> -2
        HEXPIREFIELD nokey a 100       -> -2
        HEXPIREFIELD k zz 0            -> -2
        HEXPIREFIELD k zz 100 XX       -> -2
        EXISTS nokey                   -> 0
    """)


def test_absolute_deadlines_come_back_as_they_went_and_seconds_round_up(every: Talk) -> None:
    every("""
        ADD k a b                      -> 2
        HPEXPIREATFIELD k a @+100001ms -> 1
        HPEXPIRETIMEFIELD k a          -> @+100001ms
        HEXPIRETIMEFIELD k a           -> @+101s
        HEXPIREATFIELD k b @+200s      -> 1
        HPEXPIRETIMEFIELD k b          -> @+200000ms
        HEXPIRETIMEFIELD k b           -> @+200s
    """)


def test_persisting_answers_1_then_minus_1_and_the_deadline_is_gone(every: Talk) -> None:
    every("""
        ADD k a b                      -> 2
        HEXPIREFIELD k a 100           -> 1
        HPERSISTFIELD k a              -> 1
        HPERSISTFIELD k a              -> -1
        HTTLFIELD k a                  -> -1
        HPERSISTFIELD k FIELDS 3 a b z -> [-1, -1, -2]
    """)


@pytest.mark.parametrize(
    "past", ["HEXPIREFIELD k a 0", "HPEXPIREFIELD k a 0", "HEXPIREATFIELD k a @-1s",
             "HPEXPIREATFIELD k a @-1ms", "HEXPIREATFIELD k a 0"],
)  # fmt: skip
def test_a_deadline_already_past_deletes_and_answers_2(every: Talk, past: str) -> None:
    every(f"""
        ADD k a b                      -> 2
        {past}                         -> 2
        HAS k a                        -> 0
        LEN k                          -> 1
        HTTLFIELD k a                  -> -2
        ADD k a                        -> 1
        HTTLFIELD k a                  -> -1
    """)


def test_the_key_goes_with_its_last_element(every: Talk) -> None:
    every("""
        ADD k a b                       -> 2
        EXPIRE k 100                    -> 1
        HEXPIREFIELD k b 100            -> 1
        HEXPIREFIELD k 0 FIELDS 2 a b   -> [2, 2]
        EXISTS k                        -> 0
        TYPE k                          -> none
        ADD k b                         -> 1
        HTTLFIELD k b                   -> -1
        TTL k                           -> -1
    """)


def test_repeated_elements_are_taken_left_to_right(every: Talk) -> None:
    every("""
        ADD k a b                          -> 2
        HEXPIREFIELD k 100 NX FIELDS 2 a a -> [1, 0]
        HPERSISTFIELD k FIELDS 2 a a       -> [1, -1]
        HEXPIREFIELD k 0 FIELDS 3 a a b    -> [2, -2, 2]
        HEXPIREFIELD k 0 FIELDS 1 a        -> [-2]
    """)


def test_long_forms_answer_one_number_for_each_element(every: Talk) -> None:
    every("""
        ADD k a b                                -> 2
        HEXPIREFIELD k 100 FIELDS 3 a zz b       -> [1, -2, 1]
        HTTLFIELD k FIELDS 3 a zz b              -> [100, -2, 100]
        HPEXPIREATFIELD k @+200000ms FIELDS 1 b  -> [1]
        HPEXPIRETIMEFIELD k FIELDS 2 b a         -> [@+200000ms, *
        HEXPIRETIMEFIELD k fields 1 b            -> [@+200s]
        HEXPIREFIELD nokey 100 FIELDS 2 a b      -> [-2, -2]
        HPTTLFIELD nokey FIELDS 2 a b            -> [-2, -2]
        HPERSISTFIELD nokey FIELDS 1 a           -> [-2]
    """)


# --- conditions


def test_nx_sets_only_where_there_is_none_and_xx_only_where_there_is_one(every: Talk) -> None:
    every("""
        ADD k a                        -> 1
        HEXPIREFIELD k a 100 XX        -> 0
        HTTLFIELD k a                  -> -1
        HEXPIREFIELD k a 100 NX        -> 1
        HEXPIREFIELD k a 200 nx        -> 0
        HTTLFIELD k a                  -> 100
        HEXPIREFIELD k a 200 xX        -> 1
        HTTLFIELD k a                  -> 200
    """)


def test_gt_and_lt_take_no_deadline_as_infinite_and_an_equal_one_as_unchanged(every: Talk) -> None:
    every("""
        ADD k a b                            -> 2
        HEXPIREATFIELD k a @+100s GT         -> 0
        HTTLFIELD k a                        -> -1
        HEXPIREATFIELD k a @+100s LT         -> 1
        HEXPIREATFIELD k a @+100s LT         -> 0
        HEXPIREATFIELD k a @+100s GT         -> 0
        HPEXPIREATFIELD k a @+100001ms GT    -> 1
        HPEXPIREATFIELD k a @+100002ms LT    -> 0
        HPEXPIREATFIELD k a @+100000ms lt    -> 1
        HPEXPIRETIMEFIELD k a                -> @+100000ms
        HPEXPIREATFIELD k @+1ms GT FIELDS 2 a b -> [0, 0]
        HEXPIREATFIELD k @+300s gT FIELDS 2 a b -> [1, 0]
        HEXPIREATFIELD k @+300s NX FIELDS 2 a b -> [0, 1]
    """)


def test_conditions_are_checked_before_a_past_deadline_deletes(every: Talk) -> None:
    every("""
        ADD k a b                            -> 2
        HEXPIREFIELD k a 0 XX                -> 0
        HEXPIREATFIELD k a @-9s GT           -> 0
        HEXPIREFIELD k a 100                 -> 1
        HEXPIREFIELD k a 0 NX                -> 0
        HEXPIREATFIELD k @-9s GT FIELDS 1 a  -> [0]
        HTTLFIELD k a                        -> 100
        HEXPIREFIELD k a 0 LT                -> 2
        HEXPIREFIELD k b 0 LT                -> 2
    """)


# --- errors, and which comes first


def test_the_wrong_type_is_said_before_anything_is_said_of_the_time(every: Talk) -> None:
    every(f"""
        SET s text                      -> OK
        HEXPIREFIELD s a x              -> {WRONGTYPE}
        HPEXPIREFIELD s a -1 ZZ         -> {WRONGTYPE}
        HEXPIREATFIELD s x FIELDS 0 a   -> {WRONGTYPE}
        HPEXPIREATFIELD s 1 WORDS 7 a   -> {WRONGTYPE}
        HTTLFIELD s a                   -> {WRONGTYPE}
        HPTTLFIELD s WORDS 1 a          -> {WRONGTYPE}
        HPERSISTFIELD s FIELDS 0 a      -> {WRONGTYPE}
        GET s                           -> "text"
    """)


def test_one_type_is_not_another(every: Talk) -> None:
    every(f"""
        ODD k a                         -> 1
        HEXPIREFIELD k a 100            -> {WRONGTYPE}
        HTTLFIELD k a                   -> {WRONGTYPE}
        HPERSISTFIELD k a               -> {WRONGTYPE}
    """)


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


def test_a_negative_time_is_refused(every: Talk) -> None:
    every("""
        ADD k a                              -> 1
        HEXPIREFIELD k a -1         -> ERR invalid expire time, must be >= 0
        HPEXPIREFIELD k -1 FIELDS 1 a -> ERR invalid expire time, must be >= 0
        HEXPIREATFIELD nokey a -9223372036854775808 -> ERR invalid expire time, must be >= 0
        HPEXPIREATFIELD k a -1 ZZ   -> ERR invalid expire time, must be >= 0
        HAS k a                     -> 1
    """)


def test_a_deadline_beyond_46_bits_is_refused_and_the_last_one_is_not(every: Talk) -> None:
    every("""
        ADD k a                                          -> 1
        HPEXPIREATFIELD k a 70368744177664  -> ERR invalid expire time in 'hpexpireatfield' command
        HEXPIREATFIELD k a 70368744178      -> ERR invalid expire time in 'hexpireatfield' command
        HPEXPIREFIELD k a 70368744177663    -> ERR invalid expire time in 'hpexpirefield' command
        hexpireField k a 9223372036854775807 -> ERR invalid expire time in 'hexpirefield' command
        HEXPIREFIELD k 70368744177 FIELDS 1 a -> ERR invalid expire time in 'hexpirefield' command
        HTTLFIELD k a                                    -> -1
        HPEXPIREATFIELD k a 70368744177663               -> 1
        HPEXPIRETIMEFIELD k a                            -> 70368744177663
        HEXPIRETIMEFIELD k a                             -> 70368744178
        HEXPIREATFIELD k a 70368744177                   -> 1
        HPEXPIRETIMEFIELD k a                            -> 70368744177000
    """)


def test_an_unknown_condition_is_named_as_it_was_spelled(every: Talk) -> None:
    every("""
        ADD k a                         -> 1
        HEXPIREFIELD k a 100 zZ         -> ERR Unsupported option zZ
        HEXPIREFIELD nokey a 100 FIELDS -> ERR Unsupported option FIELDS
        HEXPIREFIELD k a 100 ""         -> ERR Unsupported option*
        HEXPIREFIELD k a 100 NX GT      -> ERR Multiple condition flags specified
        HEXPIREFIELD k a 100 NX zZ      -> ERR Unsupported option zZ
        HEXPIREFIELD k a 100 zZ NX a b  -> ERR Unsupported option zZ
        HEXPIREFIELD k a 1x NX GT       -> ERR value is not an integer or out of range
        HEXPIREFIELD k 100 200 NX GT    -> ERR Mandatory argument FIELDS is missing*
        HTTLFIELD k a                   -> -1
    """)


def test_the_setters_long_form_has_redis_8s_errors_in_redis_8s_order(every: Talk) -> None:
    word = "ERR Mandatory argument FIELDS is missing or not at the right position"
    positive = "ERR Parameter `numFields` should be greater than 0"
    match = "ERR The `numfields` parameter must match the number of arguments"
    every(f"""
        ADD k a b                            -> 2
        HEXPIREFIELD k 100 WORDS 0 a         -> {word}
        HEXPIREFIELD k 100 ZZ FIELDS 1 a     -> {word}
        HEXPIREFIELD k 100 NX XX FIELDS 1 a  -> {word}
        HEXPIREFIELD k 100 1 FIELDS a        -> {word}
        HEXPIREFIELD k 100 FIELDS 0 a        -> {positive}
        HEXPIREFIELD k 100 FIELDS -1 a b     -> {positive}
        HEXPIREFIELD k 100 FIELDS x a        -> {positive}
        HEXPIREFIELD k 100 FIELDS 01 a       -> {positive}
        HEXPIREFIELD k 100 FIELDS 2 a        -> {match}
        HEXPIREFIELD k 100 FIELDS 1 a b      -> {match}
        HEXPIREFIELD k 100 NX FIELDS 1       -> {match}
        HEXPIREFIELD nokey 100 FIELDS 3 a b  -> {match}
        HTTLFIELD k FIELDS 2 a b             -> [-1, -1]
    """)


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


def test_names_of_commands_may_be_written_in_any_case(every: Talk) -> None:
    every("""
        ADD k a                         -> 1
        hexpirefield k a 100 nX         -> 1
        hTTLfield k fields 1 a          -> [100]
        hPersistField k a               -> 1
    """)
