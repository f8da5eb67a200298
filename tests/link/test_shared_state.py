"""What the proxies of a server share: who writes it, who adopts it, and what stops them."""

from __future__ import annotations

from contextlib import closing
from functools import partial

import pytest
from redis.asyncio import Redis

from tests.conftest import StartServer
from tests.link.conftest import KEYS, Become, paused, set_rule, unpaused
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.redis_content import STATE
from tests.support.server_queries import calls
from ttlproxy import __version__
from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.core.keys import SLOTS
from ttlproxy.core.signing import Signer
from ttlproxy.errors import UnfitUpstream
from ttlproxy.link import LAYOUT, Context, client, run
from ttlproxy.link.server.shared_state import SharedState

OURS = b"%d" % LAYOUT


@pytest.fixture
def state(context: Context) -> SharedState:
    """Of one of two proxies, so that it is needed."""
    context.fleet.attached = 2
    return SharedState(context)


def _stored(direct: Client) -> tuple[bytes | None, bytes | None]:
    secret, layout = direct.ask("HMGET", STATE, "secret", "layout")
    return secret, layout


async def _met(state: SharedState, redis: Redis) -> None:
    """As at a new server."""
    state.adopt(await run(redis, [(0, words) for words in state.first_questions()]))


async def test_the_first_writes_and_the_others_adopt(
    state: SharedState, redis: Redis, context: Context, direct: Client
) -> None:
    await state.claim(redis)
    assert _stored(direct) == (context.script_calls.signer.secret, OURS)
    direct.ask("HSET", STATE, "secret", "x" * 64)
    await state.claim(redis)
    assert context.script_calls.signer.secret == b"x" * 64
    assert _stored(direct) == (b"x" * 64, OURS)


async def test_a_lost_state_is_written_again_and_that_of_another_is_adopted(
    state: SharedState, redis: Redis, context: Context, direct: Client
) -> None:
    await state.claim(redis)
    secret = context.script_calls.signer.secret
    direct.ask("DEL", STATE)
    await state.keep(redis)
    assert _stored(direct) == (secret, OURS)
    direct.ask("HDEL", STATE, "layout")
    await state.keep(redis)
    assert _stored(direct) == (secret, OURS)
    direct.ask("HSET", STATE, "secret", "x" * 64)
    await state.keep(redis)
    assert context.script_calls.signer.secret == b"x" * 64
    assert _stored(direct) == (b"x" * 64, OURS)


async def test_rules_are_read_again_with_a_secret_that_was_not_known(
    state: SharedState, redis: Redis, context: Context, direct: Client, become: Become
) -> None:
    """As a replica meets them that has taken another master's data: it can write nothing."""
    await state.claim(redis)
    set_rule(direct, Signer(b"x" * 64), "s*", "KEEP")
    await context.actions.read(redis, 0)
    assert context.actions.of(0).of(b"s") is None
    direct.ask("HSET", STATE, "secret", "x" * 64)
    await become("-eval -evalsha")
    await state.keep(redis)
    await context.actions.read(redis, 0)
    assert context.actions.of(0).of(b"s") is not None


async def _families(state: SharedState, redis: Redis) -> set[bytes] | None:
    found = await state.families(redis)
    return None if found is None else {*found}


async def test_families_are_noted_as_all_by_a_proxy_that_knows_all(
    state: SharedState, redis: Redis, context: Context, direct: Client
) -> None:
    """Others note those that get their first deadline."""
    await state.claim(redis)
    direct.ask("HSET", STATE, "commands", "of this server")
    calls = context.script_calls
    note = calls.words(state.noting([b"a:"]), b"0", by_text=True)
    assert direct.ask(*note) == -1
    await state.keep(redis)
    assert await _families(state, redis) is None
    calls.families.known.add([b"b:", b""])
    state.knows_all = lambda: True
    await state.keep(redis)
    assert await _families(state, redis) == {b"a:", b"b:", b""}
    calls.families.known.add([b"c:"])
    await state.keep(redis)
    assert await _families(state, redis) == {b"a:", b"b:", b"c:", b""}
    assert direct.ask(*calls.words(state.noting([b"d:"]), b"0", by_text=True)) == 5
    assert await _families(state, redis) == {b"a:", b"b:", b"c:", b"d:", b""}


