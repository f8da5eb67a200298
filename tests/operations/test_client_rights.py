"""A user with the rights that `ttlproxy rights` prints: all on its own keys, none on others'."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import StartProxy, StartServer
from tests.docs.generated import script_commands
from tests.support.conversation import let_pass
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import STATE
from tests.support.server_queries import calls
from tests.support.servers import Proxy, Server
from ttlproxy.commands.features.defer import command_at
from ttlproxy.commands.router import LONGER, VIRTUALS
from ttlproxy.commands.spec import Virtual
from ttlproxy.core.glob import matching
from ttlproxy.core.keys import Keys
from ttlproxy.operations.client_rights import UnfitPatternError, as_typed, rules

KEYS = Keys()
ALICE = [b"on", b"nopass", *rules(KEYS, [b"alice:*"])]
REFUSED = (b"-NOPERM", b"-ERR this key belongs", b"-ERR Error running", b"-ERR Can't")


def internal_names(key: bytes) -> list[bytes]:
    """All internal keys that Redis may hold for one key."""
    return [
        KEYS.index(key),
        KEYS.deferred(key),
        KEYS.index(KEYS.deferred(key)),
        KEYS.kept(key),
        KEYS.counts(key),
        KEYS.prefix + b"none:" + KEYS.index(key).removeprefix(KEYS.prefix),
    ]


# --- the patterns


PARTS = st.sampled_from([b"alice:", b"{", b"}", b"a", b":", b"t:", b"__ttl:", b"later:", b"*"])
NAMES = st.lists(PARTS, max_size=5).map(b"".join)
PATTERNS = st.sampled_from([b"alice:*", b"a", b"a?:*", b"a[ab]*", b"a:*:b", b"{a}*", b"a\\*b*"])


@settings(deadline=None, max_examples=100)
@given(patterns=st.lists(PATTERNS, min_size=1, max_size=2), name=st.one_of(NAMES, st.binary()))
def test_the_patterns_match_the_internal_names_of_keys_that_match_and_of_no_others(
    patterns: list[bytes], name: bytes
) -> None:
    def allowed(key: bytes, among: list[bytes]) -> bool:
        return any(matching(pattern).fullmatch(key) for pattern in among)

    globs = [rule[1:] for rule in rules(KEYS, patterns) if rule.startswith(b"~")]
    for key in (name, b"alice:" + name, b"a" + name, b"{alice:}" + name):
        own = allowed(key, patterns)
        if key.startswith(KEYS.prefix):
            continue  # clients cannot use such a key
        assert allowed(key, globs) == own
        assert [allowed(each, globs) for each in internal_names(key)] == [own] * 6


@settings(deadline=None, max_examples=300)
@given(pattern=PATTERNS, text=NAMES, name=NAMES)
def test_a_rule_in_reach_says_nothing_of_keys_out_of_reach(
    pattern: bytes, text: bytes, name: bytes
) -> None:
    globs = [rule[1:] for rule in rules(KEYS, [pattern]) if rule.startswith(b"~")]
    for rule in (text, b"alice:" + text, b"a" + text, pattern):
        in_reach = any(matching(glob).fullmatch(KEYS.rule(rule)) for glob in globs)
        for key in (name, b"alice:" + name, b"a" + name):
            if in_reach and matching(rule).fullmatch(key):
                assert matching(pattern).fullmatch(key)


@pytest.mark.parametrize("pattern", ["", "*", "*:alice", "?", "_*", "__ttl:*", "ttlproxy-*", "a b"])
def test_patterns_that_may_match_internal_names_are_refused(pattern: str) -> None:
    with pytest.raises(UnfitPatternError):
        rules(KEYS, [pattern.encode()])


def test_what_is_typed_is_what_redis_gets() -> None:
    patterns = [b"alice:*", b'q"uote\\*\xff*']
    keys = Keys(b"o[d]d:")
    words = shlex.split(as_typed(keys, patterns).decode("latin-1"))
    assert words[:5] == ["ACL", "SETUSER", "USER", "on", ">PASSWORD"]
    assert len(words) == 5 + len(rules(keys, patterns))


# --- what it can do


LogIn = Callable[[int], Connection]


@pytest.fixture
def alice(direct: Client) -> Iterator[LogIn]:
    """alice(port) opens a connection as alice, to the proxy or to Redis itself."""
    with ExitStack() as stack:
        assert direct.ask("ACL", "SETUSER", "alice", "reset", *ALICE) == b"OK"
        stack.callback(direct.ask, "ACL", "DELUSER", "alice")

        def log_in(port: int) -> Connection:
            client = stack.enter_context(Connection(port))
            assert client.ask("AUTH", "alice", "any") == b"+OK\r\n"
            return client

        yield log_in


_KEYS_AT = {"LEASE": (1, 2), "ONEXPIRE": (1, 3), "COPY": (1, 2), "RENAME": (1, 2), "TTLPROXY": (2,)}


def _of_alice(line: str) -> list[str]:
    """The request with alice's keys."""
    words = shlex.split(line)
    places: tuple[int, ...] = _KEYS_AT.get(words[0].upper(), (1,))
    if words[0].upper() == "DEFER":
        at = command_at([word.encode() for word in words])
        assert at
        places = (at + 1,)
    for place in places:
        if place < len(words):
            words[place] = f"alice:{words[place]}"
    return words


