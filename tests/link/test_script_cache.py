"""Which scripts Redis has, as far as the link can know, and when it loads them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

from tests.link.conftest import Become
from tests.support.redis_client import Client
from ttlproxy.link import Context
from ttlproxy.link.connecting.known_server import fields
from ttlproxy.link.connecting.pipeline import Words, run
from ttlproxy.link.server import script_cache
from ttlproxy.link.server.compatibility import pauses_script
from ttlproxy.link.server.script_cache import AT_FIRST, EVENTS, ScriptCache
from ttlproxy.scripts import Scripts
from ttlproxy.scripts.unconfirmed import Events, Flush, UnconfirmedChanges


class Pause:
    """Whether writes are paused."""

    is_on = False

    async def __call__(self) -> bool:
        return self.is_on


@pytest.fixture
def pause() -> Pause:
    return Pause()


@pytest.fixture
def cache(context: Context, pause: Pause) -> ScriptCache:
    """Of a proxy whose scripts are called, beside another one."""
    context.scripts.called = True
    context.fleet.attached = 2
    context.is_paused = pause
    return ScriptCache(context)


@pytest.fixture
def scripts(context: Context) -> Scripts:
    return context.scripts


async def _said(redis: Redis) -> Mapping[str, str]:
    (info,) = await run(redis, [(0, (b"INFO",))])
    assert isinstance(info, bytes)
    return fields(info)


async def _met(
    cache: ScriptCache, redis: Redis, said: Mapping[str, str], names: Sequence[str]
) -> None:
    cache.start_anew(said, names, await run(redis, [(0, words) for words in AT_FIRST]))


async def _meet(cache: ScriptCache, redis: Redis) -> None:
    said = await _said(redis)
    await _met(cache, redis, said, ["GET"] if pauses_script(said) else ["GET", "EVAL_RO"])
    await cache.load(redis)


async def _look(cache: ScriptCache, redis: Redis, scripts: Scripts, *, events: bool) -> bool:
    """Looks as a heartbeat does; returns whether anything has changed."""
    traits = scripts.traits
    known, setting = await run(redis, [(0, cache.question()), (0, EVENTS)])
    return await cache.update(redis, traits, known, setting if events else None)


def _loaded(direct: Client, scripts: Scripts) -> bool:
    return all(direct.ask("SCRIPT", "EXISTS", *(script.sha for script in scripts.all())))


async def test_a_server_gets_no_script_until_one_is_called_and_then_all(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client
) -> None:
    direct.ask("SCRIPT", "FLUSH")
    said = await _said(redis)
    await _met(cache, redis, said, ["GET"])
    await cache.begin(redis)
    for _ in range(3):
        assert not await _look(cache, redis, scripts, events=True)
        await cache.load_called(redis)
        assert int((await _said(redis))["number_of_cached_scripts"]) == 0
    called = list[None]()
    scripts.on_call = lambda: called.append(None)
    for _ in range(3):
        scripts.miss()
    assert called == [None]
    assert not scripts.loaded
    await cache.load_called(redis)
    assert scripts.loaded
    assert _loaded(direct, scripts)


async def test_a_proxy_that_meets_scripts_of_others_loads_those_that_lack(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client
) -> None:
    direct.ask("SCRIPT", "FLUSH")
    await _met(cache, redis, await _said(redis), ["GET"])
    direct.ask("SCRIPT", "LOAD", scripts.all()[0].text)
    await cache.begin(redis)
    assert scripts.loaded
    assert _loaded(direct, scripts)


async def test_a_flush_while_scripts_are_loaded_takes_none_that_was_called_before(
    cache: ScriptCache,
    redis: Redis,
    scripts: Scripts,
    direct: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It comes behind the question which of them Redis has: one, which a client has called."""
    direct.ask("SCRIPT", "FLUSH")
    await _met(cache, redis, await _said(redis), ["GET"])
    direct.ask("SCRIPT", "LOAD", scripts.all()[-1].text)

    async def run_and_flush(redis: Redis, requests: Sequence[tuple[int, Words]]) -> list[object]:
        replies = await run(redis, requests)
        if b"EXISTS" in requests[0][1]:
            direct.ask("SCRIPT", "FLUSH")
        return replies

    monkeypatch.setattr(script_cache, "run", run_and_flush)
    await cache.load(redis)
    assert _loaded(direct, scripts)


async def test_after_a_flush_a_lone_proxy_loads_scripts_when_one_is_called_again(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client, context: Context
) -> None:
    await _meet(cache, redis)
    context.fleet.attached = 1
    await _look(cache, redis, scripts, events=False)
    direct.ask("SCRIPT", "FLUSH")
    assert await _look(cache, redis, scripts, events=False), "it is another answer"
    for _ in range(2):
        assert not await _look(cache, redis, scripts, events=False)
        assert not scripts.loaded
    assert not _loaded(direct, scripts)
    scripts.miss()
    await _look(cache, redis, scripts, events=False)
    assert scripts.loaded
    assert _loaded(direct, scripts)


