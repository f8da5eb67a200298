"""The heartbeat of a link: what it looks at, and what ends it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.conftest import StartServer
from tests.link.conftest import FAR_MS, KEYS, manage, set_rule, until
from tests.link.running import Running, kill, running, turns
from tests.support.containers import AnyServer
from tests.support.processes import CLOSED_PORT
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from ttlproxy.addresses import Upstream
from ttlproxy.core import write_rules
from ttlproxy.link import announcing
from ttlproxy.link.connecting import discovery, pipeline, reachability
from ttlproxy.link.connecting.known_server import Identity, KnownServer
from ttlproxy.link.knowledge import jobs
from ttlproxy.link.life import heartbeat
from ttlproxy.scripts.unconfirmed import Swap

LONG_S = 1e6
# A deadline so far ahead is read with all others that come within a minute.
SOON_MS = 30_000


def _manage_soon(direct: Client) -> int:
    """A key that needs attention soon; returns when."""
    soon_ms = direct.now_ms() + SOON_MS
    manage(direct, "s", m=soon_ms)
    return soon_ms


def _is_read(link: Running, soon_ms: int) -> bool:
    """Whether all was read anew: of which family there are keys is not announced here."""
    registry = link.context.registry
    return registry.families.covers(b"s") and registry.bounds(0) == {b"s": soon_ms}


@pytest.fixture
def rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first heartbeat is a regular one."""
    monkeypatch.setattr(heartbeat, "EVERY_S", LONG_S)


@pytest.fixture
async def life(server: AnyServer, rare: None) -> AsyncIterator[Running]:
    """A link that serves; nothing comes by itself any more, and nothing is thorough."""
    async with running(Running(server.url)) as link:
        await link.beats(3)
        yield link


@pytest.fixture
async def narrow(server: AnyServer, direct: Client, rare: None) -> AsyncIterator[Running]:
    """A link that serves, whose user is `narrow`, with all rights at first."""
    direct.ask("ACL", "SETUSER", "narrow", "on", ">word", "~*", "&*", "+@all")
    async with running(Running(f"redis://narrow:word@127.0.0.1:{server.port}")) as link:
        await link.beats(3)
        yield link
    direct.ask("ACL", "DELUSER", "narrow")


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[Upstream]:
    """Looks at what new connections reach."""
    made, identity = list[Upstream](), reachability.identity

    async def counted(upstream: Upstream, timeout_s: float) -> Identity:
        made.append(upstream)
        return await identity(upstream, timeout_s)

    monkeypatch.setattr(discovery, "identity", counted)
    return made


def _looks_at_users(server: AnyServer) -> int:
    return calls(server.port, "acl|list")


async def test_it_comes_when_it_is_asked_for(
    life: Running, server: AnyServer, direct: Client
) -> None:
    answers, times = life.link.heartbeat.answers, calls(server.port, "time")
    assert 0 < life.link.heartbeat.round_trip_ms < life.context.clock.reading()
    await turns(direct)
    assert life.link.heartbeat.answers == answers
    await life.beats(2)
    assert life.link.heartbeat.answers == answers + 2
    assert calls(server.port, "time") == times + 2
    life.context.clock.adjust(direct.now_ms() + 3_600_000, life.context.clock.reading())
    await life.beats()
    assert abs(life.context.clock.now_ms() - direct.now_ms()) < 10_000


