"""Keyspace events of elements, as Redis 7.4 and 8.8 publish them, besides Redis's own events."""

from __future__ import annotations

from collections.abc import Iterator

import hiredis
import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.containers import AnyServer
from tests.support.conversation import let_pass
from tests.support.deadlines import has_ttl
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.servers import Proxy

SETTING = "notify-keyspace-events"


class Ear:
    """A subscriber to all events; `heard` returns the new ones, without those of internal keys."""

    def __init__(self, port: int) -> None:
        self._connection = Connection(port)
        self._connection.ask("PSUBSCRIBE", "__*")

    def heard(self, speaker: Connection | Client) -> list[str]:
        """Each message as `channel payload`; `speaker` publishes the message that ends the list."""
        speaker.ask("PUBLISH", "__end", "")
        messages: list[str] = []
        while (message := self._next()) != "__end ":
            if "__ttl" not in message:
                messages.append(message)
        return messages

    def _next(self) -> str:
        reader = hiredis.Reader()
        reader.feed(self._connection.read())
        _, _, channel, payload = reader.gets()
        return f"{channel.decode()} {payload.decode()}"

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def ear(server: AnyServer, app: Connection) -> Iterator[Ear]:
    """A subscriber; before and after a test events are off."""
    app.ask("CONFIG", "SET", SETTING, "")  # through the proxy, so that it knows
    listener = Ear(server.port)
    yield listener
    listener.close()
    app.ask("CONFIG", "SET", SETTING, "")


def switch_on(client: Connection, flags: str) -> None:
    """Redis 8.8 has additional letters for the channels with subkeys."""
    subkeys = flags.replace("K", "KS").replace("E", "ET")
    if client.ask("CONFIG", "SET", SETTING, subkeys) != b"+OK\r\n":
        assert client.ask("CONFIG", "SET", SETTING, flags) == b"+OK\r\n"


def say(app: Connection, text: str) -> None:
    """Sends each part of the text as a request; Redis must accept it."""
    for line in text.split(";"):
        assert not app.ask(*line.split()).startswith(b"-"), line


