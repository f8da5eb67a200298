"""A slot that is on its way to another node: a script does all, or nothing.

Redis moves the keys of a slot one by one. A script that meets an absent key of such a slot ends
there, in the middle of its work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from redis.exceptions import AskError, ResponseError, TryAgainError

from tests.cluster.slot_caller import ELSEWHERE, IN_SLOT, LATE_MS, Caller
from tests.semantics.test_command_cases import ROWS
from tests.support.cluster import Cluster
from tests.support.conversation import WORD, let_pass, unquoted
from tests.support.per_type import said_of
from tests.support.servers import Binary
from ttlproxy.commands import Call
from ttlproxy.core.keys import slot

SLOT = slot(b"{slot}")
# Which keys have moved already: of the data key and its index.
MOVED = {
    "the key has moved": ["data"],
    "nothing has moved": [],
    "the index has moved": ["index"],
    "both have moved": ["data", "index"],
}


@pytest.fixture(scope="module")
def cluster(binary: Binary) -> Iterator[Cluster]:
    with Cluster(binary) as cluster:
        yield cluster


def _words(line: str) -> list[bytes]:
    said = map(unquoted, WORD.findall(line.partition("->")[0]))
    return [IN_SLOT.get(word, word) for word in said]


def _prepare(cluster: Cluster, caller: Caller, type_: str) -> None:
    text = "ADD k a b c\nADD to z\nHEXPIREFIELD k 100 FIELDS 2 a b"
    cluster.flush()
    for line in said_of(type_, text).splitlines():
        for sent in caller.sent(_words(line)):
            assert not isinstance(cluster.nodes[0].ask(*sent), ResponseError)


@contextmanager
def _on_its_way(cluster: Cluster, caller: Caller, moved: str) -> Iterator[None]:
    """The slot is on its way, and these keys of it have arrived. Fails if content changes."""
    data = IN_SLOT[b"k"]
    names = {"data": data, "index": caller.keys.index(data)}
    cluster.open_slot(SLOT)
    try:
        if MOVED[moved]:
            cluster.carry_over(*(names[each] for each in MOVED[moved]))
        before = cluster.content()
        yield
        assert cluster.content() == before
    finally:
        cluster.take_back(SLOT)


def _is_refused(cluster: Cluster, request: Sequence[bytes]) -> bool:
    """Whether both nodes refuse the request, and say that it may be tried elsewhere or again."""
    owner, other = cluster.nodes
    replies = [owner.ask(*request), other.client.ask_many([("ASKING",), request])[1]]
    return all(isinstance(reply, AskError | TryAgainError) for reply in replies)


_CASES = [
    *((type_, "the key has moved", False) for type_ in dict.fromkeys(row[0] for row in ROWS)),
    *(("hash", moved, False) for moved in MOVED if moved != "the key has moved"),
    # Users with few rights have other scripts.
    *((type_, "the key has moved", True) for type_ in dict.fromkeys(row[0] for row in ROWS)),
]


@pytest.mark.parametrize(("type_", "moved", "careful"), _CASES)
def test_a_script_is_refused_before_it_changes_anything(
    cluster: Cluster, type_: str, moved: str, careful: bool
) -> None:
    caller = Caller(cluster.nodes[0], IN_SLOT.values(), careful)
    scripts = [*_scripts(caller, type_)]
    assert scripts
    _prepare(cluster, caller, type_)
    with _on_its_way(cluster, caller, moved):
        for script in scripts:
            assert _is_refused(cluster, script), script


def _scripts(caller: Caller, type_: str) -> Iterator[Sequence[bytes]]:
    """The first call in the rows of each script with each number of keys."""
    seen = set[tuple[bytes, bytes]]()
    for words in (_words(said) for of_type, _, said, _ in ROWS if of_type == type_):
        if words[0].decode() in ELSEWHERE:
            continue
        for request in caller.sent(words):
            if request != words and _names_keys(request) and (*request[1:3],) not in seen:
                seen.add((request[1], request[2]))
                yield request


def _names_keys(request: Sequence[bytes]) -> bool:
    return request[0] == b"EVAL" and int(request[2]) > 0


ENTRY = b"a 1 5:RPUSH%d:%b1:v" % (len(IN_SLOT[b"new"]), IN_SLOT[b"new"])
# What the link calls by itself, as it does for a key with nothing due.
OF_LINK = {
    call.script: call
    for call in (
        Call("reap", (IN_SLOT[b"k"],), (b"10", b"1000", b"*", b"", b"", b"", b"1")),
        Call("sweep", (IN_SLOT[b"k"],), (b"0", b"10")),
        Call("keys_first", (IN_SLOT[b"k"], IN_SLOT[b"to"]), ()),
        Call("keys_recheck", (IN_SLOT[b"k"], IN_SLOT[b"to"]), (b"0",)),
        Call("keys_survey", (IN_SLOT[b"k"], IN_SLOT[b"to"]), (b"1",)),
        Call("key_examine", (IN_SLOT[b"k"],), (b"1",)),
        Call("key_inspect", (IN_SLOT[b"k"],), (b"0", b"1", b"10")),
        Call("schedule_fix", (IN_SLOT[b"k"],), ()),
        Call("schedule_page", (IN_SLOT[b"k"],), (b"0", b"1", b"10")),
        Call("schedule_survey", (IN_SLOT[b"k"],), (b"1", b"1")),
        Call("schedule_clear", (IN_SLOT[b"k"],), ()),
        Call("lease_take", (IN_SLOT[b"k"],), (b"me", b"1000")),
        Call("lease_drop", (IN_SLOT[b"k"],), (b"me",)),
        Call("state_keep", (IN_SLOT[b"k"],), (b"secret", b"3", b"0.1.0")),
        Call("others_tidy", (IN_SLOT[b"k"],), ()),
        Call("deferred_examine", (IN_SLOT[b"k"],), (b"", b"", b"10")),
        Call("deferred_page", (IN_SLOT[b"k"],), (b"1", b"10")),
        Call("outbox_read", (IN_SLOT[b"nokey"],), (b"10", b"1000")),
        Call("outbox_apply", (IN_SLOT[b"new"],), (b"7", b"%d" % LATE_MS, ENTRY)),
        Call("outbox_drop", (IN_SLOT[b"nokey"],), (b"a 1",)),
    )
}


@pytest.mark.parametrize("script", OF_LINK)
def test_what_the_link_calls_runs_while_the_slot_is_here(cluster: Cluster, script: str) -> None:
    caller = Caller(cluster.nodes[0], IN_SLOT.values())
    _prepare(cluster, caller, "hash")
    request = caller.called(OF_LINK[script])
    assert not isinstance(cluster.nodes[0].ask(*request), ResponseError)


@pytest.mark.parametrize("moved", MOVED)
def test_what_the_link_calls_is_refused_as_well(cluster: Cluster, moved: str) -> None:
    caller = Caller(cluster.nodes[0], IN_SLOT.values())
    _prepare(cluster, caller, "hash")
    with _on_its_way(cluster, caller, moved):
        for call in OF_LINK.values():
            assert _is_refused(cluster, caller.called(call)), call


def test_what_is_due_is_reaped_once_the_slot_has_arrived(cluster: Cluster) -> None:
    owner, _ = cluster.nodes
    caller = Caller(owner, IN_SLOT.values())
    _prepare(cluster, caller, "hash")
    data, request = IN_SLOT[b"k"], caller.called(OF_LINK["reap"])
    (sent,) = caller.sent([b"HPEXPIREFIELD", data, b"c", b"1"])
    assert owner.ask(*sent) == 1
    let_pass(owner.client, 1)
    with _on_its_way(cluster, caller, "nothing has moved"):
        assert _is_refused(cluster, request)
    _, _, _, (removed, *_) = owner.ask(*request)
    assert removed == 1
    assert sorted(owner.ask("HKEYS", data)) == [b"a", b"b"]