@asynccontextmanager
async def _trackers(server: AnyServer, count: int) -> AsyncIterator[None]:
    """Clients that Redis counts as proxies."""
    async with AsyncExitStack() as stack:
        for _ in range(count):
            other = stack.enter_context(Connection(server.port))
            other.ask("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "other")
            other.ask("SUBSCRIBE", KEYS.on_demand)
        yield


def _commands(direct: Client) -> Counter[str]:
    """The number of calls of each command."""
    lines = direct.ask("INFO", "commandstats").decode().splitlines()
    stats = [line.split(":calls=") for line in lines if line.startswith("cmdstat_")]
    return Counter({name.removeprefix("cmdstat_"): int(n.split(",")[0]) for name, n in stats})


@pytest.mark.any_server("7.0")  # 6.2 is asked for scripts by INFO
async def test_one_of_many_sends_a_few_cheap_requests_and_nothing_else(
    server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        manage(direct, f"s:{number}", m=FAR_MS)
    # Valkey 9.1 counts 15, 16 and 29 to 32 subscribers wrongly, for good.
    async with _trackers(server, 24), running(Running(server.url)) as link:
        await link.beats(2)
        while link.context.fleet.attached != 25:  # until a client of an earlier test has gone
            await link.beats()
        assert not link.context.fleet.is_alone
        link.link.walks._begins_s = 1e18  # another proxy walks
        monkeypatch.setattr(heartbeat, "EVERY_S", 0.01)
        link.link.heartbeat._beats._next_s = 0.0
        await link.beats()
        answers, before = link.link.heartbeat.answers, _commands(direct)
        await until(lambda: link.link.heartbeat.answers >= answers + 40)
        sent, count = _commands(direct) - before, link.link.heartbeat.answers - answers
    light = {"role", "time", "script|exists", "pubsub|numsub", "hmget", "zrangebyscore", "zcard"}
    assert all(sent[name] <= count + 1 for name in light), sent
    others = {name: calls for name, calls in sent.items() if name not in light}
    seldom = {"info", "acl|list", "command|count", "config|get"}
    assert set(others) <= seldom, sent
    assert all(calls <= count // 4 for calls in others.values()), sent


@pytest.mark.any_server
async def test_a_connection_that_was_opened_anew_has_its_server_looked_at(
    life: Running, server: AnyServer, direct: Client
) -> None:
    """It may be another one, or was restarted."""
    infos = calls(server.port, "info")
    await life.beats()
    light = calls(server.port, "info") - infos
    kill(server, direct, "ttlproxy:link")
    opened = life.link.heartbeat._opened
    infos = calls(server.port, "info")
    await life.beats()
    assert life.link.heartbeat._opened == opened + 1
    assert calls(server.port, "info") > infos + light


@pytest.mark.parametrize("right", ["role", "info"])
async def test_a_user_with_only_one_of_role_and_info_is_still_told_the_role(
    narrow: Running, direct: Client, right: str
) -> None:
    direct.ask("ACL", "SETUSER", "narrow", f"-{right}")
    await narrow.beats(2)
    direct.ask("REPLICAOF", "127.0.0.1", CLOSED_PORT)
    try:
        narrow.link.jobs.beat()
        await until(lambda: narrow.changes > 0)
    finally:
        direct.ask("REPLICAOF", "NO", "ONE")


@pytest.mark.any_server
async def test_a_server_whose_role_only_info_tells_is_asked_for_info(
    server: AnyServer, rare: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KeyDB's active replicas, which ROLE calls masters."""
    of = Identity.of
    monkeypatch.setattr(Identity, "of", lambda info: of(info)._replace(is_master=False))
    async with running(Running(server.url)) as link:
        await link.beats(4)
        assert link.link.server.identity is not None
        assert not link.link.server.identity.is_master
        assert link.changes == 0


@pytest.mark.parametrize(("others", "stretch"), [(1, 1), (20, 3), (119, 15)])
async def test_many_attached_stretch_the_pauses(
    server: AnyServer, rare: None, others: int, stretch: float
) -> None:
    async with _trackers(server, others), running(Running(server.url)) as link:
        await link.beats(2)
        assert link.context.fleet.stretch == stretch
        assert link.context.fleet.are_few == (others < 10)


@pytest.mark.parametrize("others", [7, 8, 9])
async def test_a_wrong_count_of_subscribers_makes_no_fleet_of_a_few(
    server: AnyServer, rare: None, others: int
) -> None:
    """Valkey 9.1.2 tells of hundreds of millions where there are 8."""
    async with _trackers(server, others), running(Running(server.url)) as link:
        await link.beats(2)
        assert link.context.fleet.are_few


async def test_a_regular_one_does_the_upkeep_and_others_do_not(
    life: Running, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    life.context.registry.announced(0, b"s", 1)
    manage(direct, "s", m=1)
    await life.beats(2)
    assert life.context.overdue.keys == 0
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.01)
    life.link.heartbeat._beats._next_s = 0.0
    life.link.jobs.beat()
    await until(lambda: life.context.overdue.keys == 1)
    answers = life.link.heartbeat.answers
    await until(lambda: life.link.heartbeat.answers > answers + 2)


async def test_the_number_of_managed_keys_is_known_from_the_last_regular_heartbeat(
    server: AnyServer, direct: Client, rare: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Others do not ask."""
    caplog.set_level("INFO")
    manage(direct, "s", m=FAR_MS)
    with closing(Client(server.port, 3)) as other:
        manage(other, "s", m=FAR_MS)
        async with running(Running(server.url)) as link:
            await link.beats(3)
            assert link.context.managed == {0: 1, 3: 1}
            assert "2 keys managed" in caplog.text
            manage(other, "t", m=FAR_MS)
            link.link.heartbeat._beats._next_s = 0.0
            await link.beats()
            assert link.context.managed == {0: 1, 3: 2}


async def test_the_address_is_not_looked_at_without_a_reason(
    probes: list[Upstream], life: Running, direct: Client
) -> None:
    await life.beats(2)
    await turns(direct)
    assert not probes


async def test_nothing_is_asked_between_regular_ones(server: AnyServer, direct: Client) -> None:
    async with running(Running(server.url)) as link:
        await link.beats()
        await turns(direct)
        answers = link.link.heartbeat.answers
        await turns(direct)
        assert link.link.heartbeat.answers <= answers + 1


async def test_settings_that_seldom_change_are_looked_at_twice_if_there_is_a_reason(
    life: Running, server: AnyServer, direct: Client
) -> None:
    looks, answers = _looks_at_users(server), life.link.heartbeat.answers
    await life.beats(2)
    assert _looks_at_users(server) == looks
    life.link.heartbeat.look_again()
    await until(lambda: life.link.heartbeat.answers > answers + 2)
    await life.beats(3)
    assert _looks_at_users(server) == looks + 2
    assert life.link.acl.categories


@pytest.mark.any_server
async def test_the_events_that_a_server_publishes_are_looked_at_thoroughly(
    life: Running, direct: Client
) -> None:
    traits = life.context.scripts.traits
    direct.ask("CONFIG", "SET", "notify-keyspace-events", "KEA")
    try:
        await life.beats(2)
        assert life.context.scripts.traits == traits
        life.link.heartbeat.look_again()
        await until(lambda: life.context.scripts.traits != traits)
    finally:
        direct.ask("CONFIG", "SET", "notify-keyspace-events", "")


async def test_after_a_swap_that_may_have_come_all_is_read_anew(
    server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.02)
    async with running(Running(server.url)) as link:
        soon_ms = _manage_soon(direct)
        link.context.script_calls.unconfirmed.note(Swap(3, 4), link.context.registry)
        await until(lambda: _is_read(link, soon_ms))


async def test_nobody_is_served_with_a_registry_that_was_read_without_announcements(
    life: Running, server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are lost while the registry is read."""
    announcements = life.link.announcements
    opened = list[object]()

    def lose() -> None:
        opened.append(announcements.connection)
        announcements.connection = None

    monkeypatch.setattr(announcements, "receive", lose)
    kill(server, direct, "ttlproxy:pushes")
    await until(lambda: bool(opened))
    await life.beats()
    assert not life.link.serving.now


async def test_a_connection_that_is_lost_again_and_again_ends_no_life(
    life: Running, server: AnyServer, direct: Client
) -> None:
    for _ in range(2 * heartbeat._MOST_LOSSES):
        kill(server, direct, "ttlproxy:link")
        await life.beats()
    assert life.link.serving.now
    assert (life.changes, life.link.trouble) == (0, "")


async def test_several_losses_in_a_row_are_raised(server: AnyServer, rare: None) -> None:
    lost = 0

    def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal lost
        lost += 1
        writer.close()

    async with await asyncio.start_server(close, "127.0.0.1", 0) as listening:
        link = Running(f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}").link
        redis = link._connect("ttlproxy:link")
        with pytest.raises(RedisConnectionError):
            await link.heartbeat.run(redis)
        await redis.aclose()
    assert lost == heartbeat._MOST_LOSSES + 1


@pytest.mark.any_server("7.0")  # 6.2 is asked for scripts by INFO
@pytest.mark.parametrize(
    ("right", "told"), [("info", 2), ("time", 2), ("script", 2), ("acl", 0), ("config", 0)]
)
async def test_a_right_that_is_lost_stops_nothing_and_is_told(
    narrow: Running, direct: Client, right: str, told: int
) -> None:
    narrow.context.scripts.miss()  # so they are loaded
    await until(lambda: narrow.context.scripts.loaded)
    direct.ask("ACL", "SETUSER", "narrow", f"-{right}")
    refusals = narrow.counters.refusals
    await narrow.beats(2)
    assert narrow.link.serving.now
    assert narrow.context.scripts.loaded is (right != "script")
    assert narrow.counters.refusals == refusals + told
    direct.ask("ACL", "SETUSER", "narrow", "+@all")
    await narrow.beats(2)
    assert narrow.counters.refusals == refusals + told
    assert narrow.context.scripts.loaded
    assert narrow.changes == 0


async def test_a_refusal_that_may_pass_waits_for_the_next_one_and_all_is_read_anew(
    narrow: Running, direct: Client
) -> None:
    direct.ask("ACL", "SETUSER", "narrow", "-script", "+script|exists")
    direct.ask("SCRIPT", "FLUSH")
    await narrow.beats()
    assert not narrow.context.scripts.called
    refusals, answers = narrow.counters.refusals, narrow.link.heartbeat.answers
    narrow.context.scripts.miss()
    await until(lambda: narrow.counters.refusals > refusals)
    await turns(direct)
    assert narrow.counters.refusals == refusals + 1
    assert narrow.link.heartbeat.answers == answers
    assert narrow.link.serving.now


async def test_after_a_refusal_that_has_passed_all_is_read_anew(
    server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.02)
    direct.ask("ACL", "SETUSER", "narrow", "on", ">word", "~*", "&*", "+@all")
    link = Running(f"redis://narrow:word@127.0.0.1:{server.port}")
    try:
        async with running(link):
            answers = link.link.heartbeat.answers
            await until(lambda: link.link.heartbeat.answers > answers + 2)
            soon_ms = _manage_soon(direct)
            direct.ask("ACL", "SETUSER", "narrow", "-script", "+script|exists")
            direct.ask("SCRIPT", "FLUSH")

            def is_refused() -> bool:
                link.context.scripts.miss()  # as if clients called scripts all the time
                return link.counters.refusals > 1

            await until(is_refused)
            direct.ask("ACL", "SETUSER", "narrow", "+@all")
            await until(lambda: _is_read(link, soon_ms))
            await until(lambda: link.context.scripts.loaded)
            assert link.changes == 0
    finally:
        direct.ask("ACL", "DELUSER", "narrow")


async def test_a_refusal_before_anybody_is_served_ends_the_life(
    server: AnyServer, direct: Client, rare: None
) -> None:
    """Nothing is known yet, so nothing can be promised."""
    soon_ms = _manage_soon(direct)
    direct.ask("ACL", "SETUSER", "narrow", "on", ">word", "~*", "&*", "+@all", "-zscan")
    link = Running(f"redis://narrow:word@127.0.0.1:{server.port}")
    task = asyncio.create_task(link.link.run())
    try:
        await link.link.serving.tried.wait()
        await until(lambda: bool(link.link.trouble))
        assert "permission" in link.link.trouble
        assert not link.link.serving.now
        direct.ask("ACL", "SETUSER", "narrow", "+zscan")
        await link.link.serving.ready.wait()
        assert _is_read(link, soon_ms)
        assert link.link.trouble == ""
    finally:
        task.cancel()
        await asyncio.wait({task})
        direct.ask("ACL", "DELUSER", "narrow")


async def test_while_redis_is_busy_it_waits_and_nothing_is_believed(
    start_server: StartServer, rare: None
) -> None:
    server = start_server("--lua-time-limit", "5")
    with closing(Client(server.port)) as direct:
        manage(direct, "s", m=FAR_MS)
    async with running(Running(server.url)) as link:
        await link.beats(3)
        link.context.scripts.miss()
        await until(lambda: link.context.scripts.loaded)
        refusals, answers = link.counters.refusals, link.link.heartbeat.answers
        loads = calls(server.port, "script|load")
        with Connection(server.port) as busy, Connection(server.port) as other:
            busy.send(command("EVAL", "while true do end", 0))
            await until(lambda: other.ask("PING").startswith(b"-BUSY"))
            link.link.heartbeat._beats._next_s = 0.0  # a regular one
            await link.beats()
            await until(lambda: link.counters.refusals > refusals)
            assert link.link.serving.now
            other.ask("SCRIPT", "KILL")
            await until(lambda: other.ask("PING") == b"+PONG\r\n")
        beats = link.link.heartbeat.answers - answers
        assert link.counters.refusals <= refusals + beats, "of the state that proxies share alone"
        await link.beats()
        await until(lambda: link.context.scripts.loaded)
        # Redis 6.2 counts SCRIPT KILL, too.
        assert calls(server.port, "script|load") <= loads + 1


async def test_rules_of_onwrite_that_a_busy_redis_does_not_show_stay_in_doubt(
    start_server: StartServer, rare: None, caplog: pytest.LogCaptureFixture
) -> None:
    """If there were none until the next heartbeat, writes would get no deadlines."""
    server = start_server("--lua-time-limit", "5")
    name = write_rules.name_of(b"s")
    async with running(Running(server.url)) as link:
        with Connection(server.port) as busy, closing(Client(server.port)) as other:
            actions, signer = link.context.actions, link.context.script_calls.signer
            set_rule(other, signer, name.decode(), "ONWRITE - 0", "1000 0 0 0 0")
            actions.changed(0, False, name)
            await until(lambda: not actions.rules.in_doubt)
            assert actions.rules.how((0,), b"s", b"set", False) == b"0+1000"
            busy.send(command("EVAL", "while true do end", 0))
            await until(lambda: str(other.ask("PING")).startswith("BUSY"))
            refusals = link.counters.refusals
            actions.changed(0, False, name)
            await until(lambda: link.counters.refusals > refusals + 1)
            assert actions.rules.in_doubt == {0}
            assert "is busy with a script of a client, and is asked again to read" in caplog.text
            assert "ERROR" not in caplog.text
            other.ask("SCRIPT", "KILL")
            await until(lambda: not actions.rules.in_doubt)
            assert actions.rules.how((0,), b"s", b"set", False) == b"0+1000"


@pytest.fixture
def replica(server: AnyServer, direct: Client) -> Iterator[AnyServer]:
    direct.ask("REPLICAOF", "127.0.0.1", CLOSED_PORT)
    yield server
    direct.ask("REPLICAOF", "NO", "ONE")


async def test_a_replica_hears_of_others_without_their_being_connected(
    replica: AnyServer, rare: None
) -> None:
    async with running(Running(replica.url)) as link:
        await link.beats(3)
        assert link.context.registry.expecting


async def test_a_replica_that_is_promoted_is_looked_at_thoroughly(
    replica: AnyServer, direct: Client, rare: None
) -> None:
    async with running(Running(replica.url)) as link:
        await link.beats(3)
        looks = _looks_at_users(replica)
        direct.ask("REPLICAOF", "NO", "ONE")
        await link.beats()
        await until(lambda: _looks_at_users(replica) > looks)  # at once
        await link.beats(2)
        assert _looks_at_users(replica) == looks + 2
        assert link.link.serving.now
        assert link.changes == 0
        assert not link.context.registry.expecting


async def test_a_replica_that_is_promoted_is_read_anew(
    replica: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.02)
    async with running(Running(replica.url)) as link:
        direct.ask("REPLICAOF", "NO", "ONE")
        soon_ms = _manage_soon(direct)
        await until(lambda: _is_read(link, soon_ms))


async def test_a_master_that_becomes_a_replica_ends_the_life_and_the_address_is_looked_at(
    life: Running, direct: Client, probes: list[Upstream]
) -> None:
    assert not probes
    direct.ask("REPLICAOF", "127.0.0.1", CLOSED_PORT)
    try:
        life.link.jobs.beat()
        await until(lambda: life.changes > 0)
        await life.link.serving.ready.wait()
        assert life.link.server.is_demoted
        await life.beats()
        await until(lambda: bool(probes))
    finally:
        direct.ask("REPLICAOF", "NO", "ONE")
    await life.beats()
    await until(lambda: not life.link.server.is_demoted)  # one may have been under way


async def test_a_master_that_is_a_replica_for_a_moment_keeps_its_clients(
    life: Running, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, roles = KnownServer.seen, list[bool]()

    def told(self: KnownServer, found: Identity) -> bool:
        roles.append(found.is_master)
        direct.ask("REPLICAOF", "NO", "ONE")
        return seen(self, found)

    direct.ask("REPLICAOF", "127.0.0.1", CLOSED_PORT)
    monkeypatch.setattr(KnownServer, "seen", told)
    await life.beats()
    assert roles[:2] == [False, True]
    assert life.changes == 0
    assert life.link.serving.now


async def test_a_proxy_that_is_alone_expects_no_announcements(
    life: Running, server: AnyServer, direct: Client
) -> None:
    registry = life.context.registry
    assert not registry.expecting
    for words in announcing(life.context.keys.hello):
        direct.ask(*words)
    await until(lambda: registry.expecting)
    await life.beats()
    assert not registry.expecting, "it has gone again"
    with closing(Client(server.port, protocol=3)) as other:
        other.ask("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "other")
        await life.beats()
        assert registry.expecting
        await life.beats()
        assert registry.expecting
    await until(lambda: len(direct.ask("CLIENT", "LIST")) > 0)
    await life.beats(2)
    assert not registry.expecting


async def test_another_that_was_counted_before_this_one_hears_is_not_taken_for_it(
    server: AnyServer, rare: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first heartbeat counts, and lets clients be served after the connection was opened."""
    link, expected = Running(server.url), list[bool]()
    beating, hearing = link.link.heartbeat, link.link.announcements
    ask, keep_serving = beating._ask, beating._keep_serving

    async def late(*words: Any) -> Any:
        asked = await ask(*words)
        await until(lambda: hearing.connection is not None)
        return asked

    async def noted(*words: Any) -> None:
        await keep_serving(*words)
        expected.append(link.context.registry.expecting)

    async def greets_nobody() -> None:
        """Redis holds it back, for example."""

    monkeypatch.setattr(beating, "_ask", late)
    monkeypatch.setattr(beating, "_keep_serving", noted)
    monkeypatch.setattr(hearing, "_greet", greets_nobody)
    async with _trackers(server, 1), running(link):
        assert link.link.serving.now
        assert expected[0]


async def test_a_greeting_during_a_heartbeat_counts(
    life: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other proxy tracks no keys yet when Redis answers."""
    ask = pipeline.run

    async def ask_and_greet(*words: Any) -> list[object]:
        replies = await ask(*words)
        life.link.announcements.greeted()
        return replies

    monkeypatch.setattr(heartbeat, "run", ask_and_greet)
    await life.beats()
    assert life.context.registry.expecting


@pytest.mark.any_server(
    "7.0"
)  # the number of scripts, which 6.2 is asked for, may change by itself
async def test_between_heartbeats_it_looks_at_what_a_request_may_have_changed(
    life: Running, server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_PATIENCE_S", LONG_S)  # else a busy machine ends the wait
    life.context.scripts.miss()
    await until(lambda: life.context.scripts.loaded)
    life.context.fleet.attached = 2  # so what is flushed is loaded again
    looks = _looks_at_users(server)
    await _verify(life)
    assert _looks_at_users(server) == looks + 2, "nothing has changed"
    direct.ask("ACL", "SETUSER", "client", "on", "nopass", "~app:*", "~__ttl:*", "+@all")
    try:
        await _verify(life)
        assert not life.context.rights.trusts_schedules
    finally:
        direct.ask("ACL", "DELUSER", "client")
    direct.ask("CONFIG", "SET", "notify-keyspace-events", "KEA")
    traits = life.context.scripts.traits
    try:
        await _verify(life)
        assert life.context.scripts.traits != traits
    finally:
        direct.ask("CONFIG", "SET", "notify-keyspace-events", "")
    await _verify(life)
    direct.ask("SCRIPT", "FLUSH")
    looks = _looks_at_users(server)
    await _verify(life)
    assert _looks_at_users(server) == looks + 2
    assert life.context.scripts.loaded


async def _verify(life: Running) -> None:
    """Ends when the link has looked at what a request has changed that has been answered."""

    async def answered() -> None:
        pass

    await life.link.jobs.verify(answered())


async def test_a_question_that_is_refused_between_heartbeats_changes_nothing(
    narrow: Running, direct: Client
) -> None:
    direct.ask("ACL", "SETUSER", "narrow", "-script")
    refusals = narrow.counters.refusals
    await _verify(narrow)
    assert narrow.counters.refusals == refusals
    assert narrow.link.serving.now
    assert narrow.changes == 0