@pytest.mark.parametrize(
    "virtual",
    [*VIRTUALS.values(), *LONGER.values()],
    ids=lambda virtual: virtual.name,
)
def test_she_has_every_command_on_her_own_keys(
    alice: LogIn, proxy: Proxy, version: str, virtual: Virtual
) -> None:
    client = alice(proxy.port)
    for line, reply in virtual.example:
        answer = client.ask(*_of_alice(line))
        if " PUBLISH " in line and version == "6.2":
            continue  # there it needs the right to all channels: docs/limits.md
        assert answer.startswith(b"-") == ("(error)" in reply), (line, answer)


def test_she_adds_fractions_which_takes_a_key_of_the_proxys(alice: LogIn, proxy: Proxy) -> None:
    added = alice(proxy.port).ask("INCREX", "alice:f", "BYFLOAT", "0.5", "EX", "100")
    assert added == b"*2\r\n$3\r\n0.5\r\n$3\r\n0.5\r\n"


def test_she_has_what_is_handed_on_and_carried_out(alice: LogIn, proxy: Proxy) -> None:
    client = alice(proxy.port)
    for line in (
        "ONEXPIRE alice:in RPUSH alice:out MAX 2 ELSE alice:dead",
        "ONEXPIRE alice:kept KEEP",
        "SADDEX alice:in PX 1 MEMBERS 1 m",
        "SADDEX alice:kept PX 1 MEMBERS 1 m",
        "DEFER PX 1 LPUSH alice:done x",
    ):
        assert not client.ask(*line.split()).startswith(b"-"), line
    wait_until(lambda: client.ask("EXISTS", "alice:out", "alice:done") == b":2\r\n", "both there")
    wait_until(lambda: client.ask("EXISTS", "alice:kept") == b":0\r\n", "it kept")
    assert b"$1\r\nm\r\n" in client.ask("TAKE", "alice:kept")
    assert client.ask("ONEXPIRE", "alice:in", "DEL") == b"+OK\r\n"


def test_she_sees_the_keyspace_as_others_do(alice: LogIn, proxy: Proxy, client: Client) -> None:
    client.ask("ONEXPIRE", "bob:*", "RPUSH", "bob:late")
    client.ask("SADDEX", "bob:s", 100, "a")
    client.ask("DEFER", "EX", 100, "DEL", "bob:s")
    hers = alice(proxy.port)
    assert hers.ask("SADDEX", "alice:s", 100, "a") == b":1\r\n"
    assert hers.ask("DBSIZE") == b":2\r\n"
    assert b"alice:s" in hers.ask("SCAN", 0, "COUNT", 1000)
    assert b"__ttl" not in hers.ask("SCAN", 0, "COUNT", 1000)
    assert hers.ask("RANDOMKEY").startswith(b"$")
    assert hers.ask("ONEXPIRE") == b"*0\r\n", "what others do at a deadline is not hers to see"
    for line in ("WATCH alice:s", "MULTI", "SADDEX alice:s 100 b", "SREM alice:s a", "EXEC"):
        assert not hers.ask(*line.split()).startswith(b"-"), line


