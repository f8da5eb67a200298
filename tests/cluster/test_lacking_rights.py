"""A user who lacks a right changes nothing in a Cluster either: its scripts check rights first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.semantics.test_lacking_rights import (
    MANAGED,
    MORE,
    NUMBERS,
    REWRITTEN,
    Case,
    Request,
    World,
    changes_nothing,
)
from tests.support.cluster import Node
from tests.support.redis_client import Client
from tests.support.servers import Proxy
from ttlproxy.core.keys import Keys

REQUESTS = {name: [*REWRITTEN.get(name, ()), *MORE.get(name, ())] for name in {**REWRITTEN, **MORE}}
# The names of keys in these requests. A word that is no key may be renamed as well.
NAMES = ["h", "s", "z", "l", "sets", "zs", "g", "ls", "text", "new", "none", "n"]


class _SlotWorld(World):
    """All keys are in one slot."""

    keys = Keys(clustered=True)

    def words(self, line: str) -> Request:
        in_slot = [f"{{slot}}{word}" if word in NAMES else word for word in line.split()]
        return [
            self.direct.ask("DUMP", "{slot}text") if word == "DUMP" else word for word in in_slot
        ]


@pytest.fixture
def world(node: Node, shared: Proxy) -> Iterator[World]:
    with ExitStack() as stack:
        direct = stack.enter_context(Client(node.port))
        yield _SlotWorld(shared, node.port, direct, stack)


# What a Cluster adds is the same in all scripts: one on its own key, and some with two keys.
@pytest.mark.parametrize("name", ["HEXPIREFIELD", "COPY", "LMOVE", "ZUNIONSTORE"])
def test_who_lacks_a_command_of_the_script_changes_nothing(world: World, name: str) -> None:
    for request in REQUESTS[name]:
        if not request.endswith("DB 1"):
            first = ("EXPIRE s 1000",) if name == "PERSIST" else ()
            changes_nothing(world, Case((*MANAGED, *NUMBERS, *first), request))
