"""A slot that is on its way to another node: a script does all, or nothing.

Redis moves the keys of a slot one by one. A script that meets an absent key of such a slot ends
there, in the middle of its work.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis.exceptions import AskError, ResponseError, TryAgainError

from tests.cluster.slot_caller import ELSEWHERE, IN_SLOT, Caller
from tests.semantics.test_command_cases import ROWS, Row
from tests.support.cluster import Cluster
from tests.support.conversation import WORD, unquoted
from tests.support.per_type import said_of
from tests.support.servers import find_binaries
from ttlproxy.core.keys import slot

BINARIES = find_binaries()
SLOT = slot(b"{slot}")
# Which keys have moved already: of the data key and its index.
MOVED = {
    "nothing has moved": [],
    "the key has moved": ["data"],
    "the index has moved": ["index"],
    "both have moved": ["data", "index"],
}


@pytest.fixture(params=BINARIES, scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(BINARIES[request.param]) as cluster:
        yield cluster


def _words(line: str) -> list[bytes]:
    said = map(unquoted, WORD.findall(line.partition("->")[0]))
    return [IN_SLOT.get(word, word) for word in said]


def _prepared(type_: str) -> list[list[bytes]]:
    text = "ADD k a b c\nADD to z\nHEXPIREFIELD k 100 FIELDS 2 a b"
    return [_words(line) for line in said_of(type_, text).splitlines()]


@pytest.mark.parametrize("moved", MOVED)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}: {row[2].split('->')[0].strip()}")
def test_a_script_is_refused_before_it_changes_anything(
    cluster: Cluster, row: Row, moved: str
) -> None:
    type_, _, said, _ = row
    words = _words(said)
    if words[0].decode() in ELSEWHERE:
        pytest.skip("not in a Cluster")
    owner, other = cluster.nodes
    caller = Caller(owner, IN_SLOT.values())
    cluster.flush()
    for request in _prepared(type_):
        for sent in caller.sent(request):
            assert not isinstance(owner.ask(*sent), ResponseError)
    data = IN_SLOT[b"k"]
    names = {"data": data, "index": caller.keys.index(data)}
    cluster.open_slot(SLOT)
    try:
        if MOVED[moved]:
            cluster.carry_over(*(names[each] for each in MOVED[moved]))
        before = cluster.content()
        for sent in caller.sent(words):
            if not sent[0].startswith(b"EVAL") or words[0] == sent[0] or int(sent[2]) == 0:
                continue
            replies = [owner.ask(*sent), other.client.ask_many([("ASKING",), sent])[1]]
            for reply in replies:
                assert isinstance(reply, AskError | TryAgainError), reply
        assert cluster.content() == before
    finally:
        cluster.take_back(SLOT)