# Requests before the subscription, requests during it, and their events: event, key and elements.
# Before 8.8 Redis itself names no elements.
HEARD = [
    ("HSET h a 1 b 2", "HEXPIREFIELD h a 100", ["hexpire h a"]),
    ("HSET h a 1 b 2", "HEXPIRE h 100 FIELDS 3 a zz b", ["hexpire h a b"]),
    ("HSET h a 1", "HEXPIRE h 100 XX FIELDS 1 a; HEXPIREFIELD h zz 1", []),
    ("HSET h a 1 b 2", "HEXPIREFIELD h a 0", ["hdel h"]),
    ("HSET h a 1 b 2", "HEXPIRE h 0 FIELDS 3 a b a", ["hdel h", "del h"]),
    ("HSET h a 1 b 2", "HGETEX h PXAT 1 FIELDS 2 a b", ["hdel h", "del h"]),
    ("HSET h a 1", "HPEXPIREAT h 1 FIELDS 1 a", ["hdel h", "del h"]),
    ("HSETEX h MAXLEN 2 EX 9 FIELDS 2 a 1 b 2", "HPERSIST h FIELDS 3 a zz b", ["hpersist h a b"]),
    ("HSET h a 1", "HPERSISTFIELD h a; HTTL h FIELDS 1 a", []),
    ("PING", "HSETEX h EX 9 FIELDS 2 a 1 b 2", ["hset h", "hexpire h a b"]),
    (
        "HSETEX h EX 9 FIELDS 1 a 1",
        "HSETEX h EX 99 FIELDS 2 b 1 c 1",
        ["hset h", "hexpire h b c"],
    ),
    ("SADDEX s 9 a", "SADDEX s 99 b c", ["sadd s", "sexpire s b c"]),
    ("PING", "HSETEX h EX 0 FIELDS 1 a 1", ["hset h", "hdel h", "del h"]),
    ("HSET h a 1 b 2", "HSETEX h PXAT 1 FIELDS 2 a 1 z 1", ["hset h", "hdel h"]),
    ("PING", "SADDEX s EX 0 MEMBERS 1 a", ["sadd s", "srem s", "del s"]),
    ("PING", "ZADDEX z EX 0 MEMBERS 1 1 a", ["zadd z", "zrem z", "del z"]),
    ("PING", "RPUSHEX l EX 0 ELEMENTS 1 a", ["rpush l", "lrem l", "del l"]),
    ("HSETEX h EX 9 FIELDS 1 a 1", "HSETEX h KEEPTTL FIELDS 1 a 1", ["hset h"]),
    ("HSET h a 1", "HGETEX h EX 9 FIELDS 2 a zz", ["hexpire h a"]),
    ("HSETEX h EX 9 FIELDS 1 a 1", "HGETEX h PERSIST FIELDS 2 a zz", ["hpersist h a"]),
    (
        "HSET h a 1 b 2",
        "HGETEX h EX 0 FIELDS 1 a; HGETDEL h FIELDS 1 b",
        ["hdel h"] * 2 + ["del h"],
    ),
    ("SADD s a b", "SEXPIREMEMBER s 100 MEMBERS 2 a b", ["sexpire s a b"]),
    (
        "SADD s a b",
        "EXPIREMEMBER s a 9; FIELDEXPIRE s 9 b; PERSIST s a",
        ["sexpire s a", "sexpire s b", "spersist s a"],
    ),
    ("PING", "SADDEX s 9 a b", ["sadd s", "sexpire s a b"]),
    ("SADDEX s 9 a b", "SPERSISTMEMBER s a", ["spersist s a"]),
    ("PING", "ZADDEX z CH EX 9 MEMBERS 2 1 a 2 b", ["zadd z", "zexpire z a b"]),
    ("SADD s a", "SEXPIREMEMBER s a 0", ["srem s", "del s"]),
    ("ZADD z 1 a 2 b", "ZEXPIREMEMBER z 100 MEMBERS 2 a b", ["zexpire z a b"]),
    ("ZADD z 1 a; ZEXPIREMEMBER z a 9", "ZPERSISTMEMBER z MEMBERS 2 a b", ["zpersist z a"]),
    ("ZADD z 1 a", "ZEXPIREMEMBER z a 0", ["zrem z", "del z"]),
    ("RPUSH l a b a", "LEXPIREELEMENT l 100 ELEMENTS 2 a b", ["lexpire l a b"]),
    ("RPUSH l a b; LEXPIREELEMENT l a 9", "LPERSISTELEMENT l a", ["lpersist l a"]),
    ("RPUSH l a b a", "LEXPIREELEMENT l a 0", ["lrem l"]),
]


def _keyevents(heard: list[str]) -> list[str]:
    """`event key elements` for each event that was published."""
    found: list[str] = []
    for message in heard:
        channel, _, payload = message.partition(" ")
        kind, _, event = channel.partition("@0__:")
        if kind == "__keyevent":
            found.append(f"{event} {payload}")
        else:
            assert kind == "__subkeyevent"
            key, _, elements = payload.partition("|")
            if event[1:] in ("expire", "persist", "expired"):
                assert found[-1] == f"{event} {key.partition(':')[2]}"
                words = [each.partition(":") for each in elements.split(",")]
                assert all(int(size) == len(word) for size, _, word in words)
                found[-1] += "".join(f" {word}" for _, _, word in words)
    return found


_IN_MULTI = [(before, f"MULTI; {said}; EXEC", expected) for before, said, expected in HEARD[:4]]


def test_an_event_is_named_after_what_has_befallen_which_elements(
    app: Connection, ear: Ear, plain: AnyServer
) -> None:
    switch_on(app, "EA")
    for before, said, expected in [*HEARD, *_IN_MULTI]:
        say(app, f"FLUSHALL; {before}")
        ear.heard(app)
        say(app, said)
        heard = _keyevents(ear.heard(app))
        if heard != expected:  # a server that has the commands itself may name its events otherwise
            assert heard == _published_by(plain, before, said), said


