"""Writes that are one call, where nobody knows whether something is due: the call ends before the
first key in which something is, and the client gets what it would get one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import StartProxy, StartServer
from tests.support.containers import AnyServer
from tests.support.deadlines import give_one_of_all
from tests.support.raw_client import Connection
from tests.support.redis_client import Client, Word
from tests.support.server_queries import monitored, until_called_by_digest
from tests.support.servers import Proxy
from ttlproxy.core.keys import Keys
from ttlproxy.scripts import Scripts

KEYS = Keys()
FAR_MS = 4_000_000_000_000
TYPES = ("set", "hash", "zset", "list")
# Of each type: what stores an element, and what reads all of them.
STORES: dict[str, tuple[Word, ...]] = {
    "set": ("SADD", "{}", "m"),
    "hash": ("HSET", "{}", "m", "v"),
    "zset": ("ZADD", "{}", 1, "m"),
    "list": ("RPUSH", "{}", "m"),
}
READS: dict[str, tuple[Word, ...]] = {
    "set": ("SMEMBERS", "{}"),
    "hash": ("HGETALL", "{}"),
    "zset": ("ZRANGE", "{}", 0, -1, "WITHSCORES"),
    "list": ("LRANGE", "{}", 0, -1),
}
# Requests that need one script each; their replies tell whether what is due was there.
WRITES: Sequence[tuple[str, tuple[Word, ...]]] = (
    ("set", ("SADD", "{}", "m", "n")),
    ("set", ("SREM", "{}", "m")),
    ("set", ("SADDEX", "{}", 1000, "m")),
    ("hash", ("HSET", "{}", "m", "w")),
    ("hash", ("HSETEX", "{}", "EX", 1000, "FIELDS", 1, "m", "w")),
    ("zset", ("ZADD", "{}", 2, "m")),
    ("zset", ("ZINCRBY", "{}", 5, "m")),
    ("list", ("RPUSH", "{}", "n")),
    ("list", ("LPOP", "{}")),
)
COUNT = 9


def _for(words: Sequence[Word], key: str) -> tuple[Word, ...]:
    return tuple(key if word == "{}" else word for word in words)


@pytest.fixture
def own(start_server: StartServer) -> AnyServer:
    """Nobody reaps there by himself, and each key may have deadlines."""
    server = start_server()
    with Client(server.port) as direct:
        give_one_of_all(direct)
        direct.ask("SET", KEYS.lease, "a test", "PX", 600_000)
    return server


@pytest.fixture
def direct(own: AnyServer) -> Iterator[Client]:
    with Client(own.port) as client:
        yield client


@pytest.fixture
def proxy(own: AnyServer, start_proxy: StartProxy) -> Proxy:
    """It calls scripts by their digests: else no requests become one call."""
    proxy = start_proxy(own.url, asks=True)
    with Client(proxy.port) as client, Connection(proxy.port) as caller:
        client.ask("SADDEX", "first", 1000, "m")
        until_called_by_digest(own.port, caller)
    return proxy


@pytest.fixture
def client(proxy: Proxy) -> Iterator[Client]:
    with Client(proxy.port) as client:
        yield client


def _fall_due(direct: Client, key: str, element: str = "m") -> None:
    direct.ask("ZADD", KEYS.index(key.encode()), 1, element)
    direct.ask("ZADD", KEYS.schedule, 1, key)


def _content(direct: Client, kind: str, keys: Sequence[str]) -> list[object]:
    """What the keys hold, and which of their elements have a deadline."""
    found: list[object] = []
    for key in keys:
        found.append(repr(direct.ask(*_for(READS[kind], key))))
        found.append(direct.ask("ZRANGE", KEYS.index(key.encode()), 0, -1))
    return found


# --- the script


class Call:
    """Calls a script for several keys, as a proxy does that knows of none whether it is due."""

    def __init__(self, direct: Client) -> None:
        self._direct = direct

    def __call__(self, keys: Sequence[str], schedule: bytes = KEYS.schedule) -> list[object]:
        names = [name for key in keys for name in (key.encode(), KEYS.index(key.encode()))]
        words: list[Word] = [schedule, *names, schedule, *(1, "m") * len(keys)]
        text = Scripts(KEYS.prefix)["set_add"].text
        return list(self._direct.ask("EVAL", text, len(names) + 2, *words))


@pytest.fixture
def call(direct: Client) -> Call:
    return Call(direct)


@pytest.mark.parametrize("at", [None, 0, 1, 2])
def test_a_call_ends_before_the_first_key_in_which_something_is_due(
    call: Call, direct: Client, at: int | None
) -> None:
    keys = ["a", "b", "c"]
    for key in keys:
        direct.ask("ZADD", KEYS.schedule, FAR_MS, key)
    if at is not None:
        direct.ask("ZADD", KEYS.schedule, direct.now_ms() - 1, keys[at])
    done = 3 if at is None else at
    assert call(keys) == [1] * done
    assert [direct.ask("EXISTS", key) for key in keys] == [1] * done + [0] * (3 - done)


def test_a_key_that_the_schedule_lacks_ends_no_call(call: Call, direct: Client) -> None:
    assert call(["a"]) == [1]
    direct.ask("ZADD", KEYS.schedule, "+inf", "b")
    assert call(["a", "b", "c", "b"]) == [0, 1, 1, 0]
    direct.ask("ZADD", KEYS.schedule, "-inf", "b")
    assert call(["a", "b"]) == [0]


def test_a_call_does_nothing_where_something_else_is_in_the_place_of_the_schedule(
    call: Call, direct: Client
) -> None:
    direct.ask("SET", "junk", "x")
    assert call(["a", "b"], b"junk") == []
    assert direct.ask("EXISTS", "a", "b") == 0


def test_an_error_of_one_request_ends_no_call(call: Call, direct: Client) -> None:
    direct.ask("SET", "b", "no set")
    _fall_due(direct, "d")
    first, refused, third = call(["a", "b", "c", "d", "e"])
    assert (first, third) == (1, 1)
    assert str(refused).startswith("WRONGTYPE")


# --- through a proxy


def _set_up(client: Client, direct: Client, space: str, kind: str, due: int) -> list[str]:
    """Keys with an element, which has a deadline in every third of them; one falls due. The fourth
    is of another type."""
    keys = [f"{space}:{number}" for number in range(COUNT)]
    client.ask_many([("DEL", key) for key in keys])
    client.ask_many([_for(STORES[kind], key) for key in keys])
    for key in keys[::3]:
        direct.ask("ZADD", KEYS.index(key.encode()), FAR_MS, "m")
        direct.ask("ZADD", KEYS.schedule, FAR_MS, key)
    _fall_due(direct, keys[due])
    other = keys[3 if due != 3 else 4]
    direct.ask("DEL", other, KEYS.index(other.encode()))
    direct.ask("ZREM", KEYS.schedule, other)
    direct.ask("SET", other, "of another type")
    return keys


def test_requests_behind_something_due_do_what_they_do_one_by_one(
    own: AnyServer, client: Client, direct: Client
) -> None:
    """Whether it is in the first key, the last or between. Also those that Redis refuses, in their
    places."""
    stops = b'"%d" "%b" "one:0"' % (2 * COUNT + 2, KEYS.schedule)
    # A server that has HSETEX may carry it out itself, so there it is no call that can stop.
    left_out = () if direct.ask("COMMAND", "INFO", "HSETEX") == [None] else ("HSETEX",)
    writes = [(kind, words) for kind, words in WRITES if words[0] not in left_out]
    for (kind, words), due in product(writes, (0, COUNT // 2, COUNT - 1)):
        together, alone = (_set_up(client, direct, space, kind, due) for space in ("one", "other"))
        with Connection(own.port) as monitor:
            monitor.ask("MONITOR")
            replies = list(map(str, client.ask_many([_for(words, key) for key in together])))
            client.ask("ECHO", "that was all")
            seen = monitored(monitor, b'"ECHO"')
        assert sum(stops in line for line in seen) == 1, words
        client.ask(*_for(READS[kind], alone[due]))  # it waits for a reap
        assert replies == [str(client.ask(*_for(words, key))) for key in alone], words
        assert sum("wrong kind of value" in reply for reply in replies) == 1, words
        assert _content(direct, kind, together) == _content(direct, kind, alone), words


# --- any requests


class Model:
    """Sets whose members may have a deadline.

    dated: those that have one
    """

    def __init__(self) -> None:
        self.sets: dict[str, set[str]] = {}
        self.dated: dict[str, set[str]] = {}

    def ask(self, name: str, key: str, member: str) -> object:
        members, dated = self.sets.setdefault(key, set()), self.dated.setdefault(key, set())
        was_there = member in members
        if name in ("SADD", "SADDEX"):
            members.add(member)
            dated.add(member) if name == "SADDEX" else dated.discard(member)
            return int(not was_there)
        if name == "SREM":
            members.discard(member)
            dated.discard(member)
        return len(members) if name == "SCARD" else int(was_there)

    def pass_(self, key: str) -> None:
        """The deadlines of a key's members pass."""
        dated = self.dated.pop(key, set())
        self.sets.setdefault(key, set()).difference_update(dated)


