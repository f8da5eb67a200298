"""ONEXPIRE: what happens to elements at their deadline, and where they go."""

from __future__ import annotations

import pytest

from tests.support.conversation import Talk

FILL = {
    "hash": "HSETEX k PX 20 FIELDS 2 a 1 b 2",
    "set": "SADDEX k PX 20 MEMBERS 2 a b",
    "zset": "ZADDEX k PX 20 MEMBERS 2 1.5 a 2 b",
    "list": "RPUSHEX k PX 20 ELEMENTS 2 a b",
}
# The values of these that a rule hands on: a field's value, a member's score.
VALUES = {
    "hash": ("1", "2"),
    "set": ("", ""),
    "zset": ("1.5", "2"),
    "list": ("", ""),
}


def _listed(*words: str) -> str:
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"


# --- the rules themselves


def test_a_rule_is_shown_as_it_was_given(talk: Talk) -> None:
    talk("""
        ONEXPIRE                                            -> []
        ONEXPIRE a:*                                        -> nil
        ONEXPIRE a:* lpush late                             -> OK
        ONEXPIRE a:b RPUSH late event                       -> OK
        ONEXPIRE * XADD s maxlen ~ 5 max 3 else dead        -> OK
        ONEXPIRE chan Publish c ELEMENT                     -> OK
        ONEXPIRE dict keep                                  -> OK
        ONEXPIRE a:*                                        -> ["a:*", "LPUSH", "late"]
        ONEXPIRE b                                          -> nil
        ONEXPIRE dict DEL                                   -> OK
        ONEXPIRE dict DEL                                   -> OK
        ONEXPIRE * -> ["*", "XADD", "s", "MAXLEN", "~", "5", "MAX", "3", "ELSE", "dead"]
        ONEXPIRE * XADD s MAXLEN 0                          -> OK
        ONEXPIRE -> [["chan", "PUBLISH", "c", "ELEMENT"], ["a:*", "LPUSH", "late"], \
["a:b", "RPUSH", "late", "EVENT"], ["*", "XADD", "s", "MAXLEN", "0"]]
    """)


def test_rules_are_of_one_database(talk: Talk) -> None:
    talk("""
        ONEXPIRE k KEEP                     -> OK
        SELECT 1                            -> OK
        ONEXPIRE                            -> []
        SWAPDB 0 1                          -> OK
        ONEXPIRE                            -> [["k", "KEEP"]]
        FLUSHDB                             -> OK
        ONEXPIRE                            -> []
    """)


def test_any_bytes_may_stand_in_a_rule(talk: Talk) -> None:
    talk(r"""
        ONEXPIRE "\x00\xff: *" LPUSH "3:a\r\n"      -> OK
        ONEXPIRE "" LPUSH x                         -> OK
        ONEXPIRE version KEEP                       -> OK
        ONEXPIRE "\x00\xff: *"      -> ["\x00\xff: *", "LPUSH", "3:a\x0d\x0a"]
        ONEXPIRE version DEL                        -> OK
        ONEXPIRE -> [["\x00\xff: *", "LPUSH", "3:a\x0d\x0a"], ["", "LPUSH", "x"]]
    """)


def test_an_action_that_is_none_is_named_with_those_that_there_are(talk: Talk) -> None:
    may = "It must be LPUSH, RPUSH, XADD, PUBLISH, SPUBLISH, KEEP or DEL"
    talk(rf"""
        ONEXPIRE k CALLBACK x           -> ERR unknown action 'CALLBACK'. {may}
        ONEXPIRE k callback             -> ERR unknown action 'callback'. {may}
        ONEXPIRE k ""                   -> ERR unknown action ''. {may}
        ONEXPIRE k "a\r\n-b\xff" x     -> ERR unknown action 'a  -b\xff'. {may}
        ONEXPIRE                        -> []
    """)


