"""A script's fast path does exactly what its general part does, and ordinary calls take it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data_path.test_differential import generated
from tests.support.containers import AnyServer
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.server_queries import info
from ttlproxy.core.keys import DEFAULT_PREFIX, KEY_EXPIRY, Keys
from ttlproxy.scripts import Script, Scripts, Traits

KEY = b"k"
INDEX = Keys(DEFAULT_PREFIX).index(KEY)
FAR_MS = 4_102_444_800_000
NEAR_MS = FAR_MS - 10**9
# A script has its fast path only for so many words; list_pop has no words to count.
FAST = re.compile(rb"#ARGV < 1000|(?<=next_one = )not counting|(?<=next_one = )not dry_run")
ELEMENTS = ["a", "b", "c", "no", ""]
# Where in a script an error has happened.
WHERE = re.compile(rb"f_[0-9a-f]{40}|[0-9a-f]{40}|user_script:\d+")
# A deadline that is counted from now: each run of a script has another.
SOON = re.compile(rb"(?<!\d)1[789]\d{11}(?!\d)")


class Write(NamedTuple):
    """A script, the type of its key, and the words of a call."""

    script: str
    kind: str
    words: tuple[str, ...]


_element = st.sampled_from(ELEMENTS)
_elements = st.lists(_element, min_size=1, max_size=3)
_value = st.sampled_from(["v", "1", "x" * 70])
_number = st.sampled_from(["1", "2", "-3.5", "1e2", "inf", "x", "0x10", "-", "1" * 400])
_pairs = st.lists(st.tuples(_element, _value), min_size=1, max_size=3)
_tuples = st.lists(st.tuples(_number, _element), min_size=1, max_size=3)
_origin = st.sampled_from(["0", "0", "0", "0", "?0,3"])
_how = st.builds(
    "".join,
    st.tuples(
        st.sampled_from("0001"),
        st.sampled_from(["", "", "", "", "NX", "XX", "GT", "LT", "FNX"]),
        st.sampled_from(
            ["+100000000", "+1", "", "1", "0", f"{FAR_MS}", f"{NEAR_MS}", f"{FAR_MS * 100}"]
        ),
        st.sampled_from(["", "", "", "/2", "/1E"]),
    ),
)


def _flat(pairs: list[tuple[str, str]]) -> list[str]:
    return [word for pair in pairs for word in pair]


def _write(script: str, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Write]:
    """Each part is a word, or a list of words."""
    return st.tuples(*parts).map(
        lambda found: Write(
            script,
            script.partition("_")[0],
            tuple(word for part in found for word in ([part] if isinstance(part, str) else part)),
        )
    )


def _timed(script: str, name: str, words: st.SearchStrategy[Any]) -> st.SearchStrategy[Write]:
    return _write(script, _origin.map(lambda db: f"{db} {name}"), _how, words)


_rule = st.sampled_from(
    [
        *("0+100000000", "1+100000000", "0+100000000/2", "1+100000000/1E"),
        *("0=1+100000000;3=0", "0=0;3=1+5", "0", "1"),
    ]
)


def _ruled(
    script: str, names: list[str], *words: st.SearchStrategy[Any]
) -> st.SearchStrategy[Write]:
    origins = st.tuples(_origin, st.sampled_from(names)).map(" ".join)
    return _write(script, origins, _rule, *words)


_names = st.sampled_from
_ADD = ["ZADD", "ZADD GT", "ZADD LT CH", "ZADD NX", "ZADD XX", "ZADD XX NX"]
WRITES = st.one_of(
    _write("hash_set", _names(["HSET", "HMSET"]), _pairs.map(_flat)),
    _write("hash_set", st.just("HSET"), st.just(["a", "1", "b"])),
    _write("hash_keep", _names(["HSETNX", "HINCRBYFLOAT"]), _element, _number),
    _write("hash_del", _elements),
    _write("set_add", _elements),
    _write("set_rem", _elements),
    _write("zset_add", _names(_ADD), _tuples.map(_flat)),
    _write("zset_add", _names(["GEOADD", "GEOADD XX CH"]), st.just(["13", "38"]), _element),
    _write("zset_keep", _names(["ZINCRBY", "ZADD INCR", "ZADD XX INCR"]), _number, _element),
    _write("zset_rem", _elements),
    _write("list_push", _names(["LPUSH", "RPUSH", "LPUSHX", "RPUSHX"]), _elements),
    _write("list_set", _names(["0", "-1", "9", "x"]), _element),
    _write("list_insert", _names(["BEFORE", "AFTER", "x"]), _element, _element),
    _write("list_rem", _names(["0", "1", "-1", "x"]), _element),
    _write("list_pop", _names(["LPOP", "RPOP"])),
    *(_timed(f"{kind}_expire", "xexpire", _elements) for kind in ("hash", "set", "zset", "list")),
    _timed("hash_setex", "hsetex", _pairs.map(_flat)),
    _timed("set_addex", "saddex", _elements),
    _timed("zset_addex", "zaddex", _tuples.map(_flat)),
    _timed("list_pushex", "lpushex", _elements),
    _timed("list_pushex", "rpushex", _elements),
    _ruled("hash_write", ["hset", "hmset"], _pairs.map(_flat)),
    _ruled("hash_write", ["hsetnx"], _element, _value),
    _ruled("hash_alter", ["hincrby", "hincrbyfloat"], _element, _number),
    _ruled("set_write", ["sadd"], _elements),
    _ruled("zset_write", ["zadd"], _names(_ADD), _tuples.map(_flat)),
    _ruled("zset_alter", ["zincrby"], _names(["ZINCRBY", "ZADD XX INCR"]), _number, _element),
    _ruled("list_write", ["lpush", "rpush", "lpushx", "rpushx"], _elements),
)
ENTRIES: dict[str, tuple[str, Callable[[str], list[str]]]] = {
    "hash": ("HSET", lambda element: [element, "1"]),
    "set": ("SADD", lambda element: [element]),
    "zset": ("ZADD", lambda element: ["2", element]),
    "list": ("RPUSH", lambda element: [element]),
}


class State(NamedTuple):
    """kind: the key's type, "" for that of the script; dated: elements with a deadline."""

    kind: str
    there: list[str]
    dated: dict[str, int]
    key_expires: bool
    is_noted: bool
    index_is_other: bool
    schedule: str
    is_full: bool


