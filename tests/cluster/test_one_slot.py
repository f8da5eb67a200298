"""Every command does in a Cluster's slot what it does before one server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.slot_caller import ELSEWHERE, IN_SLOT, PREFIX, Caller
from tests.semantics.test_command_cases import ROWS, Row, has_command, look
from tests.support.cluster import Cluster, Node
from tests.support.conversation import WORD, hold
from tests.support.per_type import said_of
from tests.support.raw_client import Connection
from tests.support.servers import find_binaries, release
from ttlproxy.core.keys import Keys

BINARIES = find_binaries()


@pytest.fixture(params=BINARIES, scope="module")
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    with Cluster(BINARIES[request.param]) as cluster:
        yield cluster.nodes[0]


class _SlotConnection(Connection):
    """Sends what a proxy would make of each request; the keys of the rows are in one slot."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.port)
        self._caller = Caller(node, IN_SLOT.values())

    def ask(self, *words: bytes | str | int) -> bytes:
        encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        (sent,) = self._caller.sent([IN_SLOT.get(word, word) for word in encoded])
        reply = super().ask(*sent)
        for name, named in IN_SLOT.items():
            reply = reply.replace(_bulk(named), _bulk(name))
        return reply


def _bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}: {row[2].split('->')[0].strip()}")
def test_a_command_leaves_the_deadlines_that_it_should(node: Node, row: Row) -> None:
    type_, since, said, left = row
    if WORD.findall(said)[0] in ELSEWHERE:
        pytest.skip("not in a Cluster")
    if not (has_command(node, said) if since is None else release(node.name) >= since):
        pytest.skip("the server lacks the command")
    node.ask("FLUSHALL")
    text = f"""
        ADD k a b c                     -> 3
        ADD to z                        -> 1
        HEXPIREFIELD k 100 FIELDS 2 a b -> [1, 1]
        wait 0
        {said}
        wait 0
        """
    with _SlotConnection(node) as app:
        hold(app, node.client, said_of(type_, text) + "".join(look(type_, each) for each in left))
    assert _faults(node) == []


def _faults(node: Node) -> list[bytes]:
    """Keys that have an index and no place in the slot's schedule, or the other way round."""
    keys = Keys(PREFIX)
    keys.clustered = True
    names = {*node.ask("KEYS", "*")}
    schedule = keys.shared_by(IN_SLOT[b"k"], keys.schedule)
    scheduled = {*node.ask("ZRANGE", schedule, 0, -1)}
    return sorted({key for name in names if (key := keys.data(name)) is not None} ^ scheduled)