def test_what_is_malformed_is_refused_in_redis_own_words(talk: Talk) -> None:
    talk("""
        ONEXPIRE k LPUSH    -> ERR wrong number of arguments for 'onexpire' command
        ONEXPIRE k LPUSH dest KEY               -> ERR syntax error
        ONEXPIRE k LPUSH dest VALUE more        -> ERR syntax error
        ONEXPIRE k KEEP dest                    -> ERR syntax error
        ONEXPIRE k DEL dest                     -> ERR syntax error
        ONEXPIRE k XADD dest VALUE              -> ERR syntax error
        ONEXPIRE k XADD dest MAXLEN             -> ERR syntax error
        ONEXPIRE k XADD dest MAXLEN ~           -> ERR syntax error
        ONEXPIRE k XADD dest MAXLEN x           -> ERR value is not an integer or out of range
        ONEXPIRE k XADD dest MAXLEN -1          -> ERR The MAXLEN argument must be >= 0.
        ONEXPIRE k LPUSH dest MAX 3             -> ERR syntax error
        ONEXPIRE k LPUSH dest MAX 3 OR dead     -> ERR syntax error
        ONEXPIRE k LPUSH dest MAX x ELSE dead   -> ERR value is not an integer or out of range
        ONEXPIRE k LPUSH dest MAX 1048576 ELSE dead -> ERR value is not an integer or out of range
        ONEXPIRE k LPUSH dest MAX 0 ELSE dead   -> ERR value is out of range, must be positive
        ONEXPIRE k LPUSH k                      -> ERR the destination cannot be the key itself
        ONEXPIRE * XADD %K                      -> ERR the destination cannot be the key itself
        ONEXPIRE k LPUSH d:%1       -> ERR the pattern has no wildcard for %1 in the destination
        ONEXPIRE *:* LPUSH d MAX 1 ELSE %3 -> ERR the pattern has no wildcard for %3 in the d*
        ONEXPIRE k LPUSH __ttl:schedule     -> ERR the destination is an internal key of ttlproxy
        ONEXPIRE                                -> []
        TAKE k COUNT                            -> ERR syntax error
        TAKE k NUMBER 1                         -> ERR syntax error
        TAKE k COUNT 0                          -> ERR count should be greater than 0
        TAKE k COUNT x                          -> ERR count should be greater than 0
    """)


# --- where elements go


@pytest.mark.usefixtures("no_reaper")
@pytest.mark.parametrize(
    ("type_", "verb", "payload"),
    [
        *((type_, "RPUSH", "") for type_ in FILL),
        ("hash", "LPUSH", ""),
        *(("hash", "RPUSH", payload) for payload in ("ELEMENT", "VALUE")),
        ("zset", "LPUSH", "VALUE"),
    ],
)
def test_elements_are_pushed_in_order(talk: Talk, type_: str, verb: str, payload: str) -> None:
    wants_value = payload == "VALUE" or (type_ == "hash" and not payload)
    one, two = VALUES[type_] if wants_value else ("a", "b")
    order = (one, two) if verb == "RPUSH" else (two, one)
    talk(f"""
        ONEXPIRE k {verb} late {payload}            -> OK
        {FILL[type_]}                               -> *
        wait 20
        EXISTS k                                    -> 0
        LRANGE late 0 -1                            -> {_listed(*order)}
    """)


@pytest.mark.usefixtures("no_reaper")
def test_what_stays_is_not_handed_on(talk: Talk) -> None:
    talk("""
        ONEXPIRE k RPUSH late                       -> OK
        HSET k a 1 b 2 c 3                          -> 3
        HPEXPIREFIELD k 20 FIELDS 2 a b             -> [1, 1]
        HEXPIREFIELD k c 100                        -> 1
        wait 20
        HGETALL k                                   -> ["c", "3"]
        HDEL k c                                    -> 1
        LRANGE late 0 -1                            -> ["1", "2"]
    """)


