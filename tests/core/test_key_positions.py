"""The positions of a request's keys, according to the server's COMMAND reply."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from ttlproxy.commands import ANY_KEY, NO_KEY, ONE_KEY, READ_KEY, Router, natives
from ttlproxy.commands.spec import KNOWN

# A request, and its keys; those after the bar may be written.
REQUESTS = """
GET k                                       -> k
SET k v                                     -> | k
MGET a b c                                  -> a b c
MSET a 1 b 2                                -> | a b
DEL a b                                     -> | a b
PING k                                      ->
BLPOP a b 0                                 -> | a b
BITOP AND a b c                             -> b c | a
RENAME a b                                  -> | a b
SORT k                                      -> k
SORT k BY w* LIMIT 0 9 store a              -> k | a
SORT k GET # ALPHA STORE a STORE b          -> k | a b
GEORADIUS k 1 2 3 km                        -> k
GEORADIUS k 1 2 3 km STORE a storedist b    -> k | a b
GEORADIUSBYMEMBER k m 3 km ASC STOREDIST a  -> k | a
GEOSEARCHSTORE a k FROMLONLAT 1 2 BYRADIUS 3 km -> k | a
MIGRATE host 1 k 0 9                        -> | k
MIGRATE host 1 "" 0 9 COPY AUTH w KEYS a b  -> | a b
XREAD COUNT 2 STREAMS a b 0 0               -> a b
XREAD streams streams x 0 0                 -> streams x
XREADGROUP GROUP g c STREAMS a b > >        -> a b
EVAL return 2 a b c                         -> | a b
EVALSHA sha 0 a                             ->
ZUNIONSTORE k 2 a b WEIGHTS 1 2             -> a b | k
ZINTERSTORE k 1 a                           -> a | k
ZDIFFSTORE k 2 a b                          -> a b | k
ZUNION 2 a b WITHSCORES                     -> a b
ZINTER 1 a                                  -> a
ZDIFF 2 a b                                 -> a b
OBJECT ENCODING k                           -> k
OBJECT HELP                                 ->
MEMORY USAGE k SAMPLES 0                    -> k
MEMORY DOCTOR                               ->
XINFO STREAM k                              -> k
XGROUP CREATE k g 0 MKSTREAM                -> | k
LMOVE a b LEFT LEFT                         -> | a b
WATCH a b                                   -> a b
ZRANGESTORE a b 0 -1                        -> b | a
PFMERGE a b c                               -> b c | a
"""
SINCE_7 = """
EVAL_RO return 2 a b c                      -> a b
EVALSHA_RO sha 1 a b                        -> a
FCALL f 2 a b c                             -> | a b
FCALL_RO f 1 a b                            -> a
SINTERCARD 2 a b LIMIT 1                    -> a b
LMPOP 2 a b LEFT COUNT 3                    -> | a b
BLMPOP 0 2 a b LEFT                         -> | a b
ZMPOP 1 a MIN                               -> | a
BZMPOP 0 2 a b MAX                          -> | a b
ZINTERCARD 2 a b                            -> a b
SORT_RO k BY w* GET #                       -> k
LCS a b IDX                                 -> a b
SSUBSCRIBE channel                          ->
SPUBLISH channel m                          ->
"""
ONLY_6 = """
STRALGO LCS KEYS a b IDX                    -> a b
STRALGO LCS STRINGS a b                     ->
"""


@pytest.fixture
def rules(direct: Client) -> Router:
    return Router(natives(direct.ask("COMMAND")))


def _rows(server: AnyServer) -> Iterator[tuple[list[bytes], set[bytes], set[bytes]]]:
    """(words, keys, keys that may be written) for each request."""
    for line in (REQUESTS + (ONLY_6 if server.name == "6.2" else SINCE_7)).splitlines():
        said, _, keys = line.partition("->")
        read, _, written = keys.partition("|")
        if said:
            may_be_written = set(written.encode().split())
            words = [b"" if word == '""' else word.encode() for word in said.split()]
            yield words, may_be_written | set(read.encode().split()), may_be_written


def test_the_keys_of_a_request_are_those_that_redis_finds(
    direct: Client, server: AnyServer, rules: Router
) -> None:
    for words, keys, _ in _rows(server):
        assert set(rules.find(words[0]).keys(words)) - {b""} == keys, words
        found = direct.ask("COMMAND", "GETKEYS", *words)
        if isinstance(found, list):  # an error: it has no keys, or Redis cannot say
            assert set(found) <= keys | {b""}, words


def test_the_keys_that_a_request_may_write_are_known_if_the_server_tells(
    server: AnyServer, rules: Router
) -> None:
    for words, keys, written in _rows(server):
        found = set(rules.find(words[0]).written(words)) - {b""}
        assert written <= found <= keys, words
        if server.name != "6.2":
            assert found == written, words


def test_no_command_of_the_server_hides_its_keys(direct: Client, rules: Router) -> None:
    for native in natives(direct.ask("COMMAND")):
        for command in (native, *native.subcommands.values()):
            assert command.positions is not None, command.name
    for name in KNOWN:
        assert all(spec.step for spec in KNOWN[name])


def test_every_word_may_be_a_key_of_a_command_that_nobody_knows(rules: Router) -> None:
    rule = rules.find(b"nosuch")
    assert rule.keys([b"nosuch", b"a", b"b"]) == [b"a", b"b"]
    assert rule.written([b"nosuch", b"a", b"b"]) == [b"a", b"b"]


@pytest.mark.parametrize("count", ["-1", "x", "", "99999999999999999999", "3", "1000000000"])
def test_a_number_of_keys_that_redis_refuses_reaches_no_further_than_the_request(
    rules: Router, count: str
) -> None:
    words = [b"EVAL", b"return", count.encode(), b"a", b"b"]
    assert set(rules.find(b"eval").keys(words)) <= {b"a", b"b"}


def test_the_common_commands_need_one_look_at_most(rules: Router) -> None:
    for name, kind in {"get": READ_KEY, "SET": ONE_KEY, "HGETALL": READ_KEY, "ping": NO_KEY,
                       "TIME": NO_KEY, "mget": ANY_KEY, "OBJECT": ANY_KEY}.items():  # fmt: skip
        assert rules.passthrough[name.encode()] == kind, name