async def test_a_flush_that_meets_no_scripts_is_no_wrong_change(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client, context: Context
) -> None:
    """Else the next one would not be believed, which may meet some."""
    direct.ask("SCRIPT", "FLUSH")
    scripts.called = False
    changes = UnconfirmedChanges(scripts)
    changes.note(Flush(), context.registry)
    assert not changes.were_wrong(await _look(cache, redis, scripts, events=False))


async def test_a_server_that_is_met_gets_all_scripts(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client
) -> None:
    direct.ask("SCRIPT", "FLUSH")
    await _meet(cache, redis)
    assert scripts.loaded
    assert _loaded(direct, scripts)
    assert not await _look(cache, redis, scripts, events=True)
    assert scripts.loaded


async def test_scripts_suit_the_commands_of_the_server(
    cache: ScriptCache, redis: Redis, scripts: Scripts
) -> None:
    said = await _said(redis)
    deadlines = ["HPEXPIRETIME", "HPEXPIREAT", "HPERSIST"]
    await _met(cache, redis, said, deadlines)
    assert (scripts.traits.field_ttls, scripts.traits.flags) == (True, False)
    await _met(cache, redis, said, [*deadlines[:2], "EVAL_RO"])
    assert (scripts.traits.field_ttls, scripts.traits.flags) == (False, True)


async def test_scripts_that_are_lost_are_found_and_loaded_again(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client
) -> None:
    await _meet(cache, redis)
    await _look(cache, redis, scripts, events=False)
    direct.ask("SCRIPT", "FLUSH")
    assert await _look(cache, redis, scripts, events=False), "it is another answer"
    assert _loaded(direct, scripts)
    assert scripts.loaded
    assert not await _look(cache, redis, scripts, events=False)


async def test_a_flush_that_may_still_come_counts_until_the_look_after_its_reply(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client
) -> None:
    await _meet(cache, redis)
    await _look(cache, redis, scripts, events=False)
    scripts.flushed()
    scripts.unanswered = 1
    for _ in range(3):
        assert not await _look(cache, redis, scripts, events=False)
        assert not scripts.loaded, "it may be carried out after this look"
        await cache.load(redis)
        assert not scripts.loaded
    scripts.unanswered = 0
    assert not await _look(cache, redis, scripts, events=False)
    assert not scripts.loaded, "the question may have come before the reply"
    direct.ask("SCRIPT", "FLUSH")
    await _look(cache, redis, scripts, events=False)
    assert scripts.loaded
    assert _loaded(direct, scripts)


async def test_a_flush_whose_scripts_were_loaded_before_the_look_was_not_refused(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client, context: Context
) -> None:
    """It came while those of another flush were loaded."""
    await _meet(cache, redis)
    changes = UnconfirmedChanges(scripts)
    changes.note(Flush(), context.registry)
    direct.ask("SCRIPT", "FLUSH")
    assert await _look(cache, redis, scripts, events=False)
    changes.note(Flush(), context.registry)
    direct.ask("SCRIPT", "FLUSH")
    await cache.load(redis)
    assert not changes.were_wrong(await _look(cache, redis, scripts, events=False))
    changes.note(Flush(), context.registry)
    assert changes.were_wrong(await _look(cache, redis, scripts, events=False)), "this one was"


async def test_a_flush_while_scripts_are_away_was_not_refused(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client, context: Context
) -> None:
    await _meet(cache, redis)
    changes = UnconfirmedChanges(scripts)
    for _ in range(3):
        changes.note(Flush(), context.registry)
        direct.ask("SCRIPT", "FLUSH")
        assert not changes.were_wrong(await _look(cache, redis, scripts, events=False))
    changes.note(Flush(), context.registry)
    for _ in range(2):
        changed = await _look(cache, redis, scripts, events=False)
    assert _loaded(direct, scripts)
    assert not changes.were_wrong(changed), "nobody knows"


async def test_events_that_the_server_publishes_are_noticed(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client
) -> None:
    await _meet(cache, redis)
    await _look(cache, redis, scripts, events=True)
    direct.ask("CONFIG", "SET", "notify-keyspace-events", "KEA")
    try:
        assert not await _look(cache, redis, scripts, events=False)
        assert not scripts.traits.events
        assert await _look(cache, redis, scripts, events=True)
        assert scripts.traits.events
        assert _loaded(direct, scripts), "with those that publish"
        assert scripts.loaded
        for asks in (True, False):
            assert not await _look(cache, redis, scripts, events=asks)
            assert scripts.traits.events
    finally:
        direct.ask("CONFIG", "SET", "notify-keyspace-events", "")
    assert await _look(cache, redis, scripts, events=True)
    assert not scripts.traits.events