@pytest.mark.usefixtures("no_reaper")
def test_a_key_without_a_rule_falls_due_together_with_one_that_has_one(talk: Talk) -> None:
    talk("""
        ONEXPIRE k RPUSH late                       -> OK
        SADDEX k PX 20 MEMBERS 1 a                  -> 1
        SADDEX other PX 20 MEMBERS 1 b              -> 1
        wait 20
        SUNION k other                              -> []
        LRANGE late 0 -1                            -> ["a"]
    """)


_PAST = {
    "hash": ("HSETEX k PXAT 1 FIELDS 1 a 1", 1, "HSET k b 2", "HEXPIREFIELD k b 0"),
    "set": ("SADDEX k PXAT 1 MEMBERS 1 a", 1, "SADD k b", "SEXPIREATMEMBER k b 1"),
    "zset": ("ZADDEX k EX 0 MEMBERS 1 1 a", 1, "ZADD k 2 b", "ZPEXPIREMEMBER k b 0"),
    "list": ("RPUSHEX k 0 a", 1, "RPUSH k b", "LPEXPIREATELEMENT k b 1"),
}


@pytest.mark.usefixtures("no_reaper")
@pytest.mark.parametrize("type_", FILL)
def test_a_deadline_that_is_past_when_it_comes_is_obeyed_as_well(
    talk_one_by_one: Talk, type_: str
) -> None:
    """A request that arrives late loses nothing."""
    timed, reply, written, expired = _PAST[type_]
    talk_one_by_one(f"""
        ONEXPIRE k RPUSH late ELEMENT       -> OK
        {timed}                             -> {reply}
        EXISTS k                            -> 0
        {written}                           -> 1
        {expired}                           -> 2
        EXISTS k                            -> 0
        LRANGE late 0 -1                    -> ["a", "b"]
    """)


@pytest.mark.usefixtures("no_reaper")
def test_a_rule_for_other_keys_changes_nothing_of_a_deadline_that_is_past(
    talk_one_by_one: Talk,
) -> None:
    talk_one_by_one("""
        ONEXPIRE other RPUSH late                   -> OK
        HSET k a 1 b 2 c 3                          -> 3
        HPEXPIREFIELD k 0 FIELDS 3 a a x            -> [2, -2, -2]
        HSETEX k PXAT 1 FIELDS 2 b 3 d 4            -> 1
        HGETEX k EXAT 1 FIELDS 2 c c                -> *
        EXISTS k late                               -> 0
    """)


@pytest.mark.usefixtures("no_reaper")
def test_what_is_pushed_does_not_go_with_an_equal_value_that_is_past_its_deadline(
    talk_one_by_one: Talk,
) -> None:
    """Two copies in the list are better than none: the one that was due there stays."""
    talk_one_by_one("""
        ONEXPIRE k RPUSH list               -> OK
        RPUSHEX list PX 20 ELEMENTS 1 a     -> 1
        SADDEX k PX 20 MEMBERS 1 a          -> 1
        wait 20
        SCARD k                             -> 0
        LRANGE list 0 -1                    -> ["a", "a"]
    """)


@pytest.mark.usefixtures("no_reaper")
def test_the_exact_name_wins_and_then_the_longest_pattern(talk: Talk) -> None:
    talk("""
        ONEXPIRE * RPUSH any                        -> OK
        ONEXPIRE k:* RPUSH some:%1                  -> OK
        ONEXPIRE k:a:* RPUSH other:%1:%K            -> OK
        ONEXPIRE k:a:b RPUSH one                    -> OK
        SADDEX k PX 20 MEMBERS 1 w                  -> 1
        SADDEX k:b:c PX 20 MEMBERS 1 x              -> 1
        SADDEX k:a:c PX 20 MEMBERS 1 y              -> 1
        SADDEX k:a:b PX 20 MEMBERS 1 z              -> 1
        wait 20
        EXISTS k k:b:c k:a:c k:a:b                  -> 0
        LRANGE any 0 -1                             -> ["w"]
        LRANGE some:b:c 0 -1                        -> ["x"]
        LRANGE other:c:k:a:c 0 -1                   -> ["y"]
        LRANGE one 0 -1                             -> ["z"]
        DBSIZE                                      -> 4
    """)


