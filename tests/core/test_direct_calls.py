"""The fast path of writes to their scripts: Redis gets the same as on the general way, but that
requests in a row become one call of their script."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.session_world import NOW_MS, World, passes
from ttlproxy.commands import KeySpec, Native, Router
from ttlproxy.commands.router import OVERRIDES, VIRTUALS
from ttlproxy.commands.spec import FILLED
from ttlproxy.core.keys import Keys
from ttlproxy.core.write_rules import WriteRule, WriteRules, name_of
from ttlproxy.scripts import ON_ONE_KEY, Scripts
from ttlproxy.scripts.direct_calls import DirectCalls
from ttlproxy.session import Session, Step
from ttlproxy.wire import NOTHING_DUE, cut, encode

DIRECT = sorted(row.name for row in OVERRIDES.values() if row.direct)
ROUTER = Router(
    [
        *(Native(name, -2, frozenset({"write"}), (KeySpec("RW"),)) for name in DIRECT[::2]),
        *(Native(name, -2, frozenset({"write"}), (KeySpec(FILLED),)) for name in DIRECT[1::2]),
        Native("HSETNX", 4, frozenset({"write"}), (KeySpec(FILLED),)),
        *(Native(name, -2, frozenset({"readonly"}), (KeySpec("RO"),)) for name in ("GET", "HLEN")),
        Native("SET", -3, frozenset({"write"}), (KeySpec("OW"),)),
        Native("APPEND", 3, frozenset({"write"}), (KeySpec("RW"),)),
        Native("RENAME", 3, frozenset({"write"}), (KeySpec("RW", last=1),)),
        Native("PING", -1, frozenset()),
        Native("MULTI", 1, frozenset()),
        Native("EXEC", 1, frozenset()),
        Native("SELECT", 2, frozenset()),
        Native("BLPOP", -3, frozenset({"write", "blocking"}), (KeySpec("RW", last=-2),)),
    ]
)
BOUNDS = {b"later": NOW_MS + 1, b"never": NOTHING_DUE, b"{tag}1": NOW_MS, b"due": NOW_MS - 1}
NAMES = st.sampled_from([*DIRECT, "GET", "HLEN", "SET", "APPEND", "RENAME", "PING"]).map(str.encode)
WORDS = st.sampled_from([b"1", b"-inf", b"+2", b"a", b"NX", b"", b"plain"])
NUMBERS = st.sampled_from(
    [
        b"0",
        b"1",
        b"5",
        b"99",
        b"100",
        b"111",
        b"4102444801",
        b"70368744178",
        b"9999999999999",
        b"###",
    ]
)
ODD_WORDS = st.sampled_from([b"v" * 9000, b"later", b"due", b"__ttl:x"])
KEY_NAMES = st.sampled_from([*BOUNDS, b"plain", b"other", b"__ttl:x"])
REQUESTS = st.tuples(
    st.one_of(NAMES, NAMES.map(bytes.lower)),
    KEY_NAMES,
    st.lists(WORDS, max_size=12),
    st.lists(ODD_WORDS, max_size=1),
).map(lambda parts: encode((*parts[:2], *parts[2], *parts[3])))
WRITTEN = [b"1", b"2", b"a"]
# Requests of our own commands as their examples have them.
SETTERS = [
    [word.encode() for word in shlex.split(line)]
    for virtual in VIRTUALS.values()
    if virtual.sets_own_key
    for line, _ in virtual.example
    if line.split()[0].upper() == virtual.name
]


@st.composite
def set_requests(draw: st.DrawFn) -> bytes:
    """As in an example, for any key, and perhaps with a word more or less."""
    words = list(draw(st.sampled_from(SETTERS)))
    words[1] = draw(KEY_NAMES)
    if draw(st.booleans()):
        words[0] = words[0].lower()
    if draw(st.booleans()):
        words = [draw(NUMBERS) if word.isdigit() else word for word in words]
    at = draw(st.integers(1, 40))
    if at < len(words):
        words[at : at + draw(st.integers(0, 1))] = draw(
            st.lists(st.one_of(WORDS, ODD_WORDS), max_size=1)
        )
    return encode(tuple(words))


def _flush_and_load(world: World) -> None:
    world.say("SCRIPT FLUSH")
    world.scripts.loaded = True  # by the link; the client's flush may still come


NOTHING = World().session.from_client(b"")


def _shas_on_one_key() -> set[bytes]:
    return {script.sha for script in World().scripts.values() if script.keys == ON_ONE_KEY}


def _calls(words: Sequence[bytes]) -> list[tuple[bytes, ...]]:
    """The script calls of single requests that one for several stands for; else the words."""
    if words[0] != b"EVALSHA" or words[2] == b"3" or words[1] not in _shas_on_one_key():
        return [tuple(words)]
    number = int(words[2])
    schedule, *keys = words[3 : 3 + number]
    argv, found = list(words[3 + number :]), []
    for data, index in zip(keys[::2], keys[1::2], strict=True):
        count = int(argv[0])
        found.append((b"EVALSHA", words[1], b"3", data, index, schedule, *argv[1 : 1 + count]))
        del argv[: 1 + count]
    assert not argv
    return found


def _apart(data: bytes) -> bytes:
    """The same for the bytes of requests."""
    requests, end = cut(data)
    assert end == len(data)
    return b"".join(encode(call) for words in requests for call in _calls(words))


def _learn_rules(world: World) -> None:
    rules = {
        name_of(b"plain"): WriteRule(1000, 10),
        name_of(b"l*", b"set"): WriteRule(2000, refreshes=True),
        name_of(b"never"): WriteRule(3000, cap=5, evicts=True),
        name_of(b"{tag}*"): WriteRule(0, keeps_all=True),
    }
    rows = {name: rule.row((name,)) for name, rule in rules.items()}
    world.registry.rules.replace(0, WriteRules(rows))


def _know_family(world: World) -> None:
    """Of which other proxies do not know yet."""
    world.registry.families.add([b"oth"])


def _learn_rules_and_select(world: World) -> None:
    _learn_rules(world)
    world.say("SELECT 1")


BEFORE: dict[str, Callable[[World], object]] = {
    "": lambda world: None,
    "in MULTI": lambda world: world.say("MULTI"),
    "behind a blocking command": lambda world: world.say("BLPOP plain 0"),
    "without replies": lambda world: world.say("CLIENT REPLY OFF"),
    "behind SCRIPT FLUSH": _flush_and_load,
    "where rules of ONWRITE match": _learn_rules,
    "where a rule may match": _learn_rules_and_select,
    "while Redis may not know the scripts": lambda world: world.scripts.flushed(),
    "where a family is not sure": _know_family,
    "where no family is sure": lambda world: world.session.script_calls.families.doubt(),
    "for a user who may lack a right": lambda world: world.rights.learn_refused(hidden=True),
}


def _world(max_request_bytes: int = 1 << 30) -> World:
    world = World(max_request_bytes, router=ROUTER)
    for key, bound in BOUNDS.items():
        world.registry.announced(0, key, bound)
    families = world.session.script_calls.families
    families.known.add([b"pla"])
    families.doubt()
    families.confirm(families.known.all)  # as only what is known is ever confirmed
    return world


@pytest.mark.parametrize("name", [name for name in DIRECT if OVERRIDES[name].on_write])
def test_a_write_takes_the_fast_path_where_a_rule_matches(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, reference = _world(), _world()
    _learn_rules(world)
    _learn_rules(reference)
    override, route = OVERRIDES[name], ROUTER.find(name.encode())
    requests = [(name.encode(), b"plain", *WRITTEN[at:]) for at in range(4)]
    direct = override.direct
    chunk = encode(
        next(each for each in requests if direct and direct.takes(each) and route.fits(len(each)))
    )
    step = reference.session.from_client(chunk)
    monkeypatch.setattr(type(world.session), "_with_care", None)
    assert world.take(chunk) == step.to_redis
    assert b"+1000#10" in step.to_redis


@pytest.mark.parametrize("name", DIRECT)
def test_a_write_on_a_managed_key_takes_the_fast_path(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, reference = _world(), _world()
    direct, route = OVERRIDES[name].direct, ROUTER.find(name.encode())
    requests = [(name.lower().encode(), b"later", *WRITTEN[at:]) for at in range(4)]
    chunk = encode(
        next(each for each in requests if direct and direct.takes(each) and route.fits(len(each)))
    )
    step = reference.session.from_client(chunk)
    monkeypatch.setattr(type(world.session), "_with_care", None)
    assert _apart(world.take(chunk * 2)) == 2 * step.to_redis
    assert step.to_redis.startswith(b"*%d\r\n$7\r\nEVALSHA" % (step.to_redis.count(b"$")))


@pytest.mark.parametrize("words", SETTERS, ids=lambda words: words[0].decode())
def test_one_of_ours_takes_the_fast_path(
    words: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, reference = _world(), _world()
    chunk = encode((words[0], b"later", *words[2:]))
    step = reference.session.from_client(chunk)
    monkeypatch.setattr(type(world.session), "_with_care", None)
    assert _apart(world.take(chunk * 2)) == 2 * step.to_redis


def _comparable(step: Step) -> Step:
    """Without the functions that are told replies: each world has its own. Calls for several
    requests are taken apart."""
    told = [each._replace(tell=None) for each in step.told]
    requests, end = cut(step.to_redis)
    calls = list(map(_calls, requests))
    if all(len(of_one) == 1 for of_one in calls):
        return replace(step, told=told)
    assert end == len(step.to_redis)
    assert [each.before for each in told] == [at for at, of in enumerate(calls) if len(of) > 1]
    alone = [call for of_one in calls for call in of_one]
    to_redis = b"".join(map(encode, alone))
    return replace(step, told=[], to_redis=to_redis, requests=len(alone))


def _are_same(world: World, reference: World, requests: list[bytes]) -> None:
    """The reference takes the general way, because its session is not asked whether it passes."""
    chunk = b"".join(requests)
    step = reference.session.from_client(chunk)
    found = _comparable(_by_the_fast_path(world, chunk, step))
    assert found == _comparable(step)
    assert world.registry.bounds(0) == reference.registry.bounds(0)
    assert world.registry.has_managed == reference.registry.has_managed
    assert world.registry.expecting == reference.registry.expecting
    for name in ("forwarded", "rewritten", "virtual"):
        assert getattr(world.counts, name) == getattr(reference.counts, name)
    assert world.session.script_calls.counts == reference.session.script_calls.counts


def _by_the_fast_path(world: World, chunk: bytes, step: Step) -> Step:
    """`step`: what only the general way says of requests that are not held is as there."""
    session = world.session
    if (sent := session.at_once(chunk)) is None:
        return session.from_client(chunk)
    to_redis, requests, told = sent
    found = replace(NOTHING, to_redis=to_redis, requests=requests, told=[*told])
    if to_redis != chunk:
        return replace(found, modifies=step.modifies)
    return replace(found, uncounted=step.uncounted)


@st.composite
def like(draw: st.DrawFn, earlier: Sequence[bytes]) -> bytes:
    """One of these, perhaps with another key and another word."""
    ((words, *_), _) = cut(draw(st.sampled_from(earlier)))
    if len(words) > 1:
        words[1] = draw(st.one_of(st.sampled_from([b"later", b"never", b"{tag}1"]), KEY_NAMES))
    at = draw(st.integers(2, 40))
    if at < len(words):
        words[at] = draw(st.one_of(WORDS, NUMBERS, st.just(words[-1])))
    if draw(st.booleans()):
        words = [draw(NUMBERS) if word.isdigit() else word for word in words]
    return encode(tuple(words))


@pytest.mark.parametrize("prepare", BEFORE.values(), ids=BEFORE.keys())
@given(
    requests=st.lists(st.one_of(REQUESTS, set_requests()), min_size=1, max_size=5), data=st.data()
)
def test_redis_gets_what_it_gets_on_the_general_way(
    prepare: Callable[[World], object], requests: list[bytes], data: st.DataObject
) -> None:
    world, reference = _world(), _world()
    for each in (world, reference):
        prepare(each)
    for request in requests:
        _are_same(world, reference, [request])
    more = data.draw(st.lists(like(requests), min_size=1, max_size=4))
    for chunk in [*([each] for each in more), more]:
        _are_same(world, reference, chunk)


@pytest.mark.parametrize(
    "line",
    [
        "SADDEX plain PXAT {} MEMBERS 1 a",
        "HSETEX plain PXAT {} FIELDS 1 a 1",
        "HPEXPIREAT plain {} FIELDS 1 a",
        "SPEXPIREATMEMBER plain a {}",
        "SADDEX plain MAXLEN 10 PXAT {} MEMBERS 1 a",
    ],
)
def test_another_deadline_is_no_other_way_to_begin(line: str) -> None:
    world = _world()
    first, second = (
        encode(tuple(line.format(at).encode().split())) for at in (4102444800001, 4199999999999)
    )
    assert world.session.at_once(first) is None
    world.take(first)
    assert world.session.at_once(second) is not None


def test_a_silent_client_meets_deadlines_that_are_set_later_whatever_others_have_sent() -> None:
    world = World(router=ROUTER)
    world.say("CLIENT REPLY OFF")  # there is no family yet
    script_calls, registry = world.session.script_calls, world.registry.view((0,))
    families = script_calls.families
    families.known.add([b"pla"])
    families.confirm(families.known.all)
    of_another = Session(
        ROUTER, script_calls, registry, world.rights, lambda: NOW_MS, 1 << 30, world.counts, bool
    )
    assert not passes(of_another, SADDEX)
    of_another.from_client(SADDEX)
    assert of_another.at_once(SADDEX) is not None
    world.say(SADDEX)
    assert world.names("SADD other a") == [b"EVALSHA"]


SREM = encode((b"SREM", b"later", b"a"))
SADDEX = encode((b"SADDEX", b"plain", b"100", b"a"))


@pytest.mark.parametrize(
    "chunk",
    [
        [SREM, b"\r\n" + SREM],
        [SADDEX, encode((b"SADD", b"plain", b"a")), encode((b"GET", b"plain"))],
        [SADDEX, encode((b"APPEND", b"plain", b"1"))],
        [SADDEX, encode((b"RENAME", b"other", b"plain"))],
        [SADDEX, encode((b"SADD", b"later", b"plain")), SADDEX],
        [b"*9\r\n$4\r\nSREM\r\n$5\r\nlater\r\n" + 4 * b"+a\r\n" + 3 * b"=5\r\ntxt:a\r\n"],
        [encode((b"SADD", b"later", b"due")), encode((b"SADD", b"plain", b"a"))],
        [encode((b"ZADD", b"later", b"NX", b"1", b"a"))],
        [encode((b"HSETNX", b"later", b"a", b"b")), encode((b"SADD", b"plain", b"a"))],
        [SREM, b"*3\r\n$4\r\nSREM\r\n$5\r\nlater\r\n:1\r\n"],
        [SREM, b"*3\r\n$4\r\nSREM\r\n$5\r\nlater\r\n*1\r\n$1\r\na\r\n"],
        [SREM, encode((b"SREM",))],
        [SREM, encode((b"GET",))],
        [SREM, encode((b"UNHEARD", b"later"))],
    ],
)
def test_odd_chunks_are_handled_as_on_the_general_way(chunk: list[bytes]) -> None:
    _are_same(_world(), _world(), chunk)


def test_so_is_a_request_over_the_limit() -> None:
    _are_same(_world(len(SREM)), _world(len(SREM)), [SREM.replace(b"$1\r\na", b"$2\r\naa")])


def test_a_write_that_redis_refuses_may_let_its_chunk_wait() -> None:
    """It goes as it came, once its key is swept: meanwhile others may set deadlines."""
    world = _world()
    assert world.names("HSETNX later a", "SADD other a") == [b"HSETNX", b"EVALSHA"]
    assert world.names("HSETNX later a b", "SADD other a") == [b"EVALSHA", b"SADD"]


def test_calls_are_those_of_the_scripts_as_they_are_now() -> None:
    scripts = Scripts(b"__ttl:")
    direct = DirectCalls(scripts, Keys())
    assert not direct.update(ROUTER)
    scripts.loaded = True
    assert direct.update(ROUTER)
    before = direct.writes
    assert direct.update(ROUTER)
    assert before is direct.writes
    scripts.suit(scripts.traits._replace(events="sK"))
    scripts.loaded = True
    assert direct.update(ROUTER)
    assert before[b"SADD"] != direct.writes[b"SADD"]


def test_there_are_none_in_front_of_a_cluster() -> None:
    scripts = Scripts(b"__ttl:")
    scripts.loaded = True
    assert not DirectCalls(scripts, Keys(clustered=True)).update(ROUTER)