def test_all_that_scripts_call_is_there(direct: Client, alice: LogIn, server: Server) -> None:
    kinds = [direct.ask("ACL", "CAT", kind) for kind in ("admin", "dangerous", "scripting")]
    left_out = {name.decode().upper() for names in kinds for name in names}
    called = {*script_commands()} - {"CLUSTER"}  # only in a Cluster, where --cluster grants it
    assert left_out.intersection(called) == {"INFO", "SWAPDB"}
    assert not alice(server.port).ask("INFO").startswith(b"-")


# --- what she cannot do


@pytest.fixture
def of_bob(client: Client) -> Client:
    """Bob's keys have deadlines, a rule, and something deferred, kept and counted."""
    client.ask("HSET", "bob:h", "f", "v")
    client.ask("HEXPIREFIELD", "bob:h", "f", 1000)
    client.ask("ONEXPIRE", "bob:*", "RPUSH", "bob:late")
    client.ask("DEFER", "EX", 1000, "ID", "d", "LPUSH", "bob:q", "x")
    return client


_ATTACKS = (
    "DEL {}",
    "SET {} x",
    "HSET {} d x",
    "ZADD {} 1 f",
    "RENAME {} alice:x",
    "COPY {} alice:x",
    "GET {}",
    "TYPE {}",
    "EXPIRE {} 1",
    "EVAL return(redis.call('DEL',KEYS[1])) 1 {}",
    "EVAL return(redis.call('DEL',ARGV[1])) 0 {}",
    "EVAL return(redis.call('HGETALL',ARGV[1])) 0 {}",
)


@pytest.mark.parametrize("attack", _ATTACKS)
def test_nothing_internal_of_others_is_in_her_reach(
    alice: LogIn, proxy: Proxy, server: Server, direct: Client, of_bob: Client, attack: str
) -> None:
    names = [name for key in (b"bob:h", b"bob:q") for name in internal_names(key)]
    names += [KEYS.rule(b"bob:*"), STATE, b"bob:h", b"bob:q"]
    # The proxy puts it back, after the flush of the test before.
    wait_until(lambda: direct.ask("EXISTS", STATE), "it is there")
    before = {name: direct.ask("TYPE", name) for name in names}
    for connection in (alice(proxy.port), alice(server.port)):
        for name in names:
            words = [word.encode().replace(b"{}", name) for word in attack.split()]
            answer = connection.ask(*words)
            assert answer.startswith(b"-"), (words, answer)
    assert {name: direct.ask("TYPE", name) for name in names} == before
    assert of_bob.ask("HTTLFIELD", "bob:h", "f") > 900


def _forge(past: Connection, key: bytes, packed: bytes, id_: bytes = b"forged") -> None:
    """Forges a deferred command that is due, for one of alice's keys."""
    later = KEYS.deferred(key)
    assert past.ask("HSET", later, id_, packed).startswith(b":")
    assert past.ask("ZADD", KEYS.index(later), 1, id_).startswith(b":")
    assert past.ask("ZADD", KEYS.schedule, 1, later).startswith(b":")
    announcement = KEYS.announcement(0, 1, later)
    assert past.ask("SET", announcement, "") == b"+OK\r\n"
    assert past.ask("DEL", announcement) == b":1\r\n"


_COMMANDS = (
    b"'COPY','bob:h','alice:h'",
    b"'RENAME','bob:h','alice:h'",
    b"'SET','bob:h','x'",
    b"'FLUSHALL'",
    b"'DEL','bob:h'",
    b"'LPUSH','bob:q','x'",
    b"'LPUSH','alice:q','x'",
    b"'DEL','alice:q'",
    b"'LPUSH',{},'x'",
)


def _packed(past: Connection, words: bytes) -> bytes:
    script = b"redis.call('SET', KEYS[1], cmsgpack.pack(%s)) return 1" % words
    assert past.ask("EVAL", script, 1, "alice:packed") == b":1\r\n"
    bulk = past.ask("GET", "alice:packed")
    assert past.ask("DEL", "alice:packed") == b":1\r\n"
    return bulk.partition(b"\r\n")[2][:-2]