def _published_by(server: AnyServer, before: str, said: str) -> list[str] | None:
    """The events of a server without a proxy; None if it lacks a command."""
    ear = Ear(server.port)
    try:
        with Connection(server.port) as direct:
            say(direct, f"FLUSHALL; {before}")
            switch_on(direct, "EA")
            replies = [direct.ask(*line.split()) for line in said.split(";")]
            heard = _keyevents(ear.heard(direct))
            direct.ask("CONFIG", "SET", SETTING, "")
    finally:
        ear.close()
    return None if any(reply.startswith(b"-") for reply in replies) else heard


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("HPERSIST h FIELDS 1 a", ["hpersist h"]),
        ("HPERSISTFIELD h a", ["hpersist h"]),
        ("PERSIST h a", ["hpersist h"]),
        ("HGETEX h PERSIST FIELDS 1 a", ["hpersist h"]),
        ("HSETEX h FIELDS 1 a 1", ["hset h"]),
        ("HSETEX h EX 9 FIELDS 1 a 1", ["hset h", "hexpire h"]),
        ("HEXPIRE h 0 FIELDS 1 a", ["hdel h"]),
        ("HGETEX h EX 0 FIELDS 1 a", ["hdel h"]),
        ("HGETDEL h FIELDS 1 a", ["hdel h"]),
    ],
)
def test_a_deadline_that_the_server_keeps_on_a_managed_key_is_published_once(
    app: Connection, ear: Ear, direct: Client, said: str, expected: list[str]
) -> None:
    say(app, "HSET h a 1 b 2")
    if direct.ask("HEXPIRE", "h", 100, "FIELDS", 1, "a") != [1]:
        pytest.skip("this server has no deadlines for hash fields")
    say(app, "HEXPIREFIELD h b 100")
    switch_on(app, "EA")
    say(app, said)
    # Valkey does not name the elements.
    assert [" ".join(event.split()[:2]) for event in _keyevents(ear.heard(app))] == expected


def test_what_falls_due_is_expired_and_then_deleted(
    app: Connection, ear: Ear, direct: Client
) -> None:
    say(app, "HSET h a 1 b 2; SADD s m; ZADD z 0 m; RPUSH l m")
    switch_on(app, "EA")
    say(app, "HPEXPIREFIELD h a 20; SPEXPIREMEMBER s m 20")
    say(app, "ZPEXPIREMEMBER z m 20; LPEXPIREELEMENT l m 20")
    let_pass(direct, 20)
    say(app, "EXISTS h; EXISTS s; EXISTS z; EXISTS l")
    heard = _keyevents(ear.heard(app))
    of_keys = [[event for event in heard if event.split()[1] == key] for key in "hszl"]
    assert of_keys == [
        ["hexpire h a", "hexpired h a", "hdel h"],
        ["sexpire s m", "sexpired s m", "srem s", "del s"],
        ["zexpire z m", "zexpired z m", "zrem z", "del z"],
        ["lexpire l m", "lexpired l m", "lrem l", "del l"],
    ]


def test_what_falls_due_when_it_is_gone_already_is_not_said_to_expire(
    app: Connection, ear: Ear, direct: Client
) -> None:
    say(app, "HSET h a 1 b 2")
    switch_on(app, "EA")
    behind = "EVAL return(redis.call('HDEL','h','b')) 0"
    say(app, f"MULTI; HPEXPIREFIELD h 20 FIELDS 2 a b; {behind}; EXEC")
    let_pass(direct, 20)
    say(app, "EXISTS h")
    heard = ["hexpire h a b", "hdel h", "hexpired h a", "hdel h", "del h"]
    assert _keyevents(ear.heard(app)) == heard


@pytest.mark.parametrize("db", [0, 3])
def test_channels_name_database_key_and_elements_in_the_form_of_redis_8_8(
    app: Connection, ear: Ear, db: int
) -> None:
    app.ask("SELECT", db)
    app.ask("HSET", "k:1", "a,b", "1", "", "2")
    switch_on(app, "KEh")
    assert app.ask("HEXPIREFIELD", "k:1", 100, "FIELDS", 2, "a,b", "") == b"*2\r\n:1\r\n:1\r\n"
    app.ask("SELECT", 0)
    assert ear.heard(app) == [
        f"__keyspace@{db}__:k:1 hexpire",
        f"__keyevent@{db}__:hexpire k:1",
        f"__subkeyspace@{db}__:k:1 hexpire|3:a,b,0:",
        f"__subkeyevent@{db}__:hexpire 3:k:1|3:a,b,0:",
    ]


