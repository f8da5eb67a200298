"""ONWRITE: what is moved, copied or stored gets its deadline in the same step, or soon after."""

from __future__ import annotations

import pytest

from tests.support.conversation import Talk
from tests.support.deadlines import has_ttl
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from ttlproxy.commands.router import OVERRIDES


def test_moves_in_one_of_several_databases(
    rule: Client, app: Connection, talk_one_by_one: Talk
) -> None:
    app.ask("SELECT", "1")
    app.ask("ONWRITE", "to*", "EX", "100")
    talk_one_by_one("""
        SADD from a                 -> 1
        SMOVE from to a             -> 1
        STTLMEMBER to a             -> -1
        SELECT 1                    -> OK
        SADD from a                 -> 1
        SMOVE from to a             -> 1
        STTLMEMBER to a             -> 100
    """)


FROM = ["SADD from a b", "SADD other a b c", "ZADD zs 1 a 2 b", "RPUSH ls a", "GEOADD g 1 2 a"]
SWEPT = {
    "RENAME": ("RENAME from to", "S", "a"),
    "RENAMENX": ("RENAMENX from to", "S", "a"),
    "COPY": ("COPY from to", "S", "a"),
    "SUNIONSTORE": ("SUNIONSTORE to from other", "S", "c"),
    "SINTERSTORE": ("SINTERSTORE to from other", "S", "a"),
    "SDIFFSTORE": ("SDIFFSTORE to other from", "S", "c"),
    "ZUNIONSTORE": ("ZUNIONSTORE to 1 zs", "Z", "a"),
    "ZINTERSTORE": ("ZINTERSTORE to 1 zs", "Z", "a"),
    "ZDIFFSTORE": ("ZDIFFSTORE to 2 zs none", "Z", "a"),
    "ZRANGESTORE": ("ZRANGESTORE to zs 0 -1", "Z", "a"),
    "GEOSEARCHSTORE": ("GEOSEARCHSTORE to g FROMMEMBER a BYRADIUS 9 km", "Z", "a"),
    "GEORADIUS": ("GEORADIUS g 1 2 9 km STORE to", "Z", "a"),
    "GEORADIUSBYMEMBER": ("GEORADIUSBYMEMBER g a 9 km STORE to", "Z", "a"),
    "SORT": ("SORT from ALPHA STORE to", "L", "a"),
    "BLMOVE": ("BLMOVE ls to LEFT LEFT 1", "L", "a"),
    "BRPOPLPUSH": ("BRPOPLPUSH ls to 1", "L", "a"),
    "RESTORE": ("RESTORE to 0 DUMP", "S", "a"),
    "RESTORE-ASKING": ("RESTORE-ASKING to 0 DUMP", "S", "a"),
    "EVAL": ("EVAL return(redis.call('SADD',KEYS[1],'a')) 1 to", "S", "a"),
    "EVALSHA": ("EVALSHA SHA 1 to", "S", "a"),
}
SADD = "return redis.call('SADD', KEYS[1], 'a')"
FUNCTION = """#!lua name=puts
redis.register_function('put', function(keys) return redis.call('SADD', keys[1], 'a') end)"""
OF_7_0 = {"FCALL": ("FCALL put 1 to", "S", "a")}


def tagged(line: str, tag: str) -> list[str]:
    """The words, with the tag before each key of `FROM` and `SWEPT`."""
    keys = ("from", "to", "other", "zs", "ls", "g", "none")
    return [tag + word if word in keys else word for word in line.split()]


def test_all_commands_that_put_elements_somewhere_have_their_case_here() -> None:
    words = [*[b"1"] * 5, b"STORE", b"to"]
    overrides = {name: row for name, row in OVERRIDES.items() if row.filled([b"", *words])}
    others = {"BLMOVE", "BRPOPLPUSH", "EVAL", "EVALSHA", "FCALL"}
    assert SWEPT.keys() | OF_7_0.keys() | {"MOVE"} == overrides.keys() | others


@pytest.mark.parametrize("in_multi", [False, True])
def test_what_the_writes_own_step_cannot_do_is_done_soon_after(
    rule: Client, direct: Client, app: Connection, in_multi: bool
) -> None:
    rule.ask("ONWRITE", "*:to", "EX", 100)
    sha = direct.ask("SCRIPT", "LOAD", SADD)
    has_functions = direct.ask("FUNCTION", "LOAD", "REPLACE", FUNCTION) == b"puts"
    asked = list[list[str]]()
    for name, (line, letter, element) in {**SWEPT, **(OF_7_0 if has_functions else {})}.items():
        tag = f"{name}:"
        for fill in FROM:
            app.ask(*tagged(fill, tag))
        values = {"DUMP": direct.ask("DUMP", f"{tag}from"), "SHA": sha}
        words = [values.get(word, word) for word in tagged(line, tag)]
        for request in [["MULTI"], words, ["EXEC"]] if in_multi else [words]:
            assert not app.ask(*request).startswith(b"-"), request
        noun = "ELEMENT" if letter == "L" else "MEMBER"
        asked.append([f"{letter}TTL{noun}", f"{tag}to", element])
    app.ask("PING")  # after a blocking command the sweep comes with the next request
    wait_until(
        lambda: all(app.ask(*request) != b":-1\r\n" for request in asked), "all have deadlines"
    )
    for request in asked:
        assert has_ttl(app.ask(*request), 100), request


def test_a_key_that_comes_from_another_database_gets_its_deadlines_soon_after(
    rule: Client, app: Connection
) -> None:
    app.ask("SADD", "k", "a")
    rule.ask("SELECT", 1)
    rule.ask("ONWRITE", "k", "EX", 100)
    assert app.ask("MOVE", "k", 1) == b":1\r\n"
    wait_until(lambda: rule.ask("STTLMEMBER", "k", "a") in (99, 100), "the deadline by rule")