_FORMS = (b"{%s}", b"'" + b"0" * 40 + b"',{%s}", b"'',{%s}", b"%s", b"{{%s}}")


def _forged() -> Iterator[object]:
    """Each command in each form; a quick run has each command and each form once at least."""
    for number, command in enumerate(_COMMANDS):
        for place, form in enumerate(_FORMS):
            is_quick = place == number % len(_FORMS)
            yield pytest.param(command, form, marks=() if is_quick else pytest.mark.slow)


@pytest.mark.parametrize(("command", "form"), list(_forged()))
def test_a_forged_deferred_command_is_never_carried_out_and_holds_up_nothing(
    alice: LogIn,
    proxy: Proxy,
    server: Server,
    direct: Client,
    of_bob: Client,
    command: bytes,
    form: bytes,
) -> None:
    past, hers = alice(server.port), alice(proxy.port)
    assert past.ask("LPUSH", "alice:q", "there") == b":1\r\n"
    _forge(past, b"alice:q", _packed(past, form % command))
    assert hers.ask("DEFER", "PX", 1, "ID", "good", "LPUSH", "alice:q", "y") == b"$4\r\ngood\r\n"
    wait_until(lambda: direct.ask("LLEN", "alice:q") == 2, "what stands behind it carried out")
    assert direct.ask("LRANGE", "alice:q", 0, -1) == [b"y", b"there"]
    assert direct.ask("EXISTS", "alice:h", "bob:late") == 0
    assert of_bob.ask("HTTLFIELD", "bob:h", "f") > 900
    aside = float(direct.ask("ZSCORE", KEYS.index(KEYS.deferred(b"alice:q")), "forged"))
    assert aside > direct.now_ms() + 3_000_000, "it is looked at again in an hour"
    assert hers.ask("UNDEFER", "alice:q", "forged") == b":1\r\n"


# A signature and a command: words, of which one is a number or a list.
NO_WORDS = [b"\xa3sig\x93\xa3DEL\xa7alice:q" + word for word in (b"\x05", b"\x91\xa1x")]


@pytest.mark.parametrize(
    "junk", [b"", b"\xc1", b"\xdc\xff\xff", b"x", b"\x91" * 9000, b"\x00", *NO_WORDS]
)
def test_junk_among_deferred_commands_holds_up_nothing(
    alice: LogIn, proxy: Proxy, server: Server, direct: Client, junk: bytes
) -> None:
    past, hers = alice(server.port), alice(proxy.port)
    _forge(past, b"alice:q", junk)
    assert hers.ask("DEFER", "PX", 1, "LPUSH", "alice:q", "y").startswith(b"$16")
    wait_until(lambda: direct.ask("LLEN", "alice:q") == 1, "what stands behind it carried out")
    assert hers.ask("DEFERRED", "alice:q") == b"*0\r\n"


def test_a_signed_entry_counts_in_its_own_hash_only(
    alice: LogIn, proxy: Proxy, server: Server, direct: Client
) -> None:
    past, hers = alice(server.port), alice(proxy.port)
    hers.ask("DEFER", "EX", 1000, "ID", "a", "LPUSH", "alice:q", "x")
    signed = direct.ask("HGET", KEYS.deferred(b"alice:q"), "a")
    _forge(past, b"alice:r", signed)
    assert hers.ask("DEFER", "PX", 1, "LPUSH", "alice:r", "y").startswith(b"$16")
    wait_until(lambda: direct.ask("LLEN", "alice:r") == 1, "what stands behind it carried out")
    assert direct.ask("EXISTS", "alice:q") == 0


