"""Clients that begin with HELLO, AUTH or SELECT share a connection (--share-upstream) with those in
the same state, and with nobody else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.docs.programs import asked, tool
from tests.support.containers import AnyServer
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.server_queries import having
from tests.support.servers import Proxy

Words = tuple[str | int, ...]
State = tuple[str, str, str]
OK, ECHO = b"+OK\r\n", b"$4\r\nmine\r\n"
ANNE: Words = ("HELLO", 3, "AUTH", "anne", "a")
MAINT: Words = ("CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "none")
# A beginning, and the state that it brings a connection into.
BEGINNINGS: dict[str, tuple[list[Words], State]] = {
    "hello 2": ([("HELLO", 2)], ("default", "2", "0")),
    "hello": ([("hello",)], ("default", "2", "0")),
    "hello 3": ([("HELLO", 3)], ("default", "3", "0")),
    "back": ([("HELLO", 3), ("SELECT", 1), ("HELLO", 2), ("SELECT", 0)], ("default", "2", "0")),
    "unknown version": ([("HELLO", 3), ("HELLO", 9)], ("default", "3", "0")),
    "user": ([ANNE], ("anne", "3", "0")),
    "auth": ([("AUTH", "anne", "a"), ("HELLO", 3)], ("anne", "3", "0")),
    "wrong": ([("AUTH", "anne", "wrong"), ("HELLO", 3)], ("default", "3", "0")),
    "resp2 user": ([("HELLO", 2, "SETNAME", "me", "AUTH", "anne", "a")], ("anne", "2", "0")),
    "redis-py": ([ANNE, MAINT, ("CLIENT", "SETNAME", "me"), ("SELECT", 1)], ("anne", "3", "1")),
    "no such database": ([("SELECT", 1), ("SELECT", 99)], ("default", "2", "1")),
}
beginnings = pytest.mark.parametrize(
    ("beginning", "state"), BEGINNINGS.values(), ids=BEGINNINGS.keys()
)


@dataclass
class World:
    """A proxy whose clients share, in front of a Redis with a user anne."""

    redis: int  # its port
    proxy: Proxy
    direct: Client
    ends: ExitStack

    def begun(self, beginning: Sequence[Words]) -> Connection:
        """A client that has begun like this, request by request."""
        client = self.ends.enter_context(Connection(self.proxy.port))
        for words in beginning:
            client.ask(*words)
        return client

    def ways(self, *clients: Connection) -> list[dict[str, str]]:
        """The connections over which these clients ask."""
        for client in clients:
            assert client.ask("GETBIT", "none", 1) == b":0\r\n"
        found = having(self.redis, "getbit")
        for client in clients:
            assert client.ask("ECHO", "mine") == ECHO
        return found


@pytest.fixture
def world(sharing_proxy: Proxy, server: AnyServer, direct: Client) -> Iterator[World]:
    direct.ask("ACL", "SETUSER", "anne", "on", ">a", "~*", "&*", "+@all")
    with ExitStack() as ends:
        yield World(server.port, sharing_proxy, direct, ends)
    direct.ask("ACL", "DELUSER", "anne")


def _state(row: dict[str, str], expected: State) -> State:
    """User, version of the protocol and database; before 7.0, the version is not told."""
    return row["user"], row.get("resp", expected[1]), row["db"]


@beginnings
def test_clients_in_the_same_state_share_a_connection_in_that_state(
    world: World, beginning: list[Words], state: State
) -> None:
    (row,) = world.ways(*(world.begun(beginning) for _ in range(3)))
    assert _state(row, state) == state


@beginnings
def test_all_replies_are_those_of_redis_if_all_is_sent_at_once(
    world: World, server: AnyServer, beginning: list[Words], state: State
) -> None:
    sent = [*beginning, ("HSET", "h", "f", "v"), ("HGETALL", "h"), ("CLIENT", "GETNAME")]
    data = b"".join(command(*words) for words in sent)
    told = []
    for port in (world.proxy.port, server.port):
        with Connection(port) as client:
            client.send(data)
            replies = client.read_many(len(sent))
            client.ask("DEL", "h")
            told.append([re.sub(rb"(\$2\r\nid\r\n):\d+", rb"\1", reply) for reply in replies])
    assert told[0] == told[1]


def test_all_may_be_sent_at_once_also_by_a_user_whose_rights_are_not_known_yet(
    world: World,
) -> None:
    assert world.direct.ask("ACL", "SETUSER", "new", "on", ">n", "~*", "+@all") == b"OK"
    sent = [("HELLO", 3, "AUTH", "new", "n"), ("SELECT", 1), ("SET", "k", "v"), ("GET", "k")]
    client = world.begun([])
    client.send(b"".join(command(*words) for words in sent))
    assert client.read_many(len(sent))[1:] == [OK, OK, b"$1\r\nv\r\n"]
    (row,) = world.ways(client)
    assert _state(row, ("new", "3", "1")) == ("new", "3", "1")
    assert world.direct.ask("ACL", "DELUSER", "new") == 1


def test_clients_in_different_states_do_not_share(world: World) -> None:
    world.direct.ask("HSET", "h", "f", "v")
    states = {state: beginning for beginning, state in BEGINNINGS.values()}
    clients = [world.begun(beginning) for beginning in states.values()]
    for client, (_, resp, db) in zip(clients, states, strict=True):
        assert client.ask("ECHO", "mine") == ECHO
        shape = {"2": b"*2\r\n", "3": b"%1\r\n"} if db == "0" else {"2": b"*0\r\n", "3": b"%0\r\n"}
        assert client.ask("HGETALL", "h").startswith(shape[resp])
    assert len(world.ways(*clients)) == len(states)


def test_its_own_connection_is_later_in_the_same_state(world: World) -> None:
    beginning, state = BEGINNINGS["redis-py"]
    client = world.begun(beginning)
    assert client.ask("SET", "k", "v") == OK
    assert client.ask("CLIENT", "GETNAME") == b"$2\r\nme\r\n"
    (row,) = (each for each in having(world.redis, "client") if each["name"] == "me")
    assert _state(row, state) == state
    assert client.ask("CLIENT", "TRACKING", "ON") == OK
    assert client.ask("GET", "k") == b"$1\r\nv\r\n"
    world.direct.ask_many([("SELECT", 1), ("SET", "k", "w")])
    assert client.read() == b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"


@pytest.mark.parametrize(
    "words",
    [
        ("HELLO", 3, "AUTH", "anne", "a", "SETNAME", "bad name"),
        ("HELLO", 3, "AUTH", "anne", "wrong"),
        ("HELLO", 3, "NOSUCH"),
        ("CLIENT", "TRACKING", "ON"),
        ("CLIENT", "NO-EVICT", "ON"),
        ("CLIENT", "REPLY", "ON"),
        ("READONLY",),
        ("RESET",),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_a_client_that_begins_in_another_way_keeps_its_own_connection(
    world: World, words: Words
) -> None:
    beginning: list[Words] = [("HELLO", 3)]
    sharing, other = (world.begun(beginning) for _ in range(2))
    assert len(world.ways(sharing, other)) == 1
    other.ask(*words)
    assert len(world.ways(sharing, other)) == 2


def test_a_client_that_changes_its_state_again_and_again_keeps_its_own_connection(
    world: World,
) -> None:
    client, sharing = world.begun([]), world.begun([])
    for number in range(20):
        assert client.ask("SELECT", number % 2) == OK
        assert client.ask("SET", "k", number) == OK
    replies = [client.ask(*words) for words in (("GET", "k"), ("SELECT", 0), ("GET", "k"))]
    assert replies == [b"$2\r\n19\r\n", OK, b"$2\r\n18\r\n"]
    assert len(world.ways(client, sharing)) == 2


@pytest.mark.parametrize("user", [{}, {"username": "anne", "password": "a"}], ids=["", "user"])
@pytest.mark.parametrize("protocol", [2, 3])
def test_clients_of_redis_py_share(world: World, protocol: int, user: dict[str, Any]) -> None:
    with ExitStack() as ends:
        made = (
            redis.Redis(port=world.proxy.port, protocol=protocol, db=1, **user) for _ in range(3)
        )
        clients = [ends.enter_context(closing(client)) for client in made]
        for client in clients:
            client.hset("h", mapping={"f": "v"})
            assert client.hgetall("h") == {b"f": b"v"}
        for client in clients:
            assert client.getbit("k", 1) == 0
        (row,) = having(world.redis, "getbit")
        state = (user.get("username", "default"), str(protocol), "1")
        assert _state(row, state) == state
        for client in clients:
            client.echo("mine")


def test_clients_of_ioredis_and_node_redis_share(world: World, ioredis: Path) -> None:
    with asked([tool("node"), "sharing.mjs", str(world.proxy.port)], ioredis):
        states = [_state(row, ("anne", "", "1")) for row in having(world.redis, "getbit")]
    assert sorted(states) in ([("anne", "2", "1"), ("anne", "3", "1")], [("anne", "", "1")] * 2)


@pytest.mark.slow
def test_clients_of_go_redis_share(world: World, go_sharing: Path) -> None:
    with asked([str(go_sharing / "sharing"), str(world.proxy.port)], go_sharing):
        (row,) = having(world.redis, "strlen")
    assert _state(row, ("anne", "3", "1")) == ("anne", "3", "1")