@pytest.mark.usefixtures("no_reaper")
def test_what_has_to_make_room_is_handed_on(talk_one_by_one: Talk) -> None:
    talk_one_by_one("""
        ONEXPIRE k RPUSH out                            -> OK
        SADDEX k MAXLEN 2 EVICT EX 100 MEMBERS 2 a b    -> 2
        SADDEX k MAXLEN 2 EVICT EX 200 MEMBERS 1 c      -> 1
        SMEMBERS k                                      -> ["b", "c"]
        LRANGE out 0 -1                                 -> ["a"]
    """)


@pytest.mark.usefixtures("no_reaper")
def test_each_of_a_list_s_equal_values_is_handed_on(talk: Talk) -> None:
    talk("""
        ONEXPIRE stock RPUSH back                       -> OK
        RPUSHEX stock PX 20 ELEMENTS 3 a b a            -> 3
        wait 20
        LLEN stock                                      -> 0
        LRANGE back 0 -1                                -> ["a", "a", "b"]
    """)


@pytest.mark.usefixtures("no_reaper")
def test_where_there_are_no_slots_an_outbox_is_not_needed(talk: Talk) -> None:
    talk("""
        ONEXPIRE k RPUSH late MAX 1 ELSE dead outbox    -> OK
        ONEXPIRE k          -> ["k", "RPUSH", "late", "MAX", "1", "ELSE", "dead", "OUTBOX"]
        SADDEX k PX 1 MEMBERS 1 a                       -> 1
        wait 20
        SCARD k                                         -> 0
        LPOP late                                       -> "a"
        SADDEX k PX 1 MEMBERS 1 a                       -> 1
        wait 20
        SCARD k                                         -> 0
        LPOP dead                                       -> "a"
        ONEXPIRE k XADD late MAXLEN = 5 OUTBOX          -> OK
        SADDEX k PX 1 MEMBERS 1 b                       -> 1
        wait 20
        SCARD k                                         -> 0
        XLEN late                                       -> 1
        DBSIZE                                          -> 1
    """)


def test_a_rule_that_is_gone_leaves_plain_deletion(talk: Talk) -> None:
    talk("""
        ONEXPIRE k RPUSH late                           -> OK
        SADDEX k EX 100 MEMBERS 1 a                     -> 1
        ONEXPIRE k DEL                                  -> OK
        SPEXPIREMEMBER k 20 MEMBERS 1 a                 -> [1]
        wait 20
        EXISTS k late                                   -> 0
    """)


@pytest.mark.usefixtures("no_reaper")
def test_kept_elements_wait_hidden_and_are_taken_once(talk: Talk) -> None:
    talk("""
        ONEXPIRE k KEEP                                 -> OK
        HSETEX k PX 20 FIELDS 3 a 1 b 2 c 3             -> 1
        wait 20
        EXISTS k                                        -> 0
        DBSIZE                                          -> 0
        KEYS *                                          -> []
        DEL k                                           -> 0
        TAKE k COUNT 2                                  -> [["a", "1", 1*
        TAKE k                                          -> [["c", "3", 1*
        TAKE k                                          -> []
        DBSIZE                                          -> 0
    """)


@pytest.mark.usefixtures("no_reaper")
def test_keys_with_a_rule_and_without_go_together(talk_one_by_one: Talk) -> None:
    talk_one_by_one("""
        ONEXPIRE k:* RPUSH late                         -> OK
        SADDEX a PX 20 MEMBERS 1 x                      -> 1
        SADDEX k:1 PX 20 MEMBERS 1 y                    -> 1
        SADDEX z PX 20 MEMBERS 1 x                      -> 1
        wait 20
        EXISTS a k:1 z                                  -> 0
        LRANGE late 0 -1                                -> ["y"]
    """)