def test_a_forged_rule_is_none(
    alice: LogIn, proxy: Proxy, server: Server, direct: Client, of_bob: Client
) -> None:
    past, hers = alice(server.port), alice(proxy.port)
    row = b"11:RPUSH - 0 5:bob:q0:5:RPUSH5:bob:q"
    for value in (row, b"0" * 40 + row):
        assert past.ask("SET", KEYS.rule(b"alice:*"), value) == b"+OK\r\n"
        for pattern in (":alice:*", ":bob:*", ":bob:h", ":*"):
            assert past.ask("HSET", KEYS.rules, pattern, value, "version", "x").startswith(b":")
        past.ask("SET", b"__ttl:!rules:0:1", "")
        past.ask("DEL", b"__ttl:!rules:0:1")
        hers.ask("SADDEX", "alice:s", "PX", 1, "MEMBERS", 1, "m")
        wait_until(lambda: direct.ask("EXISTS", "alice:s") == 0, "hers deleted")
        of_bob.ask("SADDEX", "bob:s", "PX", 1, "MEMBERS", 1, "m")
        wait_until(lambda: direct.ask("LRANGE", "bob:late", 0, -1) == [b"m"], "his handed on")
        assert direct.ask("EXISTS", "bob:q") == 0
        direct.ask("DEL", "bob:late")


def test_who_takes_the_list_of_rules_away_ends_none(
    alice: LogIn, server: Server, direct: Client, of_bob: Client
) -> None:
    past = alice(server.port)
    for number, line in enumerate(
        ("DEL {}", "SET {} x", "HDEL {} :bob:*", "HSET {} version 1e300")
    ):
        past.ask(*(word.encode().replace(b"{}", KEYS.rules) for word in line.split()))
        of_bob.ask("SADDEX", "bob:s", "PX", 1, "MEMBERS", 1, number)
        wait_until(lambda: direct.ask("EXISTS", "bob:s") == 0, "it gone")
        assert direct.ask("LINDEX", "bob:late", -1) == b"%d" % number, line
    past_deadline = ("SADDEX", "bob:s", "PXAT", 1, "MEMBERS", 1, "due already")
    past.ask("DEL", KEYS.rules)
    of_bob.ask(*past_deadline)
    wait_until(lambda: direct.ask("LINDEX", "bob:late", -1) == b"due already", "it handed on")


# --- a proxy that starts later, or finds garbage


@pytest.fixture
def own(start_server: StartServer) -> Iterator[tuple[Server, Client]]:
    """A server with alice's user; elements are reaped only for reads."""
    server = start_server()
    with closing(Client(server.port)) as direct:
        direct.ask("ACL", "SETUSER", "alice", *ALICE)
        yield server, direct


_ON_SCHEDULE = (
    "ZREM {} bob:s",
    "ZADD {} 9e15 bob:s",
    "ZADD {} inf bob:s",
    "DEL {}",
    "SET {} x",
    "RENAME {} __ttl:lease",
    "ZADD {} -inf junk 1 __ttl:rules 2 __ttl:state",
)


@pytest.mark.parametrize("tampering", _ON_SCHEDULE)
def test_a_schedule_that_was_tampered_with_lets_no_read_show_what_is_due(
    own: tuple[Server, Client], start_proxy: StartProxy, tampering: str
) -> None:
    server, direct = own
    with Connection(start_proxy(server.url).port) as bob:
        assert bob.ask("SADDEX", "bob:s", 1000, "m") == b":1\r\n"
        assert bob.ask("SADDEX", "bob:s", "EX", 1000, "MEMBERS", 1, "n") == b":1\r\n"
    direct.ask("SET", KEYS.lease, "a test", "PX", 600_000)
    direct.ask("ZADD", KEYS.index(b"bob:s"), direct.now_ms() - 1000, "m")
    with Connection(server.port) as past:
        past.ask("AUTH", "alice", "any")
        words = (word.encode().replace(b"{}", KEYS.schedule) for word in tampering.split())
        assert not past.ask(*words).startswith(b"-")
    direct.ask("SET", KEYS.lease, "a test", "PX", 600_000)
    with Connection(start_proxy(server.url).port) as bob:
        assert bob.ask("SMEMBERS", "bob:s") == b"*1\r\n$1\r\nn\r\n"