async def test_events_that_the_heartbeat_saw_before_the_look_were_not_refused(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client, context: Context
) -> None:
    """Else none would be published for a while after the next change."""
    await _meet(cache, redis)
    await _look(cache, redis, scripts, events=True)
    changes = UnconfirmedChanges(scripts)
    changes.note(Events("KEA"), context.registry)
    direct.ask("CONFIG", "SET", "notify-keyspace-events", "KEA")
    try:
        assert await _look(cache, redis, scripts, events=True), "the heartbeat"
        assert not changes.were_wrong(await _look(cache, redis, scripts, events=True))
    finally:
        direct.ask("CONFIG", "SET", "notify-keyspace-events", "")
    await _look(cache, redis, scripts, events=True)
    await _look(cache, redis, scripts, events=True)
    changes.note(Events("KEA"), context.registry)
    assert changes.were_wrong(await _look(cache, redis, scripts, events=True)), "this one was"


async def test_events_that_were_on_when_the_server_was_met(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client
) -> None:
    direct.ask("CONFIG", "SET", "notify-keyspace-events", "KEA")
    try:
        await _meet(cache, redis)
        assert scripts.traits.events
        assert not await _look(cache, redis, scripts, events=True)
    finally:
        direct.ask("CONFIG", "SET", "notify-keyspace-events", "")


async def test_a_proxy_that_may_not_ask_for_events_keeps_what_was_known(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client, become: Become
) -> None:
    direct.ask("CONFIG", "SET", "notify-keyspace-events", "KEA")
    try:
        await _meet(cache, redis)
        await become("-config")
        assert not await _look(cache, redis, scripts, events=True)
        assert scripts.traits.events
        assert scripts.loaded
    finally:
        direct.ask("CONFIG", "SET", "notify-keyspace-events", "")


async def test_nothing_is_loaded_in_a_pause_that_would_hold_it_back(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client, pause: Pause
) -> None:
    said = {**await _said(redis), "redis_version": "6.2.14"}
    await _met(cache, redis, said, ["GET"])
    await cache.load(redis)
    await _look(cache, redis, scripts, events=False)
    pause.is_on = True
    assert await cache._context.would_wait()
    direct.ask("SCRIPT", "FLUSH")
    for _ in range(3):
        await _look(cache, redis, scripts, events=False)
        assert not _loaded(direct, scripts)
    pause.is_on = False
    assert not await cache._context.would_wait()
    for _ in range(2):
        await _look(cache, redis, scripts, events=False)
    assert _loaded(direct, scripts)
    assert scripts.loaded


async def test_a_count_of_scripts_that_looks_unchanged_after_a_flush_is_not_believed(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client
) -> None:
    await _met(cache, redis, {**await _said(redis), "redis_version": "6.2.14"}, ["GET"])
    await cache.load(redis)
    await _look(cache, redis, scripts, events=False)
    scripts.flushed()
    await _look(cache, redis, scripts, events=False)
    direct.ask("SCRIPT", "FLUSH")  # it was on its way during that look
    for number in range(2 * len(scripts)):
        direct.ask("SCRIPT", "LOAD", f"return {number}")
    await _look(cache, redis, scripts, events=False)
    assert _loaded(direct, scripts)


async def test_scripts_that_redis_does_not_load_are_not_believed_to_be_there(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client, become: Become
) -> None:
    direct.ask("SCRIPT", "FLUSH")
    await become("-script +script|exists")
    with pytest.raises(NoPermissionError):
        await _meet(cache, redis)
    assert not scripts.loaded


async def test_a_proxy_that_may_never_ask_for_events_is_served_without(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client, become: Become
) -> None:
    direct.ask("CONFIG", "SET", "notify-keyspace-events", "KEA")
    try:
        await become("-config")
        await _meet(cache, redis)
        assert not scripts.traits.events
        assert scripts.loaded
    finally:
        direct.ask("CONFIG", "SET", "notify-keyspace-events", "")


async def test_a_server_that_does_not_hold_scripts_back_is_not_judged(
    cache: ScriptCache, redis: Redis, pause: Pause
) -> None:
    await _met(cache, redis, {**await _said(redis), "redis_version": "7.0.15"}, ["GET"])
    pause.is_on = True
    assert not await cache._context.would_wait()


async def test_a_server_without_evalsha_gets_no_scripts(
    cache: ScriptCache, redis: Redis, scripts: Scripts, direct: Client
) -> None:
    await _meet(cache, redis)
    direct.ask("SCRIPT", "FLUSH")
    scripts.by_text = True
    await cache.load(redis)
    assert not scripts.loaded
    for _ in range(2):
        await _look(cache, redis, scripts, events=False)
        assert not scripts.loaded
    assert not _loaded(direct, scripts)
