"""A client's requests on their way to Redis, without sockets: what is forwarded, and how."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttlproxy.commands import KeySpec, Native, Router
from ttlproxy.commands.model.key_positions import KNOWN
from ttlproxy.core.counters import Handled
from ttlproxy.core.keys import Keys
from ttlproxy.core.permissions import Rights
from ttlproxy.core.registry import Registry
from ttlproxy.scripts import Scripts
from ttlproxy.scripts.script_calls import ScriptCalls
from ttlproxy.session import QUIT, Session, Step
from ttlproxy.wire import Requests, encode

ONE_KEY = ("GET", "HINCRBY", "HGET", "HLEN", "HSET", "HDEL", "SADD", "EXPIRE", "SET", "APPEND")
NATIVES = [
    *(Native(name, -2, frozenset({"write"}), (KeySpec("RW"),)) for name in ONE_KEY),
    Native("SISMEMBER", 3, frozenset({"readonly"}), (KeySpec("RO"),)),
    Native("PING", -1, frozenset()),
    Native("INFO", -1, frozenset()),
    Native("MULTI", 1, frozenset()),
    Native("EXEC", 1, frozenset()),
    Native("DBSIZE", 1, frozenset()),
    Native("COMMAND", -1, frozenset()),
    Native("DEL", -2, frozenset({"write"}), (KeySpec("RM", last=-1),)),
    Native("SORT", -2, frozenset({"write"}), KNOWN["SORT"]),
    Native("SUNIONSTORE", -3, frozenset({"write"}), (KeySpec("OW"), KeySpec("RO", 2, last=-1))),
    Native("BLMOVE", 6, frozenset({"write"}), KNOWN["BLMOVE"]),
    Native("BRPOPLPUSH", 4, frozenset({"write"}), KNOWN["BRPOPLPUSH"]),
    Native("HEXPIRE", -6, frozenset({"write"}), (KeySpec("RW"),)),
    Native("RENAME", 3, frozenset({"write"}), (KeySpec("RW", last=1),)),
]
NOW_MS = 1_000_000
SCRIPTS, KEYS, RULES = Scripts(b"__ttl:"), Keys(), Router(NATIVES)


class World:
    """A session and what it shares with others."""

    def __init__(self, max_request_bytes: int = 1 << 30, *, asks_login: bool = False) -> None:
        self.scripts = SCRIPTS
        self.scripts.loaded = True
        self.registry = Registry()
        self.rights = Rights()
        self.rights.asks_login = asks_login
        self.counts = Handled()
        script_calls = ScriptCalls(self.scripts, KEYS, bytes)
        self.session = Session(
            RULES,
            script_calls,
            self.registry,
            self.rights,
            lambda: NOW_MS,
            max_request_bytes,
            self.counts,
            lambda: True,
        )
        self.step = Step(
            b"", set(), set(), set(), False, set(), None, None, False, None, False, b""
        )

    def say(self, *requests: bytes | str) -> list[list[bytes]]:
        """What Redis reads if the client sends these in one chunk."""
        chunk = b"".join(
            request if isinstance(request, bytes) else encode(tuple(request.encode().split()))
            for request in requests
        )
        sent = self.take(chunk)
        while self.step.look:
            sent += self.take(self.step.withheld)
        return Requests().feed(sent)

    def take(self, chunk: bytes) -> bytes:
        """The bytes of a chunk that go to Redis; `step` says what else follows."""
        if self.session.passes(chunk):
            self.step = self.step._replace(look=False, wait=None, withheld=b"")
            return chunk
        self.step = self.session.from_client(chunk)
        return self.step.to_redis

    def names(self, *requests: str) -> list[bytes]:
        return [words[0] for words in self.say(*requests)]


@pytest.fixture
def world() -> World:
    return World()


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


@pytest.mark.parametrize("db", [0, 1])
def test_a_read_of_a_managed_key_passes_until_something_is_past_its_deadline(
    world: World, db: int
) -> None:
    read = encode((b"SISMEMBER", b"s", b"m"))
    world.registry.announced(0, b"s", NOW_MS + 9)
    world.registry.announced(db, b"s", NOW_MS)
    assert world.session.passes(read * 3)
    world.registry.announced(db, b"s", NOW_MS - 1)
    assert not world.session.passes(read)
    assert world.take(read) == read
    assert world.step.reap_places == {(db, b"s")}


def test_a_large_read_of_a_managed_key_is_looked_at_when_it_is_complete(world: World) -> None:
    read = encode((b"SISMEMBER", b"s", b"m" * 100_000))
    assert world.take(read[:90_000]) == read[:90_000]
    assert world.take(read[90_000:]) == read[90_000:]
    world.registry.announced(0, b"s", NOW_MS)
    assert world.take(read[:90_000]) == b""
    world.registry.announced(0, b"s", NOW_MS - 1)
    world.take(read[90_000:])
    assert world.step.reap_places == {(0, b"s")}


def test_a_key_is_managed_from_the_request_that_may_make_it_so(world: World) -> None:
    assert world.names("HSET h f v", "HEXPIREFIELD h f 9", "HSET h f v") == [
        b"HSET",
        b"EVALSHA",
        b"EVALSHA",
    ]


@pytest.mark.parametrize(
    "request_",
    ["HGET h f", "HLEN h", "HSET h f v", "DEL x h", "HTTLFIELD h f", "MYSTERY x h"],
)
def test_what_is_due_is_reaped_before_any_command_that_names_it(
    world: World, request_: str
) -> None:
    world.registry.announced(0, b"h", NOW_MS)
    world.say("PING", request_)
    assert not world.step.reap_places
    world.registry.announced(0, b"h", NOW_MS - 1)
    world.say("PING", request_)
    assert world.step.reap_places == {(0, b"h")}


def test_inside_a_transaction_scripts_go_as_text_and_unknown_keys_count(world: World) -> None:
    world.registry.announced(0, b"other", NOW_MS + 9)
    assert world.names("MULTI", "HSET h f v", "HTTLFIELD h f", "EXEC", "HSET h f v") == [
        b"MULTI",
        b"EVAL",
        b"EVAL",
        b"EXEC",
        b"HSET",
    ]


@pytest.mark.parametrize("begun", ["MULTI", "BLPOP l 0"])
def test_unknown_keys_count_in_each_chunk_behind_what_makes_requests_late(
    world: World, begun: str
) -> None:
    world.registry.announced(0, b"other", NOW_MS + 9)
    world.say(begun)
    for number in range(4):
        ((name, *_),) = world.say(f"HSET h:{number} f v")
        assert name.startswith(b"EVAL"), number


@pytest.mark.parametrize("before", ["SISMEMBER due m", "DBSIZE", "UNDEFER due job"])
def test_unknown_keys_count_in_a_chunk_that_may_wait_for_a_reap(world: World, before: str) -> None:
    world.registry.announced(0, b"due", NOW_MS - 1)
    assert world.names(before, "HSET h f v")[-1] == b"EVALSHA"
    assert world.names("PING", "HSET h f v")[-1] == b"HSET"


@pytest.mark.parametrize("request_", ["BLMOVE l due LEFT LEFT 0", "BRPOPLPUSH l due 0"])
def test_what_a_blocking_command_fills_is_swept_before_it(world: World, request_: str) -> None:
    world.registry.announced(0, b"due", NOW_MS + 9)
    world.say(request_)
    assert world.step.sweep_before == {(0, b"due")}


def test_deadlines_of_a_client_s_own_keep_its_other_writes_as_they_came(world: World) -> None:
    assert world.names("HEXPIREFIELD h f 9", "HSET other f v") == [b"EVALSHA", b"HSET"]


def test_without_any_managed_key_databases_are_swapped_by_redis_itself(world: World) -> None:
    assert world.names("SWAPDB 0 1") == [b"SWAPDB"]
    world.registry.announced(0, b"h", NOW_MS + 9)
    assert world.names("SWAPDB 0 1") == [b"EVALSHA"]


def test_behind_what_redis_refuses_to_read_nothing_is_called(world: World) -> None:
    no_request = b"*1\r\n:5\r\n"
    assert world.take(no_request) == no_request
    for _ in range(2):
        assert world.names("HTTLFIELD h f", "PING") == []


@pytest.mark.parametrize(
    "words", [(b"HSETEX", b"h", b"FIELDS", b"3", *[b"f"] * 7), (b"HTTLFIELD", b"h", b"f" * 16385)]
)
def test_what_is_too_much_before_a_login_is_redis_s_to_refuse(
    world: World, words: tuple[bytes, ...]
) -> None:
    world.rights.learn([b"user default on #af ~* +@all"])
    world.say("RESET")
    assert world.names("HTTLFIELD h f") == [b"EVALSHA"]
    assert world.take(encode(words)) == encode(words)


@pytest.mark.parametrize(("begun", "name"), [("MULTI", b"APPEND"), ("PING", b"HSET")])
def test_a_large_write_that_may_meet_a_deadline_is_kept_until_it_is_whole(
    world: World, begun: str, name: bytes
) -> None:
    world.say(begun)
    write = encode((name, b"h", b"f", b"v" * 100_000))
    assert world.take(write[:90_000]) == b""
    assert world.take(write[90_000:]) == write


def test_requests_of_one_chunk_are_not_too_large_together() -> None:
    world = World(max_request_bytes=100)
    asked = "HTTLFIELD h " + "f" * 60
    for call in world.say(asked, asked, asked):
        assert call[1] == world.scripts["hash_ttl"].sha


@pytest.mark.parametrize(
    ("request_", "modifies"),
    [
        ("HSET h f v", True),
        ("HEXPIREFIELD h f 9", True),
        ("HTTLFIELD h f", False),
        ("SISMEMBER h m", False),
    ],
)
def test_what_only_reads_need_not_wait_while_writes_are_paused(
    world: World, request_: str, modifies: bool
) -> None:
    world.registry.announced(0, b"h", NOW_MS - 1)
    world.say(request_)
    assert world.step.reap_places == {(0, b"h")}
    assert world.step.modifies == modifies


def test_a_login_waits_until_what_is_owed_before_it_has_come() -> None:
    world = World(asks_login=True)
    ping, login = encode((b"PING",)), encode((b"AUTH", b"word"))
    assert world.take(ping + ping + login + ping) == ping + ping
    assert (world.step.owed, world.step.login, world.step.withheld) == (2, None, login + ping)
    assert world.step.pauses
    world.session.has_replies(2)
    assert world.take(world.step.withheld) == login
    assert (world.step.owed, world.step.login, world.step.withheld) == (None, 2, ping)
    assert world.step.pauses


def test_a_login_waits_for_the_reply_to_what_was_too_large_too() -> None:
    world = World(asks_login=True)
    large, login = encode((b"SET", b"k", b"v" * 100_000)), encode((b"AUTH", b"word"))
    assert world.take(large[:90_000]) == large[:90_000]
    assert world.take(large[90_000:] + login) == large[90_000:]
    assert world.step.owed == 1


def test_what_redis_answers_in_any_state_needs_nothing(world: World) -> None:
    ping, info, get = (encode((word,)) for word in (b"PING", b"INFO", b"GET"))
    assert world.session.needs_nothing(ping + info)
    assert not world.session.needs_nothing(ping + get)
    assert not world.session.needs_nothing(ping[:-1])
    assert not world.session.needs_nothing(b"*1\r\n:5\r\n")


def test_what_all_proxies_will_be_told_of_is_looked_for(world: World) -> None:
    world.registry.others(False)
    world.say("HTTLFIELD h f")
    assert not world.registry.expecting
    world.say("ONEXPIRE jobs:* LPUSH done {member}")
    assert world.registry.expecting


def test_what_falls_due_until_exec_is_reaped_then(world: World) -> None:
    world.registry.announced(0, b"h", NOW_MS + 5)
    world.say("MULTI", "HLEN h")
    assert not world.step.reap_places
    world.registry.announced(0, b"h", NOW_MS - 1)
    world.say("EXEC")
    assert world.step.reap_places == {(0, b"h")}


def test_a_key_that_becomes_managed_before_exec_is_reaped_then(world: World) -> None:
    world.say("MULTI", "HLEN h")
    world.registry.announced(0, b"h", NOW_MS - 1)
    world.say("EXEC")
    assert world.step.reap_places == {(0, b"h")}


def test_a_word_that_is_no_key_is_neither_reaped_nor_swept(world: World) -> None:
    world.registry.announced(0, b"h", NOW_MS - 1)
    world.say("HGET other h", "HINCRBY other h 1", "PING h")
    assert not world.step.reap_places
    assert not world.step.sweep_after


def test_an_element_may_be_called_as_an_internal_key(world: World) -> None:
    assert world.names("HGET h __ttl:x", "SISMEMBER s __ttl:x") == [b"HGET", b"SISMEMBER"]


def test_behind_a_blocking_command_unknown_keys_count(world: World) -> None:
    world.registry.announced(0, b"other", NOW_MS + 9)
    assert world.names("BLPOP l 0", "HSET h f v") == [b"BLPOP", b"EVALSHA"]


def test_without_any_managed_key_a_transaction_passes_raw(world: World) -> None:
    assert world.names("MULTI", "HSET h f v", "EXEC") == [b"MULTI", b"HSET", b"EXEC"]


def test_a_write_without_an_override_is_swept_afterwards(world: World) -> None:
    world.registry.announced(0, b"h", NOW_MS + 9)
    world.say("APPEND h v", "APPEND other v")
    assert world.step.sweep_after == {b"h"}
    world.say("HINCRBY h n 1")
    assert not world.step.sweep_after


def test_after_a_flush_of_scripts_their_text_is_sent(world: World) -> None:
    assert world.names("SCRIPT FLUSH", "HTTLFIELD h f") == [b"SCRIPT", b"EVAL"]


def test_a_flush_inside_a_transaction_counts_when_exec_comes(world: World) -> None:
    world.say("MULTI", "SCRIPT FLUSH")
    world.scripts.loaded = True  # loaded again meanwhile
    assert world.names("EXEC", "HTTLFIELD h f") == [b"EXEC", b"EVAL"]


def test_a_database_that_was_selected_is_only_believed(world: World) -> None:
    (first,) = world.say("HEXPIREFIELD h f 9")
    _, second = world.say("SELECT 3", "HEXPIREFIELD h f 9")
    at = 3 + int(first[2])
    assert (first[at], second[at]) == (b"0 hexpirefield", b"?3,0 hexpirefield")


@pytest.mark.parametrize(
    ("requests", "database"),
    [
        (["SELECT 0"], b"0"),
        (["SELECT 3", "SELECT 5"], b"?5,3,0"),
        (["SELECT 3", "SELECT 5", "SELECT 3"], b"?3,5,0"),
        (["SELECT 3", "SELECT x", "SELECT -1", "SELECT"], b"?3,0"),
        (["SELECT 3", "RESET"], b"?0,3"),
        (["MULTI", "SELECT 3", "DISCARD"], b"?3,0"),
        (
            [f"SELECT {db}" for db in range(20)],
            b"?" + b",".join(b"%d" % db for db in range(19, 3, -1)),
        ),
    ],
)
def test_a_script_gets_the_databases_that_its_client_may_be_in(
    world: World, requests: list[str], database: bytes
) -> None:
    *_, call = world.say(*requests, "HEXPIREFIELD h f 9")
    assert database + b" hexpirefield" in call


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


def test_what_replaces_a_key_is_rewritten_where_that_key_is_managed(world: World) -> None:
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


def test_a_string_written_in_a_transaction_goes_as_it_came_and_is_swept_after_exec(
    world: World,
) -> None:
    world.registry.announced(0, b"other", NOW_MS + 9)
    assert world.names("MULTI", "SET h v", "SET other v") == [b"MULTI", b"SET", b"EVAL"]
    world.registry.announced(0, b"h", NOW_MS + 9)
    assert b"h" not in world.step.sweep_after
    world.say("EXEC")
    assert b"h" in world.step.sweep_after


@pytest.mark.parametrize("request_", ["PSYNC ? -1", "SYNC"])
def test_behind_what_may_replicate_nothing_of_ours_is_sent_and_requests_are_read_as_ever(
    world: World, request_: str
) -> None:
    world.registry.announced(0, b"h", NOW_MS + 9)
    assert world.names(request_, "REPLCONF ACK 1")[1] == b"REPLCONF"
    assert world.names("HTTLFIELD h f", "HSET h f v", "GET __ttl:x") == [b"EVALSHA"] * 3
    assert world.session.finish() == b""


def test_behind_quit_nothing_goes_to_redis(world: World) -> None:
    assert world.names("GET a", "QUIT", "SET a 1", "HEXPIREFIELD h f 9") == [b"GET", b"QUIT"]
    assert world.session.over
    assert not World().session.over


def test_a_boundary_is_where_nothing_is_half_done(world: World) -> None:
    assert not world.session.unfinished
    world.session.from_client(b"*2\r\n$3\r\nGET\r\n")
    assert world.session.unfinished
    world.session.from_client(b"$1\r\na\r\n")
    assert not world.session.unfinished
    world.say("MULTI")
    assert world.session.unfinished
    world.say("EXEC")
    assert world.session.finish() == QUIT
    assert world.session.finish() == b""


_REQUESTS = st.sampled_from(
    [
        encode((b"GET", b"k")),
        encode((b"HEXPIREFIELD", b"h", b"f", b"9")),
        encode((b"HSET", b"h", b"f", b"v")),
        encode((b"MULTI",)),
        encode((b"EXEC",)),
        b"PING\r\n",
        b"\r\n",
        b"saddex s 9 'a b'\r\n",
    ]
)


@settings(deadline=None)
@given(st.lists(_REQUESTS, max_size=8), st.lists(st.integers(0, 1000), max_size=8))
def test_redis_reads_the_same_however_the_client_s_bytes_are_cut(
    requests: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(requests)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    whole, pieces = World(), World()
    sent = [pieces.take(stream[a:b]) for a, b in itertools.pairwise(places)]
    assert b"".join(sent) == whole.session.from_client(stream).to_redis


@pytest.mark.parametrize("request_", ["GET __ttl:x", "DEL a __ttl:x", "HLEN __ttl:x"])
def test_an_internal_key_s_name_is_found_however_the_client_s_bytes_are_cut(request_: str) -> None:
    request = encode(tuple(request_.encode().split()))
    for cut in range(len(request)):
        world = World()
        sent = b"".join(world.take(piece) for piece in (request[:cut], request[cut:]) if piece)
        ((name, sha, *_),) = Requests().feed(sent)
        assert (name, sha) == (b"EVALSHA", world.scripts["refuse"].sha), cut


@pytest.mark.parametrize("request_", [b"GET __ttl:x\r\n", b'GET "\\x5f_ttl:x"\r\n', b""])
@pytest.mark.parametrize("rest", [0, 900])
def test_an_internal_key_s_name_is_found_beside_long_values(request_: bytes, rest: int) -> None:
    longs = encode((b"SET", b"k", b"v" * 5_000 + b"__ttl:x")) * 4
    chunk = longs + (request_ or encode((b"GET", b"__ttl:x")))
    world = World()
    sent = Requests().feed(world.take(chunk + longs[:rest]))
    assert [words[0] for words in sent] == [b"SET"] * 4 + [b"EVALSHA"]
    assert sent[-1][1] == world.scripts["refuse"].sha


def test_what_is_no_bulk_string_is_redis_s_to_refuse_beside_long_values_too() -> None:
    chunk = encode((b"SET", b"k", b"v" * 9_000)) + b"*1\r\n:5\r\n"
    assert World().take(chunk) == chunk


@pytest.mark.parametrize("login", ["AUTH app word", "HELLO 3 AUTH app word", "hello 2 auth app x"])
def test_surveys_are_native_for_whom_scripts_are_barred(world: World, login: str) -> None:
    world.rights.learn([b"user default on nopass ~* +@all", b"user app on #af ~* +@all -eval"])
    assert world.names("AUTH word", "DBSIZE") == [b"AUTH", b"EVALSHA"]
    assert world.names(login, "DBSIZE", "RESET", "DBSIZE")[1::2] == [b"DBSIZE"] * 2


def test_the_name_of_a_connection_is_no_user(world: World) -> None:
    world.rights.learn([b"user default on nopass ~* +@all", b"user app on #af ~* +@all -eval"])
    assert world.names("HELLO 3 SETNAME app", "DBSIZE") == [b"HELLO", b"EVALSHA"]


def test_of_a_client_that_tries_many_users_only_some_are_kept(world: World) -> None:
    for number in range(100):
        world.say(f"AUTH user:{number} word")
    assert len(world.session.users) <= 8
    assert b"user:99" in world.session.users


def test_after_reset_a_client_is_served_where_redis_asks_for_no_login(world: World) -> None:
    _, call = world.say("RESET", "HTTLFIELD h f")
    assert call[1] == world.scripts["hash_ttl"].sha


def test_plain_info_is_always_native(world: World) -> None:
    for request in ("INFO", "INFO server", "INFO default", "INFO commandstats keyspace"):
        assert world.names(request) == [b"INFO"]


def test_all_that_is_due_goes_before_the_keys_are_looked_over(world: World) -> None:
    world.say("DBSIZE")
    assert not world.step.reap_databases
    world.registry.announced(3, b"h", NOW_MS - 1)
    world.say("DBSIZE")
    assert world.step.reap_databases == {3}


@pytest.mark.parametrize("words", [200_000, 200_001])
def test_a_command_of_ours_with_too_many_words_is_refused(world: World, words: int) -> None:
    request = encode((b"HEXPIREFIELD", b"h", b"9", b"FIELDS", *[b"a"] * (words - 4)))
    ((_, sha, *_),) = world.say(request)
    assert (sha == world.scripts["refuse"].sha) == (words > 200_000)


@pytest.mark.parametrize("in_multi", [False, True])
def test_what_is_larger_than_is_kept_is_refused_and_what_follows_is_read(in_multi: bool) -> None:
    world = World(max_request_bytes=100_000)
    if in_multi:
        world.say("MULTI")
    large = encode((b"HSETEX", b"h", b"FIELDS", b"1", b"f", b"v" * 200_000))
    stream = large + encode((b"HTTLFIELD", b"h", b"f"))
    sent = b"".join(world.take(stream[at : at + 70_000]) for at in range(0, len(stream), 70_000))
    refused, called = Requests().feed(sent)
    if in_multi:
        assert refused == [b"TOO-LARGE-FOR-MAX-REQUEST-BYTES"]
        assert called[0] == b"EVAL"
    else:
        assert refused[1] == world.scripts["refuse"].sha
        assert called[1] == world.scripts["hash_ttl"].sha


def test_what_is_larger_than_is_kept_waits_for_nothing() -> None:
    world = World(max_request_bytes=100)
    (refused,) = world.say("LEASE jobs " + "x" * 100 + " EX 9 BLOCK 0")
    assert refused[1] == world.scripts["refuse"].sha
    assert not world.step.pauses


def test_what_a_transaction_fills_is_looked_for_when_it_is_carried_out(world: World) -> None:
    world.say("MULTI")
    world.session.fills([b"l"])
    assert not world.step.sweep_before
    world.registry.announced(0, b"l", NOW_MS + 9)
    world.say("EXEC")
    assert world.step.sweep_before == {(0, b"l")}


def test_a_key_that_gets_deadlines_while_a_large_value_comes_is_swept(world: World) -> None:
    request = encode((b"APPEND", b"k", b"v" * 200_000))
    assert world.take(request[:100_000]) == request[:100_000]
    world.registry.announced(0, b"k", NOW_MS + 9)
    assert not world.step.sweep_after
    assert world.take(request[100_000:]) == request[100_000:]
    world.take(encode((b"PING",)))
    assert world.step.sweep_after == {b"k"}


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
    ("word", "db"), [("3", 3), ("x", 0), ("-1", 0), ("999999999", 999_999_999), ("9999999999", 0)]
)
def test_only_a_number_is_believed_to_be_a_database(world: World, word: str, db: int) -> None:
    world.say(f"SELECT {word}", "HEXPIREFIELD h f 9")
    assert world.registry.places(b"h") == [(db, b"h")]


def test_after_reset_a_client_is_in_its_first_database(world: World) -> None:
    world.say("SELECT 3", "RESET", "HEXPIREFIELD h f 9")
    assert world.registry.places(b"h") == [(0, b"h")]


@pytest.mark.parametrize(
    ("words", "is_ours"), [("0 1", True), ("0 x", False), ("x 1", False), ("0", False)]
)
def test_a_swap_of_databases_that_redis_takes_is_announced(
    world: World, words: str, is_ours: bool
) -> None:
    world.registry.announced(0, b"h", NOW_MS + 9)
    world.registry.others(False)
    ((name, *rest),) = world.say(f"SWAPDB {words}")
    assert world.registry.expecting == is_ours
    if is_ours:
        assert name == b"EVALSHA"
        assert rest[-2:] == [b"0", b"1"]
    else:
        assert [name, *rest] == [b"SWAPDB", *words.encode().split()]


def test_a_swap_by_whom_scripts_are_barred_counts_as_one_that_may_come(world: World) -> None:
    world.registry.announced(0, b"h", NOW_MS + 9)
    world.rights.learn([b"user default on nopass ~* +@all -eval"])
    assert world.take(encode((b"SWAPDB", b"0", b"7"))) == encode((b"SWAPDB", b"0", b"7"))
    assert world.step.look
    assert world.registry.places(b"h") == [(0, b"h"), (7, b"h")]


def test_what_is_watched_is_watched_with_its_index_and_reaped_before(world: World) -> None:
    world.registry.announced(0, b"b", NOW_MS - 1)
    assert world.say("WATCH a b") == [[b"WATCH", b"a", b"b", KEYS.index(b"a"), KEYS.index(b"b")]]
    assert world.step.reap_places == {(0, b"b")}
    world.rights.learn([b"user default on nopass ~a ~b +@all"])
    assert world.say("WATCH a b") == [[b"WATCH", b"a", b"b"]]


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
def test_what_may_change_things_for_all_is_looked_at(
    world: World, request_: str, looked_at: bool
) -> None:
    world.rights.learn([b"user default on nopass ~* +@all", b"user app on #af ~* +@all"])
    world.take(encode(tuple(request_.encode().split())))
    assert world.step.look == looked_at


def test_a_word_alone_is_a_password_and_no_user(world: World) -> None:
    world.say("AUTH word")
    assert world.session.users == {b"default"}


@pytest.mark.parametrize(
    ("request_", "resp"), [("HELLO", b"2"), ("HELLO 2", b"2"), ("HELLO 3", b"3"), ("PING 3", b"2")]
)
def test_a_client_has_the_protocol_that_it_asks_for(
    world: World, request_: str, resp: bytes
) -> None:
    world.say(request_)
    assert world.session.resp == resp


def test_a_second_multi_keeps_what_the_first_has_begun(world: World) -> None:
    world.say("MULTI", "HLEN h", "MULTI")
    world.registry.announced(0, b"h", NOW_MS - 1)
    world.say("EXEC")
    assert world.step.reap_places == {(0, b"h")}


@pytest.mark.parametrize(
    ("request_", "modifies"),
    [("HEXPIREFIELD h f 9", True), ("APPEND k v", True), ("HTTLFIELD h f", False), ("PING", False)],
)
def test_exec_writes_where_a_request_before_it_does(
    world: World, request_: str, modifies: bool
) -> None:
    world.say("MULTI", request_)
    assert not world.step.modifies
    world.say("EXEC")
    assert world.step.modifies == modifies


def test_what_a_transaction_makes_managed_is_so_until_it_is_carried_out(world: World) -> None:
    world.say("MULTI", "HEXPIREFIELD h f 9")
    for _ in range(10):
        world.registry.barrier()
    assert not world.registry.places(b"h")
    world.say("EXEC")
    assert world.registry.places(b"h") == [(0, b"h")]


def test_what_falls_due_until_exec_is_gone_before_the_keys_are_looked_over(world: World) -> None:
    world.say("MULTI", "DBSIZE")
    world.registry.announced(3, b"h", NOW_MS - 1)
    world.say("EXEC")
    assert world.step.reap_databases == {3}


@pytest.mark.parametrize(
    ("begun", "request_"),
    [("PING", "SUNIONSTORE h"), ("PING", "DBSIZE x"), ("MULTI", "HTTLFIELD h")],
)
def test_what_redis_refuses_goes_there_as_it_came(world: World, begun: str, request_: str) -> None:
    world.registry.announced(0, b"h", NOW_MS + 9)
    world.say(begun)
    assert world.say(request_) == [request_.encode().split()]


def test_what_is_deferred_for_a_key_is_carried_out_before_it_is_asked_about(world: World) -> None:
    later = KEYS.later(b"q")
    world.say("UNDEFER q job")
    assert world.registry.places(later) == [(0, later)]
    world.registry.announced(0, later, NOW_MS - 1)
    world.say("UNDEFER q job")
    assert world.step.reap_places == {(0, later)}


def test_what_a_blocking_command_has_taken_from_is_swept_with_the_next_request(
    world: World,
) -> None:
    world.registry.announced(0, b"l", NOW_MS + 9)
    world.say("BLMOVE l other LEFT LEFT 0")
    world.say("PING")
    assert world.step.sweep_after == {b"l"}
    world.say("PING")
    assert not world.step.sweep_after


@pytest.mark.parametrize(
    ("mode", "pins", "name"),
    [
        ("REPLY OFF", True, b"EVALSHA"),
        ("REPLY OFF", False, b"HSET"),
        ("NO-EVICT OFF", True, b"HSET"),
    ],
)
def test_unknown_keys_count_where_nobody_is_told_what_has_been_carried_out(
    world: World, mode: str, pins: bool, name: bytes
) -> None:
    world.registry.announced(0, b"other", NOW_MS + 9)
    world.say(f"CLIENT {mode}")
    if pins:
        world.say("HEXPIREFIELD h f 9")
    for _ in range(2):
        assert world.names("HSET k f v") == [name]


def test_unknown_keys_count_for_a_connection_with_more_pins_than_are_kept(world: World) -> None:
    world.registry.announced(0, b"other", NOW_MS + 9)
    assert world.names("HSET h f v") == [b"HSET"]
    world.session.owner.swamp()
    assert world.names("HSET h f v") == [b"EVALSHA"]


def test_after_a_flush_of_its_own_a_client_s_scripts_go_as_text(world: World) -> None:
    world.say("SCRIPT FLUSH")
    world.scripts.loaded = True  # for others
    assert world.names("HTTLFIELD h f") == [b"EVAL"]


def test_what_may_take_an_item_makes_the_key_managed_where_it_goes(world: World) -> None:
    world.take(encode((b"LEASE", b"a", b"b", b"EX", b"9", b"BLOCK", b"0")))
    for _ in range(10):
        world.registry.barrier()
    assert world.step.wait
    world.session.attempt(world.step.wait)
    assert world.registry.places(b"b") == [(0, b"b")]


def test_whoever_is_let_in_is_served() -> None:
    world = World(asks_login=True)
    assert world.session.before_login
    world.say("RESET")
    assert world.session.before_login
    ((_, sha, *_),) = world.say("HTTLFIELD h f")
    assert sha == world.scripts["refuse"].sha
    world.session.logged_in()
    assert not world.session.before_login
    ((_, sha, *_),) = world.say("HTTLFIELD h f")
    assert sha == world.scripts["hash_ttl"].sha


def test_after_reset_whoever_may_have_logged_in_anew_is_served(world: World) -> None:
    world.rights.learn([b"user default on #af ~* +@all"])
    world.say("RESET")
    ((_, sha, *_),) = world.say("HTTLFIELD h f")
    assert sha == world.scripts["refuse"].sha
    world.say("AUTH word")
    ((_, sha, *_),) = world.say("HTTLFIELD h f")
    assert sha == world.scripts["hash_ttl"].sha


def test_who_leaves_without_a_login_is_gone() -> None:
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


@pytest.mark.parametrize("length", [100, 101])
def test_a_request_may_be_as_large_as_the_limit_says(length: int) -> None:
    world = World(max_request_bytes=100)
    frame = len(encode((b"HTTLFIELD", b"h", b"f" * 50))) - 50
    ((_, sha, *_),) = world.say(encode((b"HTTLFIELD", b"h", b"f" * (length - frame))))
    assert (sha == world.scripts["refuse"].sha) == (length > 100)


@pytest.mark.parametrize(
    ("words", "goes_on"),
    [
        ((b"SET", b"k"), True),
        ((b"SET", b"__ttl:x"), False),
        ((b"SET", b"managed"), False),
        ((b"MYSTERY", b"k"), False),
        ((b"PING",), True),
    ],
)
def test_a_large_request_goes_on_before_it_is_whole_where_its_beginning_says_all(
    world: World, words: tuple[bytes, ...], goes_on: bool
) -> None:
    world.registry.announced(0, b"managed", NOW_MS + 9)
    begun = encode((*words, b"v" * 100_000))[:90_000]
    assert world.take(begun) == (begun if goes_on else b"")
    assert world.session.streams == goes_on


def test_a_key_that_gets_deadlines_late_while_a_large_value_comes_is_swept(world: World) -> None:
    request = encode((b"APPEND", b"k", b"v" * 300_000))
    world.take(request[:100_000])
    world.take(request[100_000:200_000])
    world.registry.announced(0, b"k", NOW_MS + 9)
    world.take(request[200_000:])
    world.take(encode((b"PING",)))
    assert world.step.sweep_after == {b"k"}


def test_what_replicates_is_relayed_unread_and_has_no_boundary(world: World) -> None:
    assert not world.session.relays
    world.say("PSYNC ? -1")
    assert world.session.relays
    assert world.session.unfinished == "relayed unread"


def test_what_only_some_servers_read_is_relayed_and_nothing_is_put_behind_it(world: World) -> None:
    begun = b"*1048577\r\n$4\r\nPING\r\n"
    assert world.take(begun) == begun
    assert world.session.relays
    assert world.session.finish() == b""


def test_behind_what_redis_refuses_to_read_nothing_is_relayed(world: World) -> None:
    world.take(b"*1\r\n:5\r\n")
    assert not world.session.relays


def test_internal_keys_may_be_named_where_they_are_shown(world: World) -> None:
    assert world.names("GET __ttl:x") == [b"EVALSHA"]
    world.rights.shows_internal = True
    assert world.names("GET __ttl:x") == [b"GET"]


def test_what_begins_in_pieces_counts_for_what_follows(world: World) -> None:
    world.registry.announced(0, b"other", NOW_MS + 9)
    multi = encode((b"MULTI",))
    assert world.take(multi[:9]) + world.take(multi[9:]) == multi
    assert world.names("HSET h f v") == [b"EVAL"]


@pytest.mark.parametrize(("has_action", "name"), [(True, b"EVALSHA"), (False, b"HEXPIRE")])
def test_deadlines_are_ours_where_a_rule_may_say_what_becomes_of_elements(
    world: World, has_action: bool, name: bytes
) -> None:
    world.registry.has_action = lambda key: has_action and key == b"h"
    assert world.names("HEXPIRE h 9 FIELDS 1 f") == [name]
    assert world.names("HEXPIRE other 9 FIELDS 1 f") == [b"HEXPIRE"]


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
    step = world.step._replace(**said)  # type: ignore[arg-type]
    assert step.must_reap == must_reap


def test_an_unconfirmed_change_ends_what_is_looked_at(world: World) -> None:
    world.take(encode((b"SCRIPT", b"FLUSH")))
    assert world.step.look
    assert world.step.pauses


def test_a_request_that_waits_ends_what_is_looked_at(world: World) -> None:
    assert not world.step.pauses
    world.take(encode((b"LEASE", b"a", b"b", b"EX", b"9", b"BLOCK", b"0")))
    assert world.step.pauses
