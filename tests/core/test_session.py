"""A client's requests on their way to Redis, without sockets: what is forwarded, and how."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from tests.support.session_world import KEYS, NATIVES, NOW_MS, World, passes
from ttlproxy.commands import KeySpec, Native, Router
from ttlproxy.wire import Requests, encode
from ttlproxy.wire.scanner import Scanner


def test_only_the_virtual_command_of_a_chunk_is_rewritten(world: World) -> None:
    before, after = b"\r\nget  'a b'\r\n*0\r\n", b"*2\r\n$3\r\nGET\r\n$1\r\nx\r\nPING\r\n"
    out = world.take(before + encode((b"HTTLFIELD", b"h", b"f")) + after)
    assert out.startswith(b"\r\nget  'a b'\r\n")
    assert out.endswith(after)
    sha = world.scripts["hash_ttl"].sha
    (call,) = [words for words in Requests().feed(out) if words[0] == b"EVALSHA"]
    assert call == [b"EVALSHA", sha, b"2", b"h", b"__ttl:{0r3}:h", b"1000", b"1", b"1", b"f"]


def test_a_native_write_is_rewritten_on_a_managed_key_alone(world: World) -> None:
    world.registry.announced(0, b"h", NOW_MS + 9)
    assert world.names("HSET h f v", "HSET other f v", "HGET h f", "DEL a h") == [
        b"EVALSHA",
        b"HSET",
        b"HGET",
        b"EVALSHA",
    ]
    assert not world.step.reap_places


@pytest.mark.parametrize(
    ("line", "sent"),
    [
        ("client capa redirect", "client capa none"),
        ("CLIENT CAPA other Redirect", "CLIENT CAPA other none"),
        ("CLIENT CAPA", "CLIENT CAPA"),
        ("CLIENT MAINT_NOTIFICATIONS ON endpoint-type none", "CLIENT MAINT_NOTIFICATIONS OFF"),
        ("CLIENT MAINT_NOTIFICATIONS OFF", "CLIENT MAINT_NOTIFICATIONS OFF"),
    ],
)
def test_a_server_is_not_asked_to_send_its_client_elsewhere(
    world: World, line: str, sent: str
) -> None:
    for begun in ((), ("MULTI",)):
        assert world.say(*begun, line)[-1] == sent.encode().split()


def test_a_key_is_managed_from_the_request_that_may_make_it_so(world: World) -> None:
    assert world.names("HSET h f v", "HEXPIREFIELD h f 9", "HSET h f v") == [
        b"HSET",
        b"EVALSHA",
        b"EVALSHA",
    ]


@pytest.mark.parametrize("begun", ["MULTI", "BLPOP l 0"])
def test_unknown_keys_count_in_each_chunk_behind_what_makes_requests_late(
    world: World, begun: str
) -> None:
    world.registry.announced(0, b"other", NOW_MS + 9)
    world.say(begun)
    for number in range(4):
        name = world.names(f"HSET h:{number} f v")[-1]
        assert name.startswith(b"EVAL"), number


@pytest.mark.parametrize("before", ["SISMEMBER due m", "DBSIZE", "UNDEFER due job"])
def test_unknown_keys_count_in_a_chunk_that_may_wait_for_a_reap(world: World, before: str) -> None:
    world.registry.announced(0, b"due", NOW_MS - 1)
    assert world.names(before, "HSET h f v")[-1] == b"EVALSHA"
    assert world.names("PING", "HSET h f v")[-1] == b"HSET"


def test_deadlines_of_a_client_s_own_keep_its_other_writes_as_they_came(world: World) -> None:
    assert world.names("HEXPIREFIELD h f 9", "HSET other f v") == [b"EVALSHA", b"HSET"]


def test_behind_what_redis_refuses_to_read_nothing_is_called(world: World) -> None:
    no_request = b"*1\r\n:5\r\n"
    assert world.take(no_request) == no_request
    for _ in range(2):
        assert world.names("HTTLFIELD h f", "PING") == []


def test_nothing_is_hidden_in_what_is_no_request(world: World) -> None:
    """Redis reads the header of a set or a map as a line, and then what is in its words. Behind a
    bulk string it skips two bytes, whatever they are."""
    world.registry.announced(0, b"k", 5)
    name, word = b"$3\r\nGET\r\n", b"$12\r\n\r\nSADD k m\r\n\r\n"
    gets = encode((b"GET", b"a")) * 2
    for before in (gets, gets[:-2] + b"XX"):
        for others in (b"~2\r\n" + name + word, b">2\r\n" + name + word):
            assert not passes(world.session, before + others)
        assert not passes(world.session, before + b"%2\r\n:0\r\n" + name + b":1\r\n" + word)


def test_requests_of_one_chunk_are_not_too_large_together() -> None:
    world = World(max_request_bytes=100)
    asked = "HTTLFIELD h " + "f" * 60
    for call in world.say(asked, asked, asked):
        assert call[1] == world.scripts["hash_ttl"].sha


def test_requests_that_redis_answers_in_any_state_need_nothing(world: World) -> None:
    ping, info, get = (encode((word,)) for word in (b"PING", b"INFO", b"GET"))
    assert world.session.needs_nothing(ping + info)
    assert not world.session.needs_nothing(ping + get)
    assert not world.session.needs_nothing(ping[:-1])
    assert not world.session.needs_nothing(b"*1\r\n:5\r\n")


def test_keys_that_all_proxies_will_be_told_of_are_looked_for(world: World) -> None:
    world.registry.others(False)
    world.say("HTTLFIELD h f")
    assert not world.registry.expecting
    world.say("ONEXPIRE jobs:* LPUSH done")
    assert world.registry.expecting


def test_an_element_may_be_called_as_an_internal_key(world: World) -> None:
    assert world.names("HGET h __ttl:x", "SISMEMBER s __ttl:x") == [b"HGET", b"SISMEMBER"]


def test_behind_a_blocking_command_unknown_keys_count(world: World) -> None:
    world.registry.announced(0, b"other", NOW_MS + 9)
    assert world.names("BLPOP l 0", "HSET h f v") == [b"BLPOP", b"EVALSHA"]


def test_a_command_that_replaces_a_key_is_rewritten_if_that_key_is_managed(world: World) -> None:
    world.registry.announced(0, b"h", NOW_MS + 9)
    assert world.names("SET h v", "SET other v", "SORT h", "SORT h STORE x", "SORT x STORE h") == [
        b"EVALSHA",
        b"SET",
        b"SORT",
        b"SORT",
        b"EVALSHA",
    ]
    long = "SUNIONSTORE h" + " s" * 8000
    assert world.names(long) == [b"SUNIONSTORE"]


def test_plain_info_is_always_native(world: World) -> None:
    for request in ("INFO", "INFO server", "INFO default", "INFO commandstats keyspace"):
        assert world.names(request) == [b"INFO"]


@pytest.mark.parametrize("first", [100_000, -3])
@pytest.mark.parametrize(
    ("requests", "forwarded", "virtual", "rewritten"),
    [
        (["GET a", "PING"], 2, 0, 0),
        (["MULTI", "GET a"], 2, 0, 0),
        (["HTTLFIELD h f", "HTTLFIELD h f", "PING"], 1, 2, 0),
        (["HSET managed f v", "HSET other f v"], 1, 0, 1),
        (["SET k " + "v" * 200_000], 1, 0, 0),
        (["GET __ttl:x"], 0, 0, 1),
    ],
)
def test_each_request_is_counted_once_as_what_it_became(
    world: World, requests: list[str], forwarded: int, virtual: int, rewritten: int, first: int
) -> None:
    world.registry.announced(0, b"managed", NOW_MS + 9)
    stream = b"".join(encode(tuple(each.encode().split())) for each in requests)
    for piece in (stream[:first], stream[first:]):
        if piece:
            world.take(piece)
    counts = world.counts
    assert (counts.forwarded, counts.virtual, counts.rewritten) == (forwarded, virtual, rewritten)


@pytest.mark.parametrize(
    ("request_", "looked_at"),
    [
        ("CONFIG SET notify-keyspace-events KEA", True),
        ("CONFIG SET maxmemory 0 Notify-Keyspace-Events K", True),
        ("CONFIG SET maxmemory notify-keyspace-events", False),
        ("CONFIG GET notify-keyspace-events maxmemory", False),
        ("SCRIPT FLUSH", True),
        ("SCRIPT FLUSH sync", True),
        ("SCRIPT FLUSH now", False),
        ("SCRIPT KILL", False),
        ("ACL SETUSER app", True),
        ("ACL DELUSER app", True),
        ("ACL LOAD", True),
        ("ACL LIST", False),
        ("AUTH somebody word", True),
        ("AUTH app word", False),
        ("AUTH somebody", False),
        ("HELLO 3 AUTH somebody word", True),
        ("PING", False),
    ],
)
def test_commands_that_may_change_things_for_all_cause_a_look(
    world: World, request_: str, looked_at: bool
) -> None:
    world.rights.set_users([b"user default on nopass ~* +@all", b"user app on #af ~* +@all"])
    world.take(encode(tuple(request_.encode().split())))
    assert world.step.look == looked_at


@pytest.mark.parametrize(
    ("request_", "resp"), [("HELLO", b"2"), ("HELLO 2", b"2"), ("HELLO 3", b"3"), ("PING 3", b"2")]
)
def test_a_client_has_the_protocol_that_it_asks_for(
    world: World, request_: str, resp: bytes
) -> None:
    world.say(request_)
    assert world.session.resp == resp


@pytest.mark.parametrize(
    ("begun", "request_"),
    [("PING", "SUNIONSTORE h"), ("PING", "DBSIZE x"), ("MULTI", "HTTLFIELD h")],
)
def test_a_request_that_redis_refuses_goes_there_as_it_came(
    world: World, begun: str, request_: str
) -> None:
    world.registry.announced(0, b"h", NOW_MS + 9)
    world.say(begun)
    assert world.say(request_) == [request_.encode().split()]


@pytest.mark.parametrize(
    ("mode", "has_family", "name"),
    [
        ("REPLY OFF", True, b"EVALSHA"),
        ("REPLY OFF", False, b"HSET"),
        ("NO-EVICT OFF", True, b"HSET"),
    ],
)
def test_unknown_keys_count_where_nobody_is_told_what_has_been_carried_out(
    world: World, mode: str, has_family: bool, name: bytes
) -> None:
    if has_family:
        world.registry.announced(0, b"other", NOW_MS + 9)
    world.say(f"CLIENT {mode}")
    for _ in range(2):
        assert world.names("HSET k f v") == [name]


@pytest.mark.parametrize("waiting", ["HEXPIREFIELD k f 9", "DEFER EX 9 DEL k", "UNDEFER k job"])
@pytest.mark.parametrize("has_state", [False, True])
def test_unknown_keys_count_in_a_chunk_that_waits_until_all_proxies_know_a_family(
    world: World, waiting: str, has_state: bool
) -> None:
    world.session.script_calls.families.known.has_state = has_state
    if has_state:
        world.session.script_calls.families.doubt()
    assert world.names("HSET h f v", waiting)[0] == b"EVALSHA"
    assert world.step.unsure


def test_unknown_keys_count_in_a_chunk_with_the_first_rule(world: World) -> None:
    world.session.script_calls.families.known.has_state = False
    assert world.names("HSET h f v", "ONEXPIRE s KEEP") == [b"EVALSHA", b"EVALSHA"]
    assert world.step.unsure


def test_after_a_flush_of_its_own_a_client_s_scripts_go_as_text(world: World) -> None:
    world.say("SCRIPT FLUSH")
    world.scripts.loaded = True  # for others
    assert world.names("HTTLFIELD h f") == [b"EVAL"]


def test_all_proxies_must_know_the_family_of_the_key_where_an_item_may_go(world: World) -> None:
    world.session.script_calls.families.doubt()
    world.take(encode((b"LEASE", b"a", b"b", b"EX", b"9", b"BLOCK", b"0")))
    assert world.step.wait
    assert world.step.unsure == {(0, b"b")}
    assert world.registry.families.prefixes == (b"b",)


def test_internal_keys_may_be_named_where_they_are_shown(world: World) -> None:
    assert world.names("GET __ttl:x") == [b"EVALSHA"]
    world.rights.shows_internal = True
    assert world.names("GET __ttl:x") == [b"GET"]


@pytest.mark.parametrize(("has_action", "name"), [(True, b"EVALSHA"), (False, b"HEXPIRE")])
def test_deadlines_are_ours_where_a_rule_may_say_what_becomes_of_elements(
    world: World, has_action: bool, name: bytes
) -> None:
    world.registry.has_action = lambda key: has_action and key == b"h"
    assert world.names("HEXPIRE h 9 FIELDS 1 f") == [name]
    assert world.names("HEXPIRE other 9 FIELDS 1 f") == [b"HEXPIRE"]


def test_a_rule_that_is_set_before_in_the_transaction_counts(world: World) -> None:
    assert world.names("MULTI", "HEXPIRE h 9 FIELDS 1 f")[-1] == b"HEXPIRE"
    assert world.names("ONEXPIRE h KEEP", "HEXPIRE h 9 FIELDS 1 f")[-1] == b"EVAL"
    assert world.names("EXEC") == [b"EXEC"]
    assert world.names("HEXPIRE h 9 FIELDS 1 f")[-1] == b"HEXPIRE"


@pytest.mark.parametrize(
    ("request_", "has_action"),
    [
        ("HSETEX h 9 f v", False),
        ("HSETEX h MAXLEN 5 EX 9 FIELDS 1 f v", False),
        ("HEXPIRE h 9 FIELDS 1 f", True),
        ("HEXPIRE h 9 FIELDS 1 f", None),
    ],
)
def test_what_the_server_cannot_do_itself_is_ours_while_the_slot_moves(
    request_: str, has_action: bool | None
) -> None:
    hsetex = Native("HSETEX", -6, frozenset({"write"}), (KeySpec("RW"),))
    world = World(router=Router([*NATIVES, hsetex]))
    world.registry.has_action = lambda key: has_action
    world.registry.announced(0, b"h", NOW_MS + 9)
    world.session.unindexed = True
    (words,) = world.say(request_)
    assert KEYS.index(b"h") in words[3 : 3 + int(words[2])]


@pytest.mark.parametrize(
    ("said", "must_reap"),
    [
        ({}, False),
        ({"reap_places": {(0, b"k")}}, True),
        ({"reap_databases": {0}}, True),
        ({"sweep_before": {(0, b"k")}}, True),
        ({"look": True}, False),
    ],
)
def test_a_step_says_what_has_to_wait(
    world: World, said: dict[str, object], must_reap: bool
) -> None:
    step = replace(world.step, **said)  # type: ignore[arg-type]
    assert step.must_reap == must_reap


def test_a_request_that_waits_ends_what_is_looked_at(world: World) -> None:
    assert not world.step.pauses
    world.take(encode((b"LEASE", b"a", b"b", b"EX", b"9", b"BLOCK", b"0")))
    assert world.step.pauses


def test_a_client_whose_requests_pass_or_are_rewritten_keeps_no_set_of_its_own(
    world: World,
) -> None:
    world.registry.announced(0, b"due", NOW_MS - 1)
    world.say("GET key")
    world.say("HSET due f v")
    assert world.step.reap_places
    session = world.session
    assert set not in map(type, gc.get_referents(session, session.step))


def test_clients_whose_requests_come_whole_share_a_scanner() -> None:
    first, second, cut = Requests(), Requests(), Requests()
    for requests in (first, second):
        requests.feed(encode((b"GET", b"key")))
    cut.feed(b"*2\r\n$3")
    (one,), (other,), (own,) = (
        [each for each in gc.get_referents(requests) if isinstance(each, Scanner)]
        for requests in (first, second, cut)
    )
    assert one is other
    assert own is not one
    assert not one.buffer


@pytest.mark.parametrize(
    "request_",
    ["HSETEX h EX 9 FIELDS 1 f v", "HEXPIREFIELD h f 9", "ONEXPIRE s KEEP", "DEFER EX 9 DEL k"],
)
@pytest.mark.parametrize("in_transaction", [False, True])
def test_before_proxies_have_stored_their_state_nothing_of_ours_is_stored(
    world: World, request_: str, in_transaction: bool
) -> None:
    world.session.script_calls.families.known.has_state = False
    if in_transaction:
        world.say("MULTI")
    assert world.names("GET k", request_)[-1].startswith(b"EVAL")
    assert world.step.unsure
    world.session.script_calls.families.known.has_state = True
    world.say(request_)
    assert not world.step.unsure


@pytest.mark.parametrize("request_", ["DEFERRED k", "ONEXPIRE", "ONEXPIRE s", "ONWRITE s"])
def test_a_list_of_deferred_commands_or_rules_waits_for_no_write(
    world: World, request_: str
) -> None:
    """In a pause of writes it would wait for the end of the pause."""
    world.session.script_calls.families.known.has_state = False
    assert world.names(request_)[-1].startswith(b"EVAL")
    assert not world.step.unsure
    assert world.step.settles is None


@pytest.mark.parametrize("has_state", [False, None, True])
def test_no_script_need_hide_anything_if_proxies_have_stored_nothing(
    world: World, has_state: bool | None
) -> None:
    world.session.script_calls.families.known.has_state = has_state
    assert (world.names("DBSIZE") == [b"DBSIZE"]) == (has_state is False)


@pytest.mark.parametrize("in_transaction", [False, True])
def test_the_first_key_of_ours_is_hidden_from_what_follows_in_its_chunk(
    world: World, in_transaction: bool
) -> None:
    world.session.script_calls.families.known.has_state = False
    begin = ["MULTI"] * in_transaction
    *_, first, behind = world.names(*begin, "DEFER EX 9 DEL k", "DBSIZE")
    assert first.startswith(b"EVAL")
    assert behind.startswith(b"EVAL")


def test_a_request_that_may_store_our_first_key_does_not_overtake_one_that_shows_all_keys(
    world: World,
) -> None:
    """The link stores it, over another connection."""
    world.session.script_calls.families.known.has_state = False
    assert world.names("DBSIZE", "DEFER EX 9 DEL k") == [b"DBSIZE"]
    assert world.step.awaits
    assert Requests().feed(world.step.withheld) == [b"DEFER EX 9 DEL k".split()]


@pytest.mark.parametrize("before", ["MULTI", "CLIENT REPLY OFF"])
def test_commands_that_show_all_keys_hide_ours_if_nobody_can_wait(
    world: World, before: str
) -> None:
    world.session.script_calls.families.known.has_state = False
    world.say(before)
    assert world.names("DBSIZE")[0].startswith(b"EVAL")
