"""Of a client whose requests may not become scripts it is asked whether its keys have deadlines."""

from __future__ import annotations

import pytest

from tests.support.session_world import World
from ttlproxy.wire import Requests, encode

HSET = encode((b"HSET", b"h1", b"f", b"v"))
PING = encode((b"PING",))
BARRED = [b"user default on nopass ~* +@all -eval"]


@pytest.fixture
def world() -> World:
    """One with a family, whose client may run no scripts."""
    world = World()
    world.registry.families.add([b"h"])
    world.rights.set_users(BARRED)
    return world


def _told(world: World, chunk: bytes, *indexed: bytes) -> tuple[list[bytes], list[list[bytes]]]:
    """What Redis reads, by its first words, and which keys are asked for each time, if the keys
    `indexed` have an index."""
    sent, asked = b"", list[list[bytes]]()
    while chunk:
        sent += world.take(chunk)
        chunk = world.step.withheld
        if world.step.asks:
            asked.append(sorted(key for _, key in world.step.asks))
            assert len(asked) < 10, "it is asked for ever"
            world.session.indexed = {key: key in indexed for _, key in world.step.asks}
    return [words[0] for words in Requests().feed(sent)], asked


def test_a_write_on_a_key_of_a_known_family_is_withheld_until_it_is_known(world: World) -> None:
    assert world.take(PING + HSET + PING) == PING
    assert world.step.asks == [(0, b"h1")]
    assert world.step.withheld == HSET + PING
    assert world.step.requests == 1
    assert world.step.pauses
    assert not world.step.is_held


def test_without_an_index_it_goes_as_it_came(world: World) -> None:
    world.take(HSET)
    world.session.indexed = {b"h1": False}
    assert world.take(HSET) == HSET
    assert not world.step.asks
    assert not world.step.withheld


def test_with_an_index_it_becomes_a_script_call(world: World) -> None:
    world.take(HSET)
    world.session.indexed = {b"h1": True}
    ((name, *_),) = Requests().feed(world.take(HSET))
    assert name == b"EVALSHA", "which Redis refuses"
    assert not world.step.asks


def test_the_answer_counts_for_one_chunk(world: World) -> None:
    for _ in range(2):
        assert world.take(HSET) == b""
        assert world.step.asks == [(0, b"h1")]
        world.session.indexed = {b"h1": False}
        assert world.take(HSET + HSET) == HSET * 2


@pytest.mark.parametrize("request_", ["HSET other f v", "DEL a b", "SISMEMBER h1 m", "APPEND h1 v"])
def test_other_keys_and_requests_that_no_script_replaces_are_never_asked_for(
    world: World, request_: str
) -> None:
    assert world.say(request_) == [request_.encode().split()]
    assert not world.step.asks


def test_a_client_that_may_run_scripts_is_not_asked_for(world: World) -> None:
    world.rights.set_users([b"user default on nopass ~* +@all"])
    assert world.names("HSET h1 f v") == [b"EVALSHA"]
    assert not world.step.asks


def test_a_client_that_may_not_read_indexes_is_asked_for(world: World) -> None:
    selector = b"(~h* +@all)"  # so it is not known whether it has all rights
    world.rights.set_users([b"user default on nopass ~h* +@all " + selector])
    assert _told(world, HSET) == ([b"HSET"], [[b"h1"]])


@pytest.mark.parametrize(("has_index", "name"), [(False, b"HSET"), (True, b"EVAL")])
def test_in_a_transaction_it_is_the_same(world: World, has_index: bool, name: bytes) -> None:
    chunk = encode((b"MULTI",)) + HSET + encode((b"EXEC",))
    sent, asked = _told(world, chunk, *[b"h1"] * has_index)
    assert [each for each in sent if each != b"ZREM"] == [b"MULTI", name, b"EXEC"]
    assert asked == [[b"h1"]]


def test_it_is_asked_in_each_database_that_the_client_may_be_in(world: World) -> None:
    world.say("SELECT 3")
    world.take(HSET)
    assert sorted(world.step.asks) == [(0, b"h1"), (3, b"h1")]


def test_each_request_is_asked_for_with_all_its_keys(world: World) -> None:
    """Also where one of them was asked for already, and another is of no family."""
    requests = (("HSET", "h1", "f", "v"), ("DEL", "h1", "other", "h2"), ("DEL", "h2"))
    chunk = b"".join(encode(tuple(map(str.encode, words))) for words in requests)
    assert _told(world, chunk) == ([b"HSET", b"DEL", b"DEL"], [[b"h1"], [b"h1", b"h2"]])
    names, _ = _told(world, chunk, b"h2")
    assert names == [b"HSET", b"EVALSHA", b"EVALSHA"]