_seldom = st.sampled_from([False] * 9 + [True])
STATES = st.builds(
    State,
    st.sampled_from(["", "", "", "", "string", "hash", "list"]),
    st.lists(_element, max_size=4, unique=True),
    st.dictionaries(
        _element, st.sampled_from([NEAR_MS, FAR_MS - 5, FAR_MS, FAR_MS * 2]), max_size=3
    ),
    _seldom,
    _seldom,
    _seldom,
    st.sampled_from(["right", "right", "none", "stale", "other"]),
    _seldom,
)


def requests(
    state: State, kind: str, schedule: bytes, key: bytes = KEY, index: bytes = INDEX
) -> Iterator[list[Any]]:
    """What makes the state of a key; `kind`: its type, if the state has none."""
    kind = state.kind or kind
    if kind == "string":
        yield ["SET", key, "v"]
    elif state.there:
        command, words = ENTRIES[kind]
        yield [command, key, *chain.from_iterable(map(words, state.there))]
    if state.index_is_other:
        yield ["SET", index, "v"]
    elif state.dated:
        yield ["ZADD", index, *_flat([(str(at), name) for name, at in state.dated.items()])]
    if state.schedule == "other":
        yield ["SET", schedule, "v"]
    elif state.schedule == "stale":
        yield ["ZADD", schedule, 1, key]
    elif state.schedule == "right" and state.dated:
        yield ["ZADD", schedule, min(state.dated.values()), key]
    if state.key_expires:
        yield ["PEXPIREAT", key, FAR_MS]
    if state.is_noted and not state.index_is_other:
        yield ["ZADD", index, -FAR_MS, KEY_EXPIRY]


class Outcome(NamedTuple):
    """What a call leaves: its reply, all keys with their expiries, and the keyspace events."""

    reply: Any
    content: list[tuple[bytes, bytes, Any, int]]
    events: list[bytes]