@pytest.mark.parametrize(
    ("flags", "prefixes"),
    [
        ("", []),
        ("KE", []),
        ("A", []),
        ("KEsx", []),
        ("Eh", ["__keyevent@0__:h", "__subkeyevent@0__:h"]),
        ("Kh", ["__keyspace@0__:h", "__subkeyspace@0__:h"]),
    ],
)
def test_only_what_the_setting_asks_for_is_published(
    app: Connection, ear: Ear, flags: str, prefixes: list[str]
) -> None:
    say(app, "HSET h a 1 b 2")
    switch_on(app, flags)
    say(app, "HEXPIREFIELD h a 100")
    heard = ear.heard(app)
    assert len(heard) == len(prefixes)
    assert all(map(str.startswith, heard, prefixes)), heard


def test_a_subscriber_of_the_proxy_hears_the_same(app: Connection, proxy: Proxy) -> None:
    switch_on(app, "EA")
    ear = Ear(proxy.port)
    say(app, "SADDEX s 9 a b")
    assert _keyevents(ear.heard(app)) == ["sadd s", "sexpire s a b"]
    ear.close()
    app.ask("CONFIG", "SET", SETTING, "")


def test_one_element_channels_of_redis_8_8(app: Connection, ear: Ear) -> None:
    if app.ask("CONFIG", "SET", SETTING, "IVh") != b"+OK\r\n":
        pytest.skip("this server has no letters for events with subkeys")
    say(app, "HSETEX h EX 9 FIELDS 2 a 1 b 2")
    assert [message for message in ear.heard(app) if "hexpire" in message] == [
        "__subkeyspaceitem@0__:h\na hexpire",
        "__subkeyspaceitem@0__:h\nb hexpire",
        "__subkeyspaceevent@0__:hexpire|h 1:a,1:b",
    ]


def test_a_setting_changed_behind_the_proxy_is_noticed(
    app: Connection, ear: Ear, direct: Client
) -> None:
    say(app, "HSET h a 1")

    def events() -> bool:
        say(app, "HEXPIREFIELD h a 100")
        return bool(ear.heard(app))

    direct.ask("CONFIG", "SET", SETTING, "Eh")
    wait_until(events, "the events to come")
    direct.ask("CONFIG", "SET", SETTING, "")
    wait_until(lambda: not events(), "the events to end")


def test_a_refused_setting_is_believed_no_longer_than_a_heartbeat(
    app: Connection, ear: Ear
) -> None:
    say(app, "HSET h a 1")
    assert app.ask("CONFIG", "SET", SETTING, "Eh?").startswith(b"-")

    def events() -> bool:
        say(app, "HEXPIREFIELD h a 100")
        return bool(ear.heard(app))

    wait_until(lambda: not events(), "the events to end")


def test_events_that_were_on_at_start_are_published(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server("--" + SETTING, "Eh")
    proxy = start_proxy(server.url)
    ear = Ear(server.port)
    with Connection(proxy.port) as app:
        say(app, "HSETEX h EX 9 FIELDS 1 a 1")
        assert "__keyevent@0__:hexpire h" in ear.heard(app)
    ear.close()


def test_a_user_without_the_right_to_the_channels_is_served_without_events(
    app: Connection, proxy: Proxy, ear: Ear, direct: Client
) -> None:
    switch_on(app, "Eh")
    user = ["ACL", "SETUSER", "mute", "on", "nopass", "~*", "+@all", "resetchannels"]
    assert direct.ask(*user) == b"OK"
    try:
        with Connection(proxy.port) as mute:
            assert mute.ask("AUTH", "mute", "x") == b"+OK\r\n"
            say(mute, "HSET h a 1; HEXPIREFIELD h a 100")
            assert has_ttl(mute.ask("HTTLFIELD", "h", "a"), 100)
        assert all("hset" in message for message in ear.heard(app))
    finally:
        direct.ask("ACL", "DELUSER", "mute")