async def test_families_that_are_gone_with_the_state_are_noted_again(
    state: SharedState, redis: Redis, context: Context, direct: Client
) -> None:
    context.script_calls.families.known.add([b"a:"])
    state.knows_all = lambda: True
    await state.keep(redis)
    assert await _families(state, redis) == {b"a:"}
    direct.ask("DEL", STATE)
    words = context.script_calls.words(state.noting([b"b:"]), b"0", by_text=True)
    assert direct.ask(*words) == -1
    assert not direct.ask("EXISTS", STATE)
    await state.keep(redis)
    assert await _families(state, redis) == {b"a:"}


@pytest.mark.parametrize("field", [("family:b:", ""), ("families", "2")])
async def test_families_whose_number_is_wrong_are_not_believed(
    state: SharedState, redis: Redis, context: Context, direct: Client, field: tuple[str, str]
) -> None:
    context.script_calls.families.known.add([b"a:"])
    state.knows_all = lambda: True
    await state.keep(redis)
    direct.ask("HSET", STATE, *field)
    assert await _families(state, redis) is None


async def test_families_are_not_known_if_the_state_cannot_be_read(
    state: SharedState, redis: Redis, become: Become
) -> None:
    await become("-hkeys")
    assert await _families(state, redis) is None


async def test_while_all_is_as_it_should_be_no_script_runs(
    state: SharedState, redis: Redis, server: AnyServer
) -> None:
    await state.claim(redis)
    state.knows_all = lambda: True
    await state.keep(redis)
    before = calls(server.port, "eval")
    assert before
    await state.keep(redis)
    assert calls(server.port, "eval") == before


@pytest.mark.parametrize("layout", ["1", f"{LAYOUT + 1}", "junk"])
async def test_the_state_of_another_layout_is_left_alone_and_nobody_goes_on(
    state: SharedState, redis: Redis, direct: Client, layout: str
) -> None:
    direct.ask("HSET", STATE, "secret", "x" * 64, "layout", layout, "program", "9.9.9")
    for meet in (partial(_met, state), state.claim, state.keep):
        with pytest.raises(UnfitUpstream, match=f"layout {layout}, of ttlproxy 9.9.9"):
            await meet(redis)
    assert _stored(direct) == (b"x" * 64, layout.encode())


async def test_a_value_that_is_no_state_is_left_alone_and_nobody_goes_on(
    state: SharedState, redis: Redis, direct: Client
) -> None:
    direct.ask("SET", STATE, "junk")
    with pytest.raises(UnfitUpstream, match="is no hash of ttlproxy"):
        await state.keep(redis)
    assert direct.ask("GET", STATE) == b"junk"


@pytest.mark.parametrize(("said", "is_fit"), [("1", False), ("2", True), ("junk", True)])
async def test_a_layout_from_before_the_first_release_is_refused(
    state: SharedState, redis: Redis, direct: Client, said: str, is_fit: bool
) -> None:
    direct.ask("SET", KEYS.old_layout, said)
    if is_fit:
        await _met(state, redis)
        return
    with pytest.raises(UnfitUpstream, match=r"layout 1, .* remove them with ttlproxy purge"):
        await _met(state, redis)


async def test_the_state_says_which_version_has_written_it(
    state: SharedState, redis: Redis, direct: Client
) -> None:
    await state.claim(redis)
    assert direct.ask("HGET", STATE, "program").decode() == __version__


