"""Clients that log in, have not logged in yet, or may not run scripts."""

from __future__ import annotations

import pytest

from tests.support.session_world import NOW_MS, World
from ttlproxy.wire import encode


def test_a_login_waits_until_what_is_owed_before_it_has_come() -> None:
    world = World(asks_login=True)
    ping, login = encode((b"PING",)), encode((b"AUTH", b"word"))
    assert world.take(ping + ping + login + ping) == ping + ping
    assert (world.step.requests, world.step.told, world.step.withheld) == (2, [], login + ping)
    assert world.step.awaits
    world.owes = True
    assert world.take(login) == b""
    assert (world.step.requests, world.step.awaits, world.step.withheld) == (0, True, login)
    world.owes = False
    assert world.take(login + ping) == login
    assert (world.step.requests, world.step.awaits, world.step.withheld) == (1, True, ping)
    assert [told.before for told in world.step.told] == [0]


def test_a_login_waits_for_the_reply_to_what_was_too_large_too() -> None:
    world = World(asks_login=True)
    large, login = encode((b"SET", b"k", b"v" * 100_000)), encode((b"AUTH", b"word"))
    assert world.take(large[:90_000]) == large[:90_000]
    world.owes = True
    assert world.take(large[90_000:] + login) == large[90_000:]
    assert (world.step.awaits, world.step.withheld) == (True, login)


def test_a_command_on_one_element_stays_within_the_words_of_who_has_not_logged_in(
    world: World,
) -> None:
    """Before a login Redis 7 accepts at most ten words (src/networking.c,
    processMultibulkBuffer)."""
    world.registry.announced(0, b"h", NOW_MS + 9)
    for request in (
        "HPEXPIREFIELD h f 9 NX",
        "HTTLFIELD h f",
        "HPERSISTFIELD h f",
        "HSETEX h FNX EX 9 FIELDS 1 f v",
        "SADDEX h 9 m",
        "HSET h f v",
        "EXPIRE h 9 NX",
        "RENAME h other",
        "HEXPIREFIELD h f",
        "HEXPIREFIELD h f x",
    ):
        (call,) = world.say(request)
        assert call[0] == b"EVALSHA"
        assert len(call) <= 10, request


@pytest.mark.parametrize("login", ["AUTH app word", "HELLO 3 AUTH app word", "hello 2 auth app x"])
def test_surveys_are_native_for_whom_scripts_are_barred(world: World, login: str) -> None:
    world.rights.set_users([b"user default on nopass ~* +@all", b"user app on #af ~* +@all -eval"])
    assert world.names("AUTH word", "DBSIZE") == [b"AUTH", b"EVALSHA"]
    assert world.names(login, "DBSIZE", "RESET", "DBSIZE")[1::2] == [b"DBSIZE"] * 2


def test_the_name_of_a_connection_is_no_user(world: World) -> None:
    world.rights.set_users([b"user default on nopass ~* +@all", b"user app on #af ~* +@all -eval"])
    assert world.names("HELLO 3 SETNAME app", "DBSIZE") == [b"HELLO", b"EVALSHA"]


def test_of_a_client_that_tries_many_users_only_some_are_kept(world: World) -> None:
    for number in range(100):
        world.say(f"AUTH user:{number} word")
    assert len(world.session.users) <= 17
    assert b"user:99" in world.session.users


def test_the_reply_to_a_login_tells_who_the_client_is(world: World) -> None:
    names = (b"default", b"one", b"two")
    world.rights.set_users([b"user %b on nopass ~* &* +@all" % name for name in names])
    steps = (
        ("AUTH one word", b"+OK", {b"one"}),
        ("AUTH two wrong", b"-WRONGPASS no", {b"one"}),
        ("HELLO 3 AUTH two word", b"%7", {b"two"}),
        ("AUTH word", b"+OK", {b"default"}),
        ("AUTH one word", b"+QUEUED", {b"default", b"one"}),
        ("RESET", b"+RESET", {b"default"}),
    )
    for request, line, users in steps:
        world.say(request)
        assert world.session.users >= users
        world.answer(line + b"\r\n")
        assert world.session.users == users, request


def test_a_client_is_served_after_its_login() -> None:
    world = World(asks_login=True)
    assert world.session.before_login
    world.say("RESET")
    assert world.session.before_login
    ((_, sha, *_),) = world.say("HTTLFIELD h f")
    assert sha == world.scripts["refuse"].sha
    world.say("AUTH wrong")
    world.answer(b"-WRONGPASS no\r\n")
    assert world.session.before_login
    world.say("AUTH word")
    world.answer(b"+OK\r\n")
    assert not world.session.before_login
    ((_, sha, *_),) = world.say("HTTLFIELD h f")
    assert sha == world.scripts["hash_ttl"].sha


def test_after_reset_whoever_may_have_logged_in_anew_is_served(world: World) -> None:
    world.rights.set_users([b"user default on #af ~* +@all"])
    world.say("RESET")
    ((_, sha, *_),) = world.say("HTTLFIELD h f")
    assert sha == world.scripts["refuse"].sha
    world.say("AUTH word")
    ((_, sha, *_),) = world.say("HTTLFIELD h f")
    assert sha == world.scripts["hash_ttl"].sha


def test_a_client_that_leaves_without_a_login_is_gone() -> None:
    world = World(asks_login=True)
    assert world.names("QUIT", "PING") == [b"QUIT"]
    assert world.session.over


@pytest.mark.parametrize(
    ("words", "is_ours"),
    [
        ((b"HSETEX", b"h", b"FIELDS", b"3", *[b"f"] * 6), True),
        ((b"HSETEX", b"h", b"FIELDS", b"3", *[b"f"] * 7), False),
        ((b"HTTLFIELD", b"h", b"f" * 16_384), True),
        ((b"HTTLFIELD", b"h", b"f" * 16_385), False),
    ],
)
def test_before_a_login_a_request_has_as_many_words_and_bytes_as_redis_allows(
    words: tuple[bytes, ...], is_ours: bool
) -> None:
    sent = World(asks_login=True).take(encode(words))
    assert (sent != encode(words)) == is_ours


def test_before_a_login_what_is_too_large_goes_to_redis_before_it_is_whole() -> None:
    world = World(asks_login=True)
    begun = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n"
    assert world.take(begun) == begun
    small = World(asks_login=True)
    assert small.take(b"*2\r\n$3\r\nGET\r\n$3\r\nk") == b""
    assert small.session.kept > 0
    small.session.drop()
    assert small.session.kept == 0