_names = st.sampled_from(["SADD", "SADDEX", "SREM", "SISMEMBER", "SCARD"])
_requests = st.tuples(_names, st.sampled_from(["a", "b", "c", "d"]), st.sampled_from(["m", "n"]))
# Mostly the same command several times: a chunk may be one call.
_runs = st.lists(_requests, min_size=1, max_size=4) | st.tuples(
    _names, st.lists(_requests, min_size=1, max_size=6)
).map(lambda run: [(run[0], *words[1:]) for words in run[1]])
_passes = st.sets(st.sampled_from(["a", "b", "c", "d"]), max_size=2)


def _words(name: str, key: str, member: str) -> tuple[Word, ...]:
    if name == "SADDEX":
        return (name, key, "PXAT", FAR_MS, "MEMBERS", 1, member)
    return (name, key) if name == "SCARD" else (name, key, member)


def test_any_requests_are_answered_as_if_what_is_due_were_gone(
    proxy: Proxy, direct: Client
) -> None:
    """Of two clients, in whichever chunks, whatever falls due between them."""
    with Client(proxy.port) as one, Client(proxy.port) as other:

        @given(st.lists(st.tuples(st.booleans(), _runs, _passes), min_size=1, max_size=8))
        def alike(chunks: list[tuple[bool, list[tuple[str, str, str]], set[str]]]) -> None:
            one.ask("DEL", "a", "b", "c", "d")
            model = Model()
            for is_first, run, passing in chunks:
                for key in passing:
                    if model.dated.get(key):
                        for member in model.dated[key]:
                            _fall_due(direct, key, member)
                    model.pass_(key)
                client = one if is_first else other
                replies = client.ask_many([_words(*request) for request in run])
                assert replies == [model.ask(*request) for request in run]
            for key, members in model.sets.items():
                assert {member.decode() for member in one.ask("SMEMBERS", key)} == members

        alike()