async def test_a_secret_from_a_file_is_not_stored(
    context: Context, redis: Redis, direct: Client
) -> None:
    context.has_own_secret, context.fleet.attached = True, 2
    secret = context.script_calls.signer.secret
    state = SharedState(context)
    await state.claim(redis)
    assert _stored(direct) == (None, OURS)
    direct.ask("HSET", STATE, "secret", "x" * 64)
    await state.keep(redis)
    await state.claim(redis)
    assert context.script_calls.signer.secret == secret
    direct.ask("DEL", STATE)
    await state.keep(redis)
    assert _stored(direct) == (None, OURS)


async def test_a_proxy_that_may_not_read_the_state_goes_on(
    state: SharedState, redis: Redis, context: Context, direct: Client, become: Become
) -> None:
    await state.claim(redis)
    secret = context.script_calls.signer.secret
    await become("-hmget")
    await state.keep(redis)
    assert _stored(direct) == (secret, OURS)


async def test_before_a_replica_nothing_is_written(
    state: SharedState, start_server: StartServer, counters: Counters
) -> None:
    server = start_server()
    replica = client(Upstream.parse(server.url), "test", 30.0)
    with closing(Client(server.port)) as direct:
        direct.ask("REPLICAOF", "127.0.0.1", 1)
        await state.claim(replica)
        await state.keep(replica)
        assert direct.ask("EXISTS", STATE) == 0
        assert counters.refusals == 0
        direct.ask("REPLICAOF", "NO", "ONE")
        await state.keep(replica)
        assert _stored(direct)[1] == OURS
    await replica.aclose()


async def test_while_writes_are_paused_nothing_is_written(
    context: Context, redis: Redis, direct: Client
) -> None:
    context.fleet.attached = 2
    context.is_paused = paused
    await SharedState(context).keep(redis)
    assert direct.ask("EXISTS", STATE) == 0
    context.is_paused = unpaused
    await SharedState(context).keep(redis)
    assert direct.ask("EXISTS", STATE) == 1


async def test_a_lone_proxy_that_nobody_uses_writes_nothing(
    state: SharedState, redis: Redis, context: Context, direct: Client
) -> None:
    context.fleet.attached = 1
    await _met(state, redis)
    await state.keep(redis)
    assert context.script_calls.has_state is False
    assert direct.ask("DBSIZE") == 0


@pytest.mark.parametrize(
    "need", ["another proxy", "a deadline", "a new deadline", "a rule", "a request"]
)
async def test_it_is_written_where_it_is_needed(
    state: SharedState, redis: Redis, context: Context, direct: Client, need: str
) -> None:
    context.fleet.attached = 2 if need == "another proxy" else 1
    if need == "a deadline":
        context.managed = {3: 1}
    if need == "a new deadline":
        context.registry.manages([0])
    if need == "a rule":
        set_rule(direct, context.script_calls.signer, "s*", "KEEP")
        await context.actions.read(redis, 0)
    stored = state.stored() if need == "a request" else None
    await state.keep(redis)
    assert context.script_calls.has_state
    assert _stored(direct) == (context.script_calls.signer.secret, OURS)
    assert stored is None or stored.done()


@pytest.fixture
def sibling(context: Context, counters: Counters) -> Context:
    """Of another master of the same Cluster."""
    known = context.script_calls.families.known
    return Context(Settings(), counters, known=known, state_links=context.state_links)


async def test_a_request_to_one_master_waits_for_the_master_that_has_the_state(
    state: SharedState, redis: Redis, context: Context, sibling: Context, direct: Client
) -> None:
    context.fleet.attached, looks = 1, list[str]()
    await _met(state, redis)
    state.look_soon = partial(looks.append, "here")
    other = SharedState(sibling)
    stored = other.stored()
    assert sibling.script_calls.has_state is None
    assert looks == ["here"]
    await state.keep(redis)
    assert stored.done()
    assert _stored(direct)[1] == OURS
    assert sibling.script_calls.has_state