class World:
    """A server to call scripts on; `user` is who calls them."""

    def __init__(self, server: AnyServer) -> None:
        self._port = server.port
        self.in_layout_of_a_cluster(False)
        self.direct, self.user = Client(server.port), Connection(server.port)
        self.events = Connection(server.port)
        self.direct.ask("CONFIG", "SET", "notify-keyspace-events", "KA")
        self.events.ask("PSUBSCRIBE", "__keyspace@*")
        self.user.ask("HELLO", "3")

    def in_layout_of_a_cluster(self, clustered: bool) -> None:
        """Calls scripts as in front of a Cluster: with a guard, and the schedule of the slot."""
        keys = Keys(DEFAULT_PREFIX, clustered)
        self._schedule = keys.shared_by(KEY, keys.schedule)
        self._named = [*([keys.guard(KEY)] if clustered else []), KEY, INDEX, self._schedule]

    def close(self) -> None:
        self.direct.ask("CONFIG", "SET", "maxmemory", 0)
        self.direct.ask("CONFIG", "SET", "notify-keyspace-events", "")
        self.direct.ask("ACL", "DELUSER", "lacking")
        for connected in (self.direct, self.user, self.events):
            connected.close()

    def run(self, state: State, write: Write, text: bytes) -> Outcome:
        self.direct.ask("FLUSHALL")
        self.direct.ask_many([*requests(state, write.kind, self._schedule), ["PING"]])
        if state.is_full:
            self.direct.ask("CONFIG", "SET", "maxmemory", 1)
        self._events()
        reply = self._called(write, text)
        events = self._events()
        if state.is_full:
            self.direct.ask("CONFIG", "SET", "maxmemory", 0)
        return Outcome(WHERE.sub(b"", reply), self._content(), events)

    def count(self, state: State, write: Write, text: bytes) -> int:
        """How many commands of Redis a call calls."""
        self.direct.ask("FLUSHALL")
        self.direct.ask_many([*requests(state, write.kind, self._schedule), ["PING"]])
        return self.called_by(lambda: self._called(write, text))

    def called_by(self, call: Callable[[], Any]) -> int:
        """How many commands of Redis a script calls."""
        self.direct.ask("CONFIG", "RESETSTAT")
        reply = call()
        assert isinstance(reply, list) or reply[:1] != b"-"
        stats = info(self._port, "commandstats")
        return sum(
            int(stat.split(",")[0].removeprefix("calls="))
            for name, stat in stats.items()
            if name.removeprefix("cmdstat_").partition("|")[0] not in {"eval", "info", "config"}
        )

    def becomes(self, lacking: str) -> None:
        """Whoever calls the scripts is a user without these rights."""
        rights = ["reset", "on", "nopass", "~*", "&*", "+@all", *lacking.split()]
        assert self.direct.ask("ACL", "SETUSER", "lacking", *rights) == b"OK"
        self.user.ask("AUTH", "lacking", "")

    def _called(self, write: Write, text: bytes) -> bytes:
        return self.user.ask("EVAL", text, len(self._named), *self._named, *write.words)

    def _events(self) -> list[bytes]:
        """Those since the last time. On an index the fast path writes together what the general
        part writes one by one, so each event of an internal key counts once."""
        self.direct.ask("PUBLISH", "__keyspace@end", "")
        found: list[bytes] = []
        while b"__keyspace@end" not in (event := self.events.read()):
            event = SOON.sub(b"SOON", event)
            if DEFAULT_PREFIX not in event or event not in found:
                found.append(event)
        return sorted(found)

    def _content(self) -> list[tuple[bytes, bytes, Any, int]]:
        return [self._key(name) for name in sorted(self.direct.ask("KEYS", "*"))]

    def _key(self, name: bytes) -> tuple[bytes, bytes, Any, int]:
        kind = self.direct.ask("TYPE", name)
        value: Any
        if kind == b"set":  # a DUMP has no certain order
            value = sorted(self.direct.ask("SMEMBERS", name))
        elif kind == b"hash":
            words = self.direct.ask("HGETALL", name)
            value = dict(zip(words[::2], words[1::2], strict=True))
        elif kind == b"zset":  # a DUMP would show the clock
            value = self.direct.ask("ZRANGE", name, 0, -1, "WITHSCORES")
            value = [SOON.sub(b"SOON", word) for word in value]
        else:
            value = self.direct.ask("DUMP", name)
        return name, kind, value, self.direct.ask("PTTL", name) // 10**7


