"""Clients that must log in and share connections (--share-upstream): with those who have sent the
same login, and with nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.server_queries import having
from tests.support.servers import Proxy, Server
from ttlproxy.errors import REFUSED

OK = b"+OK\r\n"
ECHO = b"$4\r\nmine\r\n"
WORD, ANNE, BERT = ("AUTH", "word"), ("AUTH", "anne", "a"), ("auth", "bert", "b")


@dataclass
class World:
    """A Redis with a password, and users of which bert may only read; clients come by a proxy."""

    redis: Server
    proxy: Proxy
    direct: Connection
    ends: ExitStack

    def client(self, *login: str) -> Connection:
        """A client that has logged in, and asked once more."""
        client = self.ends.enter_context(Connection(self.proxy.port))
        assert client.ask(*login) == OK
        assert client.ask("ECHO", "mine") == ECHO
        return client

    def echoing(self, *clients: Connection) -> dict[str, set[str]]:
        """The users of the connections over which these clients ask, and their ids."""
        for client in clients:
            assert client.ask("ECHO", "mine") == ECHO
        found: dict[str, set[str]] = {}
        for each in having(self.redis.port, "echo", "word"):
            found.setdefault(each["user"], set()).add(each["id"])
        return found


@pytest.fixture
def world(start_server: StartServer, start_proxy: StartProxy) -> Iterator[World]:
    redis = start_server("--requirepass", "word")
    url = f"redis://:word@127.0.0.1:{redis.port}"
    proxy = start_proxy(url, "--share-upstream", "1")
    with ExitStack() as ends:
        direct = ends.enter_context(Connection(redis.port))
        assert direct.ask(*WORD) == OK
        for user in (("anne", "on", ">a", "~*", "+@all"), ("bert", "on", ">b", "~*", "+@read")):
            assert direct.ask("ACL", "SETUSER", *user) == OK
        assert direct.ask("ACL", "SETUSER", "bert", "+echo", "+ping") == OK
        yield World(redis, proxy, direct, ends)


def test_clients_with_the_same_login_share_a_connection(world: World) -> None:
    clients = [world.client(*login) for login in (WORD, ANNE, BERT) for _ in range(3)]
    found = world.echoing(*clients)
    assert {user: len(ids) for user, ids in found.items()} == {"default": 1, "anne": 1, "bert": 1}


def test_each_has_its_own_users_rights_also_later_on_its_own_connection(world: World) -> None:
    anne, bert, other = (world.client(*login) for login in (ANNE, BERT, BERT))
    assert world.echoing(anne, bert, other)["bert"]
    assert anne.ask("SADDEX", "s", 100, "m") == b":1\r\n"
    assert bert.ask("SMEMBERS", "s") == b"*1\r\n$1\r\nm\r\n"
    refused = bert.ask("SADD", "s", "n")
    assert refused.startswith(b"-NOPERM ")
    assert bert.ask("CLIENT", "SETNAME", "b").startswith(b"-NOPERM ")
    assert other.ask("ACL", "WHOAMI").startswith(b"-NOPERM ")
    assert other.ask("SADD", "s", "n") == refused
    assert anne.ask("MULTI") == OK
    assert anne.ask("ACL", "WHOAMI") == b"+QUEUED\r\n"
    assert anne.ask("EXEC") == b"*1\r\n$4\r\nanne\r\n"


def test_a_client_without_a_login_or_with_a_wrong_one_shares_with_nobody(world: World) -> None:
    with Connection(world.proxy.port) as client:
        assert client.ask("GET", "k").startswith(b"-NOAUTH ")
        assert client.ask("AUTH", "wrong").startswith(b"-WRONGPASS ")
        assert client.ask("GET", "k").startswith(b"-NOAUTH ")
        assert client.ask(*ANNE) == OK
        assert client.ask("AUTH", "anne", "wrong").startswith(b"-WRONGPASS ")
        assert client.ask("ACL", "WHOAMI") == b"$4\r\nanne\r\n"
    first = world.client(*ANNE)
    with Connection(world.proxy.port) as client:
        client.send(command("AUTH", "anne", "wrong") + command("GET", "k") + command(*ANNE))
        wrong, unknown, right = client.read_many(3)
        assert (wrong[:11], unknown[:8], right) == (b"-WRONGPASS ", b"-NOAUTH ", OK)
        assert len(world.echoing(first, client)["anne"]) == 1


def test_login_and_requests_may_come_in_one_chunk(world: World) -> None:
    with Connection(world.proxy.port) as client:
        requests = [ANNE, ("CLIENT", "SETINFO", "LIB-NAME", "x"), ("SET", "k", "v"), ("GET", "k")]
        client.send(b"".join(command(*words) for words in requests))
        assert client.read_many(4)[2:] == [OK, b"$1\r\nv\r\n"]
        assert client.ask("SELECT", 1) == OK
        assert client.ask("GET", "k") == b"$-1\r\n"


def test_a_new_password_ends_nobody_until_another_connection_is_needed(world: World) -> None:
    """Redis itself lets those stay who have logged in before."""
    one, other = world.client(*ANNE), world.client(*ANNE)
    assert world.direct.ask("ACL", "SETUSER", "anne", "resetpass", ">new") == OK
    shared = world.echoing(one, other)["anne"]
    assert len(shared) == 1
    one.send(command("SELECT", 1))
    assert one.read_to_end() == REFUSED
    with Connection(world.proxy.port) as late:
        assert late.ask(*ANNE).startswith(b"-WRONGPASS ")
        assert late.ask("AUTH", "anne", "new") == OK
        assert late.ask("ECHO", "mine") == ECHO
        assert world.echoing(other)["anne"] > shared  # and the one of the new password


def test_once_a_password_is_set_clients_without_one_do_not_get_in(world: World) -> None:
    """Those who are there stay, as in front of Redis; by their connection nobody else comes in."""
    assert world.direct.ask("CONFIG", "SET", "requirepass", "") == OK

    def is_let_in() -> bool:
        with Connection(world.proxy.port) as client:
            return client.ask("ECHO", "mine") == ECHO

    wait_until(is_let_in, "clients without a password", 5)
    with Connection(world.proxy.port) as early:
        assert early.ask("ECHO", "mine") == ECHO
        assert world.direct.ask("CONFIG", "SET", "requirepass", "word") == OK
        wait_until(lambda: not is_let_in(), "the end of that", 5)
        assert early.ask("ECHO", "mine") == ECHO


def test_the_connections_of_a_user_that_is_removed_end(world: World) -> None:
    anne, bert = world.client(*ANNE), world.client(*BERT)
    assert world.direct.ask("ACL", "DELUSER", "anne") == b":1\r\n"
    anne.send(command("GET", "k"))
    assert anne.read_to_end() == b""
    assert world.echoing(bert).keys() == {"bert"}


def test_with_a_login_too_many_a_client_keeps_its_own_connection(world: World) -> None:
    users = [f"user{number}" for number in range(66)]
    for user in users:
        assert world.direct.ask("ACL", "SETUSER", user, "on", ">p", "~*", "+@all") == OK
    clients = [world.client("AUTH", user, "p") for user in users]
    found = world.echoing(*clients)
    assert {user: len(ids) for user, ids in found.items()} == dict.fromkeys(users, 1)
    clients[0].close()

    def share() -> bool:
        """Beside the first one's own connection there is one for both."""
        with world.client("AUTH", users[65], "p") as one, world.client("AUTH", users[65], "p"):
            return len(world.echoing(one)[users[65]]) == 2

    wait_until(share, "there is room for another login")