def test_nor_when_a_proxy_that_knew_the_key_reads_the_schedule_again(
    own: tuple[Server, Client], start_proxy: StartProxy
) -> None:
    server, direct = own
    direct.ask("SET", KEYS.lease, "a test", "PX", 600_000)
    direct.ask("SADD", "bob:s", "m", "n")
    at_ms = direct.now_ms() + 3000
    direct.ask("ZADD", KEYS.index(b"bob:s"), at_ms, "m")
    with Connection(start_proxy(server.url).port) as bob, Connection(server.port) as past:
        past.ask("AUTH", "alice", "any")
        for _ in range(3):
            past.ask("DEL", KEYS.schedule)
            before = calls(server.port, "zscan")
            direct.ask_many([("SELECT", 7), ("FLUSHDB",), ("SELECT", 0)])
            wait_until(lambda: calls(server.port, "zscan") > before, "it read")  # noqa: B023
        let_pass(direct, at_ms - direct.now_ms())
        assert bob.ask("SMEMBERS", "bob:s") == b"*1\r\n$1\r\nn\r\n"


@pytest.mark.parametrize("tampering", _ON_SCHEDULE)
def test_and_the_reaper_finds_what_was_put_off(
    own: tuple[Server, Client], start_proxy: StartProxy, tampering: str
) -> None:
    server, direct = own
    with Connection(start_proxy(server.url).port) as bob:
        assert bob.ask("SADDEX", "bob:s", "PX", 200, "MEMBERS", 1, "m") == b":1\r\n"
        with Connection(server.port) as past:
            past.ask("AUTH", "alice", "any")
            past.ask(*(each.encode().replace(b"{}", KEYS.schedule) for each in tampering.split()))
        wait_until(lambda: direct.ask("EXISTS", "bob:s") == 0, "it removed")


@pytest.mark.parametrize("name", [KEYS.schedule, KEYS.lease, KEYS.rules, KEYS.others])
@pytest.mark.parametrize(
    "junk", ["SET {} x", "RPUSH {} x", "HSET {} f v", "SADD {} x", "ZADD {} 1 x"]
)
def test_junk_in_the_place_of_what_all_share_stops_nobody(
    own: tuple[Server, Client], start_proxy: StartProxy, name: bytes, junk: str
) -> None:
    server, _ = own
    words = [word.encode().replace(b"{}", name) for word in junk.split()]
    first = start_proxy(server.url)
    with Connection(server.port) as past, Connection(first.port) as bob:
        assert past.ask("AUTH", "alice", "any") == b"+OK\r\n"
        past.ask("DEL", name)
        assert not past.ask(*words).startswith(b"-")
        for proxy in (first, start_proxy(server.url)):
            with Connection(proxy.port) as client:
                _works(client)
        assert not bob.ask("DBSIZE").startswith(b"-")


def _works(client: Connection) -> None:
    for line in (
        "ONEXPIRE bob:s RPUSH bob:late",
        "SADDEX bob:s PX 1 MEMBERS 1 m",
        "DEFER PX 1 LPUSH bob:q x",
    ):
        wait_until(lambda: not client.ask(*line.split()).startswith(b"-"), line)  # noqa: B023
    for key in ("bob:late", "bob:q"):
        wait_until(lambda: client.ask("DEL", key) == b":1\r\n", f"{key} there")  # noqa: B023
    assert client.ask("ONEXPIRE", "bob:s", "DEL") == b"+OK\r\n"
    assert not client.ask("DBSIZE").startswith(b"-")


def test_what_stands_in_the_place_of_the_old_layout_stops_nobody(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    for number, line in enumerate(("SET {} 2", "SET {} x", "HSET {} f v")):
        server = start_server()
        with closing(Client(server.port)) as direct:
            direct.ask(*(word.encode().replace(b"{}", KEYS.old_layout) for word in line.split()))
            with Connection(start_proxy(server.url).port) as client:
                assert client.ask("SADDEX", "s", 100, number) == b":1\r\n"


def test_dbsize_is_right_again_after_somebody_has_tampered_with_it(
    own: tuple[Server, Client], start_proxy: StartProxy
) -> None:
    server, direct = own
    with Connection(start_proxy(server.url).port) as bob:
        bob.ask("ONEXPIRE", "bob:s", "KEEP")
        bob.ask("DEFER", "EX", 1000, "DEL", "bob:s")
        bob.ask("SET", "k", "v")
        for line in ("DEL {}", "SADD {} a b c"):
            direct.ask(*(word.encode().replace(b"{}", KEYS.others) for word in line.split()))
            wait_until(lambda: bob.ask("DBSIZE") == b":1\r\n", "DBSIZE right again")