@pytest.fixture
def world(plain: AnyServer) -> Iterator[World]:
    with closing(World(plain)) as made:
        yield made


@pytest.fixture
def made_for(world: World) -> Callable[[Traits], Scripts]:
    """The scripts for this server and such traits."""
    flags = world.direct.ask("COMMAND", "INFO", "EVAL_RO") != [None]

    @cache
    def made(traits: Traits) -> Scripts:
        scripts = Scripts(DEFAULT_PREFIX)
        scripts.suit(traits._replace(flags=flags))
        return scripts

    return made


@pytest.fixture
def scripts(made_for: Callable[[Traits], Scripts]) -> Scripts:
    return made_for(Traits())


TRAITS = [
    *(Traits(), Traits(), Traits(clustered=True)),
    *(Traits(ruled=True), Traits(ruled=True, counting=True), Traits(events="hszlKE")),
]


def _general(script: Script) -> bytes:
    """The script without its fast path."""
    text, count = FAST.subn(b"false", script.text)
    assert count in (1, 2), script.name
    return text


@generated
@given(state=STATES, write=WRITES, traits=st.sampled_from(TRAITS))
def test_a_fast_path_does_what_the_general_part_does(
    world: World,
    made_for: Callable[[Traits], Scripts],
    state: State,
    write: Write,
    traits: Traits,
) -> None:
    script = made_for(traits)[write.script]
    world.in_layout_of_a_cluster(traits.clustered)
    assert world.run(state, write, script.text) == world.run(state, write, _general(script))


LACKING = [
    *("-hset -hmset", "-hdel", "-sadd", "-srem", "-zadd", "-zrem", "-lpush -rpush", "-lset"),
    *("-zscore", "-zmscore", "-zrange", "-pttl", "-hexists -sismember", "-set", "-del", "-time"),
    *("resetkeys ~k", "resetkeys ~k ~__ttl:{*", "resetkeys ~__ttl:*"),
]


@generated
@given(state=STATES, write=WRITES, lacking=st.sampled_from(LACKING))
def test_for_a_user_who_lacks_a_right_too(
    world: World, scripts: Scripts, state: State, write: Write, lacking: str
) -> None:
    script = scripts.careful(write.script)
    world.becomes(lacking)
    assert world.run(state, write, script.text) == world.run(state, write, _general(script))


