"""Requests that may have changed shared state: how far they are believed, and until when."""

from __future__ import annotations

import pytest

from tests.support.session_world import KEYS, NOW_MS, World, read_registry
from ttlproxy.core.registry import UNKNOWN, Registry
from ttlproxy.scripts import Scripts, Traits
from ttlproxy.scripts.unconfirmed import Events, Flush, Swap, UnconfirmedChanges


@pytest.fixture
def scripts() -> Scripts:
    scripts = Scripts(b"__ttl:")
    scripts.suit(Traits(events="hKS"))
    scripts.loaded = True
    return scripts


@pytest.fixture
def unconfirmed(scripts: Scripts) -> UnconfirmedChanges:
    return UnconfirmedChanges(scripts)


def test_events_that_may_be_asked_for_are_published_and_none_is_left_out(
    scripts: Scripts, unconfirmed: UnconfirmedChanges
) -> None:
    doubts = scripts.doubts
    unconfirmed.note(Events(""), Registry())
    assert scripts.doubts == doubts + 1, "what the link has asked for already tells nothing"
    assert scripts.traits.events == "hKS"
    assert scripts.loaded
    assert not unconfirmed.were_wrong(False), "it has cost nothing"
    unconfirmed.note(Events("Elz"), Registry())
    assert scripts.traits.events == "hzlKEST"
    assert not scripts.loaded
    assert unconfirmed.were_wrong(False)


def test_a_flush_that_was_believed_and_has_not_come_is_taken_back(
    scripts: Scripts, unconfirmed: UnconfirmedChanges
) -> None:
    unconfirmed.note(Flush(), Registry())
    assert not scripts.loaded
    assert not unconfirmed.were_wrong(True)
    scripts.loaded = True
    unconfirmed.note(Flush(), Registry())
    assert unconfirmed.were_wrong(False)
    scripts.loaded = True
    unconfirmed.note(Flush(), Registry())
    unconfirmed.note(Events("KEA"), Registry())
    assert scripts.loaded
    assert not unconfirmed.were_wrong(False), "nothing was believed"


def test_after_a_swap_that_may_be_refused_any_key_may_be_due(
    unconfirmed: UnconfirmedChanges,
) -> None:
    registry = read_registry()
    registry.announced(7, b"x", NOW_MS)
    unconfirmed.note(Swap(0, 7), registry)
    assert registry.until_ms == UNKNOWN
    assert registry.bounds(7) == {}
    assert [registry.view((db,)).names[b"x"] for db in (0, 7)] == [UNKNOWN] * 2
    unconfirmed.sent()
    assert [unconfirmed.wants_reading() for _ in range(2)] == [True, True], "it may still come"
    unconfirmed.answered()
    assert [unconfirmed.wants_reading() for _ in range(2)] == [True, False]


def test_an_answer_on_its_way_when_databases_may_be_swapped_is_not_believed(
    unconfirmed: UnconfirmedChanges,
) -> None:
    registry = read_registry()
    registry.populate([7])
    for overtakes in (True, False):
        registry.beat(NOW_MS)
        registry.begin_reap((7, b"x"))
        if overtakes:
            unconfirmed.note(Swap(0, 7), registry)
        registry.set_first_deadline((7, b"x"), None)
        registry.end_reap((7, b"x"))
        assert (b"x" in registry.bounds(7)) is not overtakes


@pytest.mark.parametrize(
    "request_",
    [
        "SCRIPT FLUSH x",
        "SCRIPT FLUSH SYNC x",
        "SCRIPT EXISTS x",
        "CONFIG SET maxmemory 0",
        "CONFIG GET notify-keyspace-events",
        "CONFIG SET notify-keyspace-events",
    ],
)
def test_a_change_that_redis_refuses_needs_no_look(request_: str) -> None:
    world = World()
    assert world.take(_request(request_))
    assert not world.step.look
    assert world.scripts.loaded


@pytest.mark.parametrize("request_", ["SCRIPT FLUSH", "script flush async", "SCRIPT FLUSH SYNC"])
def test_requests_behind_an_unconfirmed_change_wait_for_a_look(request_: str) -> None:
    world, change, behind = World(), _request(request_), _request("GET k")
    assert world.take(change + behind) == change
    assert world.step.look
    assert world.step.pauses
    assert world.step.withheld == behind


def test_a_change_in_a_transaction_counts_when_that_is_carried_out() -> None:
    world = World()
    world.take(_request("MULTI") + _request("CONFIG SET notify-keyspace-events KEA"))
    assert not world.step.look
    world.take(_request("EXEC"))
    assert world.step.look
    assert world.scripts.traits.events
    world.scripts.suit(Traits())


@pytest.mark.parametrize(
    ("requests", "in_multi"),
    [
        ("MULTI x", False),
        ("MULTI", True),
        ("MULTI;DISCARD x", True),
        ("MULTI;DISCARD", False),
        ("MULTI;EXEC x", False),  # Redis aborts it
        ("MULTI;RESET x", True),
        ("MULTI;RESET", False),
        ("MULTI;MULTI", True),
    ],
)
def test_a_transaction_is_one_as_redis_has_it(requests: str, in_multi: bool) -> None:
    world = World()
    for request in requests.split(";"):
        world.take(_request(request))
    assert (world.session.transaction is not None) == in_multi


@pytest.mark.parametrize(
    ("requests", "silent"),
    [
        ("CLIENT REPLY OFF", True),
        ("client reply skip", True),
        ("CLIENT REPLY x", False),
        ("CLIENT REPLY OFF x", False),
        ("CLIENT REPLY OFF;CLIENT REPLY ON", False),
        ("CLIENT REPLY OFF;RESET", False),
        ("CLIENT REPLY OFF;CLIENT REPLY x", True),
        ("CLIENT REPLY OFF;MULTI;CLIENT REPLY ON", True),
        ("CLIENT REPLY OFF;SUBSCRIBE c;CLIENT REPLY ON", True),
        ("CLIENT REPLY OFF;SUBSCRIBE c;RESET", True),
    ],
)
def test_a_client_is_silent_as_long_as_it_may_be(requests: str, silent: bool) -> None:
    world = World()
    for request in requests.split(";"):
        world.take(_request(request))
    assert world.session.silent == silent


def test_a_watch_names_the_index_wherever_it_stands() -> None:
    world = World()
    for requests in (["WATCH k"], ["MULTI", "WATCH k"]):
        sent = world.say(*requests)
        assert sent[-1] == [b"WATCH", b"k", KEYS.index(b"k")]


def test_keys_that_a_transaction_may_change_are_swept_at_once_and_when_it_is_carried_out() -> None:
    world = World()
    world.registry.announced(0, b"h", NOW_MS + 9)
    for requests in (["MULTI", "APPEND h v"], ["EXEC"]):
        world.say(*requests)
        assert world.step.sweep_after == {b"h"}


def _request(line: str) -> bytes:
    words = line.encode().split()
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)