async def test_it_stays_while_another_master_has_deadlines_or_is_away(
    state: SharedState, redis: Redis, context: Context, sibling: Context, direct: Client
) -> None:
    other = SharedState(sibling)
    await state.claim(redis)
    context.fleet.attached, context.is_one_of_several = 1, True
    context.slot_schedules.read, sibling.slot_schedules.read = {*range(8192)}, {*range(8192, SLOTS)}
    sibling.slot_schedules.noted(b"k", 1)
    await state.drop(redis, [0])
    assert direct.ask("EXISTS", STATE) == 1
    sibling.end()
    await state.drop(redis, [0])
    assert direct.ask("EXISTS", STATE) == 1, "nothing is known of half of the slots"
    context.slot_schedules.read = {*range(SLOTS)}
    await state.drop(redis, [0])
    assert direct.ask("EXISTS", STATE) == 0
    assert not other.is_needed


@pytest.mark.parametrize("need", ["a deadline", "a rule"])
async def test_a_state_that_is_gone_although_it_is_needed_leaves_keys_to_hide(
    context: Context, redis: Redis, direct: Client, need: str
) -> None:
    """As after SWAPDB, until it is written again."""
    if need == "a deadline":
        context.managed = {3: 1}
    else:
        set_rule(direct, context.script_calls.signer, "s*", "KEEP")
        await context.actions.read(redis, 0)
        context.actions.forget(0, 1)
    context.is_paused = paused
    await SharedState(context).keep(redis)
    assert context.script_calls.has_state is None


async def test_a_request_goes_on_where_redis_refuses_the_state(
    state: SharedState, redis: Redis, context: Context, become: Become
) -> None:
    await become("-eval -evalsha")
    stored = state.stored()
    await state.keep(redis)
    assert stored.done()
    assert context.script_calls.has_state, "until the next look"


async def test_a_request_waits_while_writes_are_paused(context: Context, redis: Redis) -> None:
    context.fleet.attached = 1
    context.script_calls.families.known.has_state = False
    context.is_paused = paused
    state = SharedState(context)
    await state.keep(redis)
    assert context.script_calls.has_state is False
    stored = state.stored()
    assert context.script_calls.has_state is None, "it may be written at any time now"
    await state.keep(redis)
    assert not stored.done()


async def test_when_nothing_needs_it_any_more_it_goes(
    state: SharedState, redis: Redis, context: Context, direct: Client
) -> None:
    await state.claim(redis)
    await state.drop(redis, [0])
    assert direct.ask("EXISTS", STATE) == 1, "there is another proxy"
    context.fleet.attached = 1
    context.managed = {0: 1}
    await state.drop(redis, [0])
    assert direct.ask("EXISTS", STATE) == 1, "there is a deadline"
    context.managed = {0: 0}
    context.registry.manages([0])
    for _ in range(2):
        await state.drop(redis, [0])
        assert direct.ask("EXISTS", STATE) == 1, "one is on its way"
        context.registry.beat(direct.now_ms())
    await state.drop(redis, [0])
    assert direct.ask("DBSIZE") == 0
    assert context.script_calls.has_state is False


@pytest.mark.parametrize(
    "left",
    [
        ("ZADD", KEYS.schedule, 1, "s"),
        ("HSET", KEYS.rules, ":s", ""),
        ("SADD", KEYS.others, KEYS.kept(b"s")),
    ],
)
@pytest.mark.parametrize("db", [0, 3])
async def test_it_stays_while_a_database_has_anything_of_ours(
    state: SharedState,
    redis: Redis,
    server: AnyServer,
    context: Context,
    direct: Client,
    left: tuple[bytes | str | int, ...],
    db: int,
) -> None:
    await state.claim(redis)
    context.fleet.attached = 1
    with closing(Client(server.port, db)) as there:
        there.ask(*left)
        if left[1] == KEYS.others:
            there.ask("SADD", KEYS.others, left[1])
        await state.drop(redis, [0, db])
        assert direct.ask("EXISTS", STATE) == 1
        assert context.script_calls.has_state
        there.ask("DEL", left[1])
    direct.ask("SADD", KEYS.others, STATE)
    await state.drop(redis, [0, db])
    assert direct.ask("EXISTS", STATE) == 0