# Elements that lose their deadlines, while others keep theirs.
A_CLEARING_WRITE = 5
CLEARING = [
    (Write("hash_set", "hash", ("HSET", "a", "1")), A_CLEARING_WRITE + 1),
    (Write("hash_set", "hash", ("HMSET", "a", "1", "new", "2")), A_CLEARING_WRITE + 1),
    (Write("hash_del", "hash", ("a", "no")), A_CLEARING_WRITE),
    (Write("set_rem", "set", ("a",)), A_CLEARING_WRITE),
    (Write("zset_rem", "zset", ("a",)), A_CLEARING_WRITE),
]
# The words of an ordinary call -> how many commands of Redis its fast path calls.
A_WRITE, A_LATER_DEADLINE, A_FIRST_DEADLINE = 2, 6, 7
# Where it comes soon.
ANNOUNCED = 4
ORDINARY = [
    (Write("hash_set", "hash", ("HSET", "a", "1")), A_WRITE),
    (Write("hash_set", "hash", ("HMSET", "a", "1", "b", "2", "c", "3")), A_WRITE),
    (Write("hash_keep", "hash", ("HSETNX", "new", "1")), A_WRITE),
    (Write("hash_keep", "hash", ("HINCRBYFLOAT", "old", "1")), A_WRITE + 1),
    (Write("hash_del", "hash", ("a", "b")), A_WRITE),
    (Write("set_add", "set", ("new",)), A_WRITE),
    (Write("set_add", "set", ("new", "old")), A_WRITE + 1),
    (Write("set_rem", "set", ("a",)), A_WRITE),
    (Write("zset_add", "zset", ("ZADD", "1", "a")), A_WRITE),
    (Write("zset_add", "zset", ("ZADD GT CH", "1", "a", "2", "b")), A_WRITE),
    (Write("zset_add", "zset", ("GEOADD", "13", "38", "new")), A_WRITE),
    (Write("zset_keep", "zset", ("ZINCRBY", "1", "a")), A_WRITE),
    (Write("zset_keep", "zset", ("ZINCRBY", "1", "old")), A_WRITE + 1),
    (Write("zset_rem", "zset", ("a",)), A_WRITE),
    (Write("list_push", "list", ("LPUSH", "new", "a")), A_WRITE),
    (Write("list_insert", "list", ("BEFORE", "a", "new")), A_WRITE),
    (Write("list_rem", "list", ("0", "a")), A_WRITE),
    (Write("list_set", "list", ("0", "new")), A_WRITE + 2),
    (Write("list_pop", "list", ("LPOP",)), A_WRITE + 1),
]
SETTERS = [
    *((Write(f"{kind}_expire", kind, ("0 n", "HOW", "a")), -1) for kind in ENTRIES),
    (Write("hash_setex", "hash", ("0 hsetex", "HOW", "a", "1", "new", "2")), 0),
    (Write("set_addex", "set", ("0 saddex", "HOW", "a", "new")), 0),
    (Write("zset_addex", "zset", ("0 zaddex", "HOW", "1.5", "a", "2", "new")), 0),
    (Write("list_pushex", "list", ("0 rpushex", "HOW", "a")), 0),
    (Write("hash_write", "hash", ("0 hset", "HOW", "a", "1", "new", "2")), 0),
    (Write("set_write", "set", ("0 sadd", "HOW", "a", "new")), 0),
    (Write("zset_write", "zset", ("0 zadd", "HOW", "ZADD", "1.5", "a", "2", "new")), 0),
    (Write("list_write", "list", ("0 rpush", "HOW", "a")), 0),
]
for how in ("0+100000000", f"0{FAR_MS + 1}"):
    for setter, less in SETTERS:
        words = (setter.words[0], how, *setter.words[2:])
        ORDINARY.append((setter._replace(words=words), A_LATER_DEADLINE + less))
ORDINARY += [
    (Write("set_write", "set", ("0 sadd", "1+100000000", "a", "old")), A_WRITE),
    (Write("hash_alter", "hash", ("0 hincrby", "1+100000000", "old", "1")), A_WRITE + 1),
    (Write("zset_alter", "zset", ("0 zincrby", "1+100000000", "ZINCRBY", "1", "a")), A_WRITE + 1),
    (Write("set_write", "set", ("0 sadd", "1+100000000", "new", "more")), A_LATER_DEADLINE),
    (Write("list_write", "list", ("0 rpush", "1+100000000", "new")), A_LATER_DEADLINE + 1),
    (
        Write("zset_write", "zset", ("0 zadd", "1+100000000", "ZADD", "1", "new")),
        A_LATER_DEADLINE + 1,
    ),
]
PLAIN = State(
    "", ["a", "b", "old"], {"old": 1_700_000_000_000}, False, False, False, "right", False
)


@pytest.mark.parametrize(("write", "count"), ORDINARY, ids=lambda case: str(case))
def test_the_ordinary_case_takes_the_fast_path(
    world: World, scripts: Scripts, write: Write, count: int
) -> None:
    assert world.count(PLAIN, write, scripts[write.script].text) == count


@pytest.mark.parametrize(("setter", "less"), SETTERS, ids=lambda case: str(case))
def test_a_first_deadline_takes_the_fast_path(
    world: World, scripts: Scripts, setter: Write, less: int
) -> None:
    text = scripts[setter.script].text
    for how, more in (("0+100000000", 0), ("0+50000", ANNOUNCED)):
        write = setter._replace(words=(setter.words[0], how, *setter.words[2:]))
        calls = world.count(PLAIN._replace(dated={}), write, text)
        assert calls == A_FIRST_DEADLINE + less + more


@pytest.mark.parametrize(("write", "count"), CLEARING, ids=lambda case: str(case))
def test_elements_lose_their_deadlines_on_a_fast_path(
    world: World, scripts: Scripts, write: Write, count: int
) -> None:
    dated = {"a": FAR_MS, "b": FAR_MS, "c": FAR_MS, "old": FAR_MS}
    text = scripts[write.script].text
    assert world.count(PLAIN._replace(dated=dated), write, text) == count
