"""What the proxies of a server share: who writes it, who adopts it, and what stops them."""

from __future__ import annotations

from contextlib import closing

import pytest
from redis.asyncio import Redis

from tests.conftest import StartServer
from tests.link.conftest import KEYS, Become, paused, set_rule, unpaused
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.redis_content import STATE
from tests.support.server_queries import calls
from ttlproxy.addresses import Upstream
from ttlproxy.core.counters import Counters
from ttlproxy.core.signing import Signer
from ttlproxy.errors import UnfitUpstream
from ttlproxy.link import LAYOUT, Context, client
from ttlproxy.link.server.shared_state import SharedState

OURS = b"%d" % LAYOUT


@pytest.fixture
def state(context: Context) -> SharedState:
    return SharedState(context, unpaused)


def _stored(direct: Client) -> tuple[bytes | None, bytes | None]:
    secret, layout = direct.ask("HMGET", STATE, "secret", "layout")
    return secret, layout


def _leave_old_layout(direct: Client) -> None:
    """As version 0.1 does."""
    direct.ask("SET", KEYS.old_layout, 1)
    direct.ask("SADD", KEYS.old_keeping, "kept")


def _is_converted(direct: Client) -> bool:
    return bool(direct.ask("EXISTS", KEYS.old_keeping) == 0)


async def test_the_first_writes_and_the_others_adopt(
    state: SharedState, redis: Redis, context: Context, direct: Client
) -> None:
    await state.claim(redis)
    assert _stored(direct) == (context.script_calls.signer.secret, OURS)
    direct.ask("HSET", STATE, "secret", "x" * 64)
    await state.claim(redis)
    assert context.script_calls.signer.secret == b"x" * 64
    assert _stored(direct) == (b"x" * 64, OURS)


async def test_what_is_gone_is_written_again_and_what_another_wrote_is_adopted(
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
    await context.actions.learn(redis, 0)
    assert context.actions.of(0).of(b"s") is None
    direct.ask("HSET", STATE, "secret", "x" * 64)
    await become("-eval -evalsha")
    await state.keep(redis)
    await context.actions.learn(redis, 0)
    assert context.actions.of(0).of(b"s") is not None


async def test_while_all_is_as_it_should_be_no_script_runs(
    state: SharedState, redis: Redis, server: AnyServer
) -> None:
    await state.claim(redis)
    before = calls(server.port, "eval")
    assert before
    await state.keep(redis)
    assert calls(server.port, "eval") == before


async def test_a_newer_layout_is_left_alone(
    state: SharedState, redis: Redis, direct: Client
) -> None:
    direct.ask("HSET", STATE, "secret", "x" * 64, "layout", LAYOUT + 1)
    with pytest.raises(UnfitUpstream):
        await state.claim(redis)
    assert _stored(direct) == (b"x" * 64, b"%d" % (LAYOUT + 1))


async def test_a_secret_from_a_file_is_not_stored(
    context: Context, redis: Redis, direct: Client
) -> None:
    context.has_own_secret = True
    secret = context.script_calls.signer.secret
    state = SharedState(context, unpaused)
    await state.claim(redis)
    assert _stored(direct) == (None, OURS)
    direct.ask("HSET", STATE, "secret", "x" * 64)
    await state.keep(redis)
    await state.claim(redis)
    assert context.script_calls.signer.secret == secret
    direct.ask("DEL", STATE)
    await state.keep(redis)
    assert _stored(direct) == (None, OURS)


async def test_the_old_layout_is_converted_once(
    state: SharedState, redis: Redis, direct: Client
) -> None:
    _leave_old_layout(direct)
    await state.claim(redis)
    assert _is_converted(direct)
    assert _stored(direct)[1] == OURS
    _leave_old_layout(direct)
    await state.claim(redis)
    await state.keep(redis)
    assert not _is_converted(direct), "whoever wrote that now, it was no proxy of 0.1"


async def test_who_may_not_store_the_secret_converts_nothing(
    state: SharedState, redis: Redis, direct: Client, become: Become, counters: Counters
) -> None:
    """Nobody else could verify what it signs."""
    await state.claim(redis)  # of another server
    direct.ask("FLUSHALL")
    _leave_old_layout(direct)
    await become("resetkeys ~__ttl:*")
    await state.claim(redis)
    assert not _is_converted(direct)
    assert counters.refusals == 1
    await become("~*")
    await state.keep(redis)
    assert _is_converted(direct)
    assert _stored(direct)[1] == OURS


async def test_who_may_not_read_it_goes_on(
    state: SharedState, redis: Redis, context: Context, direct: Client, become: Become
) -> None:
    await state.claim(redis)
    secret = context.script_calls.signer.secret
    await become("-hmget")
    await state.keep(redis)
    assert _stored(direct) == (secret, OURS)


async def test_what_could_not_be_converted_is_converted_when_it_can_be(
    state: SharedState, redis: Redis, direct: Client, become: Become, counters: Counters
) -> None:
    _leave_old_layout(direct)
    await become("-unlink")
    for refusals in (1, 2):
        await state.claim(redis)
        assert counters.refusals == refusals
        assert not _stored(direct)[1]
    await become("+unlink")
    await state.keep(redis)
    assert _is_converted(direct)
    assert _stored(direct)[1] == OURS


@pytest.mark.parametrize("trusts", [True, False])
async def test_where_clients_have_narrow_rights_only_what_0_1_itself_wrote_is_converted(
    state: SharedState, redis: Redis, context: Context, direct: Client, trusts: bool
) -> None:
    context.rights.trusts_schedules = trusts
    row = b"10:RPUSH - 0x"  # a client may have put it there
    direct.ask("HSET", KEYS.rules, ":s", row)
    await state.claim(redis)
    assert _stored(direct)[1] == OURS
    assert direct.ask("EXISTS", KEYS.rule(b"s")) == trusts


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
    await SharedState(context, paused).keep(redis)
    assert direct.ask("EXISTS", STATE) == 0
    await SharedState(context, unpaused).keep(redis)
    assert direct.ask("EXISTS", STATE) == 1
