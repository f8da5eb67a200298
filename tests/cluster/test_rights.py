"""Users of a Cluster with the rights that `ttlproxy rights --cluster` prints. One who lacks a right
changes nothing there either: scripts check rights first."""

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
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.servers import Proxy
from ttlproxy.cli.main import main
from ttlproxy.core.keys import Keys
from ttlproxy.core.permissions import Rights
from ttlproxy.operations.client_rights import as_typed, rules

KEYS = Keys(clustered=True)
ALICE = rules(KEYS, [b"alice:*"])
# Replies for what is left of 100 s.
LEFT = [b":%d\r\n" % seconds for seconds in range(90, 101)]
DEFAULT = b"user default on nopass ~* &* +@all"


@pytest.fixture
def alice(node: Node, shared: Proxy) -> Iterator[Connection]:
    with ExitStack() as stack:
        admin = stack.enter_context(Connection(shared.port))
        assert admin.ask("FLUSHALL") == b"+OK\r\n"
        assert admin.ask("ACL", "SETUSER", "alice", "on", "nopass", *ALICE) == b"+OK\r\n"
        assert admin.ask("PING") == b"+PONG\r\n"  # the proxy has read the rules by now
        stack.callback(node.ask, "ACL", "DELUSER", "alice")
        client = stack.enter_context(Connection(shared.port))
        assert client.ask("AUTH", "alice", "any") == b"+OK\r\n"
        yield client


def test_she_has_deadlines_on_her_keys_in_all_slots(alice: Connection, node: Node) -> None:
    keys = [*(f"alice:{number}" for number in range(100)), "alice:{tag}"]
    for key in keys:
        assert alice.ask("HSETEX", key, "EX", 100, "FIELDS", 1, "f", "v") == b":1\r\n"
        assert alice.ask("HTTLFIELD", key, "f") in LEFT
        assert alice.ask("HSET", key, "f", "w") == b":0\r\n"
        assert alice.ask("HTTLFIELD", key, "f") == b":-1\r\n"
        assert alice.ask("HPEXPIREFIELD", key, "f", 10) == b":1\r\n"
    gone = [b":0\r\n"] * len(keys)
    wait_until(lambda: [alice.ask("HLEN", key) for key in keys] == gone, "all are gone")
    assert alice.ask("DEFER", "EX", 100, "RPUSH", "alice:q", "x").startswith(b"$")


def test_she_has_none_on_those_of_others(alice: Connection, node: Node) -> None:
    assert node.ask("HSET", "other:h", "f", "v") == 1
    assert alice.ask("HEXPIREFIELD", "other:h", "f", 100).startswith(b"-NOPERM")
    assert node.ask("KEYS", "__ttl:{*") == []


def test_her_scripts_check_no_rights_first() -> None:
    rights = Rights(internal=KEYS.beside)
    rights.suit(frozenset())
    rights.set_users([DEFAULT, b"user alice on " + b" ".join(ALICE)])
    assert rights.have_all([b"alice"])


def test_she_finds_the_one_node(alice: Connection, shared: Proxy) -> None:
    assert alice.ask("CLUSTER", "SLOTS").startswith(b"*1\r\n*3\r\n:0\r\n:16383\r\n")


def test_she_counts_keys_without_internal_ones(alice: Connection) -> None:
    assert alice.ask("HSETEX", "alice:h", "EX", 100, "FIELDS", 1, "f", "v") == b":1\r\n"
    assert alice.ask("DBSIZE") == b":1\r\n"


@pytest.mark.parametrize(
    ("words", "trusts"),
    [
        (" ".join(rule.decode() for rule in ALICE), False),
        ("~__ttl:schedule:{x1F}", False),
        ("~__ttl:schedule", False),
        ("~__ttl:*", False),
        ("%R~__ttl:*", True),
        ("~app:* ~__ttl:{???}:app:*", True),
        ("~* ~__ttl:*", True),
    ],
)
def test_a_schedule_is_trusted_unless_somebody_with_few_keys_may_write_to_one(
    words: str, trusts: bool
) -> None:
    rights = Rights()
    rights.place(KEYS.schedule + b":{", KEYS.counted, by_slot=True)
    rights.set_users([DEFAULT, f"user app on #af {words} +@all".encode()])
    assert rights.trusts_schedules is trusts


@pytest.mark.parametrize(
    ("words", "may"),
    [
        (" ".join(rule.decode() for rule in ALICE), True),
        ("~app:* ~__ttl:*", True),
        ("~app:*", False),
        ("~app:* ~__ttl:schedule:* ~__ttl:others:*", False),
    ],
)
def test_keys_are_counted_for_who_may_read_what_each_slot_has(words: str, may: bool) -> None:
    rights = Rights()
    rights.place(KEYS.schedule + b":{", KEYS.counted, by_slot=True)
    rights.set_users([DEFAULT, f"user app on #af {words} +@all".encode()])
    assert rights.may_count([b"app"]) is may


@pytest.mark.usefixtures("own_log")
def test_a_flag_of_the_subcommand_says_that_it_is_a_cluster(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for flags, keys in ((["--cluster"], KEYS), ([], Keys())):
        assert main(["rights", "--match", "alice:*", *flags]) == 0
        assert capsys.readouterr().out.strip().encode() == as_typed(keys, [b"alice:*"])


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
