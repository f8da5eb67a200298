"""The reaper and the link in this process: what is reaped when, by whom, and what is tried again.

There is no heartbeat that repairs anything, and the reaper does not wake by itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing

import pytest

from tests.conftest import StartServer
from tests.link.conftest import FAR_MS, KEYS, S, manage, until
from tests.link.running import ids
from tests.support.cluster import Cluster
from tests.support.containers import AnyServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import LEASE
from tests.support.server_queries import calls, connections, info
from tests.support.servers import Binary, Server, release
from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.link import Context, Link, announcing
from ttlproxy.link.life import heartbeat
from ttlproxy.link.life import link as lives
from ttlproxy.link.reaper import reaper as module
from ttlproxy.link.reaper.reaper import Reaper
from ttlproxy.link.shared import agenda, fleet
from ttlproxy.net.tasks import cancel
from ttlproxy.wire import NOTHING_DUE

NEVER_MS = 10**9


class Reaping:
    """A reaper with its link. `await over()` ends the reaper, and not the link."""

    def __init__(self, url: str, **settings: object) -> None:
        chosen = Settings.read({"upstream": url, **settings})
        self.counters = Counters()
        self.context = Context(chosen, self.counters)
        self.link = Link(Upstream.parse(url), self.context)
        self.reaper = Reaper(self.link)
        self.tasks = [
            asyncio.create_task(self.link.run()),
            asyncio.create_task(self.reaper.run()),
        ]

    async def over(self) -> None:
        await cancel(self.tasks[1])


@asynccontextmanager
async def _reaping(url: str, **settings: object) -> AsyncIterator[Reaping]:
    made = Reaping(url, **settings)
    try:
        await made.link.serving.ready.wait()
        yield made
    finally:
        await cancel(*made.tasks)


@pytest.fixture(autouse=True)
def _nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "EVERY_S", NEVER_MS / 1000)
    monkeypatch.setattr(module, "_LONGEST_SLEEP_MS", NEVER_MS)


@pytest.fixture
def narrow(server: AnyServer, direct: Client) -> Iterator[str]:
    """The URL of a user whose rights a test may change."""
    direct.ask("ACL", "SETUSER", "narrow", "on", "nopass", "~*", "&*", "+@all")
    yield f"redis://narrow:x@127.0.0.1:{server.port}"
    direct.ask("ACL", "DELUSER", "narrow")


def _make_due(direct: Client, key: str, db: int = 0, **deadlines_ms: int) -> None:
    """Announces the first deadline of a set, as the one who has set it does."""
    deadlines_ms = deadlines_ms or {"m": 1}
    manage(direct, key, **deadlines_ms)
    name = KEYS.announcement(db, min(deadlines_ms.values()), key.encode())
    direct.ask_many(announcing(name))


def _gone(direct: Client, *keys: str) -> Callable[[], bool]:
    return lambda: bool(direct.ask("EXISTS", *keys) == 0)


def _has(direct: Client, key: str, *members: bytes) -> Callable[[], bool]:
    return lambda: bool(direct.ask("SMEMBERS", key) == list(members))


def _dates(direct: Client, key: bytes, *members: bytes) -> Callable[[], bool]:
    """Whether its index has these members alone."""
    return lambda: bool(direct.ask("ZRANGE", KEYS.index(key), 0, -1) == list(members))


async def test_elements_that_are_due_at_the_start_and_later_ones_go_from_all_databases(
    server: AnyServer, direct: Client
) -> None:
    with closing(Client(server.port, 3)) as other:
        for db in (direct, other):
            manage(db, "s", m=1)
        async with _reaping(server.url) as reaping:
            for number, db in ((0, direct), (3, other)):
                await until(_gone(db, "s"))
                _make_due(db, "t", number)
                await until(_gone(db, "t"))
                now_ms = db.now_ms()
                _make_due(db, "u", number, first=now_ms + 20, second=now_ms + 60, last=FAR_MS)
                await until(_has(db, "u", b"last"))
            await until(lambda: reaping.context.agenda.next_ms == FAR_MS)


async def _begun(reaping: Reaping) -> None:
    """It is one of a few, and so it leads until another one has the lease."""
    await until(lambda: reaping.context.agenda.leads)


async def _pass_time(direct: Client) -> None:
    """As long as some requests of another connection take."""
    for _ in range(20):
        await asyncio.to_thread(direct.ask, "PING")


async def test_a_deadline_that_nobody_has_announced_is_found_after_a_while(
    server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LONGEST_SLEEP_MS", 10)
    async with _reaping(server.url) as reaping:
        _make_due(direct, "late", m=FAR_MS)
        await until(lambda: reaping.context.agenda.next_ms == FAR_MS)
        manage(direct, "s", m=1)
        await until(_gone(direct, "s"))


async def test_an_earlier_deadline_of_another_key_wakes_it(
    server: AnyServer, direct: Client
) -> None:
    async with _reaping(server.url) as reaping:
        _make_due(direct, "late", m=FAR_MS)
        await until(lambda: reaping.context.agenda.next_ms == FAR_MS)
        _make_due(direct, "s")
        await until(_gone(direct, "s"))
        assert direct.ask("EXISTS", "late") == 1


async def test_large_keys_and_many_keys_are_emptied_in_parts(
    server: AnyServer, direct: Client
) -> None:
    manage(direct, "large", **{f"m{number}": 1 for number in range(300)})
    for number in range(300):
        manage(direct, f"k{number}", m=1)
    async with _reaping(server.url, reap_batch=10, reap_budget_ms=1):
        await until(_gone(direct, "large", *(f"k{number}" for number in range(300))))


async def test_entries_without_an_element_are_swept_when_it_is_time(
    server: AnyServer, direct: Client
) -> None:
    async with _reaping(server.url) as reaping:
        for key in ("s", "t"):
            _make_due(direct, key, m=FAR_MS, gone=FAR_MS)
            direct.ask("SREM", key, "gone")
        reaping.context.sweep_later([S, (0, b"t"), (0, b"none")])
        for name in (b"s", b"t"):
            await until(_dates(direct, name, b"m"))


async def test_index_entries_that_a_reap_finds_without_an_element_are_swept(
    server: AnyServer, direct: Client
) -> None:
    async with _reaping(server.url):
        manage(direct, "s", m=1, gone=1, left=FAR_MS, away=FAR_MS)
        direct.ask("SREM", "s", "gone", "away")
        direct.ask_many(announcing(KEYS.announcement(0, 1, b"s")))
        await until(_dates(direct, b"s", b"left"))


async def test_one_proxy_reaps_and_another_tries_when_its_lease_ends(
    server: AnyServer, direct: Client
) -> None:
    async with _reaping(server.url, lease_ms=300_000):
        direct.ask("SET", LEASE, "somebody", "PX", 500)
        _make_due(direct, "s")
        await until(_gone(direct, "s"))
        assert 500 < direct.ask("PTTL", LEASE) <= 300_000
        assert direct.ask("GET", LEASE).endswith(b":300000")


async def test_a_flush_takes_the_lease_and_another_may_have_it_by_then(
    server: AnyServer, direct: Client
) -> None:
    async with _reaping(server.url, lease_ms=300_000) as reaping:
        _make_due(direct, "s")
        await until(_gone(direct, "s"))
        direct.ask("FLUSHALL")
        await until(lambda: reaping.link.announcements.flushes > 0)
        direct.ask("SET", LEASE, "somebody", "PX", 500)
        _make_due(direct, "s")
        await until(_gone(direct, "s"))
        assert direct.ask("GET", LEASE).endswith(b":300000")


@pytest.mark.parametrize(
    "lease", [("somebody:600000",), ("somebody:600000", "PX", 6_000_000)], ids=["none", "too late"]
)
async def test_a_lease_without_an_end_or_with_one_after_its_time_is_taken_over(
    server: AnyServer, direct: Client, lease: tuple[str | int, ...]
) -> None:
    """A client wrote there, or the server's clock was set back."""
    async with _reaping(server.url, lease_ms=500_000):
        direct.ask("SET", LEASE, *lease)
        _make_due(direct, "s")
        await until(_gone(direct, "s"))
        assert direct.ask("GET", LEASE).endswith(b":500000")
        assert 0 < direct.ask("PTTL", LEASE) <= 500_000


async def test_a_proxy_without_the_lease_is_not_woken_by_deadlines(
    server: AnyServer, direct: Client
) -> None:
    async with _reaping(server.url, lease_ms=600_000) as reaping:
        await _begun(reaping)
        direct.ask("SET", LEASE, "somebody", "PX", 600_000)
        agenda, asked = reaping.context.agenda, calls(server.port, "pttl")
        _make_due(direct, "s")
        await until(lambda: not agenda.leads)
        assert calls(server.port, "pttl") == asked + 1
        looks = calls(server.port, "zrangebyscore")
        _make_due(direct, "t")
        await _pass_time(direct)
        assert calls(server.port, "zrangebyscore") == looks
        assert calls(server.port, "pttl") == asked + 1
        agenda.take_over(0)  # as a heartbeat that sees that something is late
        await until(lambda: calls(server.port, "pttl") > asked + 1)
        assert direct.ask("EXISTS", "s", "t") == 2
        direct.ask("DEL", LEASE)
        agenda.take_over(0)
        await until(_gone(direct, "s"))
        await until(_gone(direct, "t"))
        assert agenda.leads
        _make_due(direct, "u")
        await until(_gone(direct, "u"))


async def test_each_of_a_few_proxies_acts_at_deadlines_until_one_has_the_lease(
    server: AnyServer, direct: Client
) -> None:
    with closing(Client(server.port, protocol=3)) as other:
        other.ask("CLIENT", "TRACKING", "ON")
        async with _reaping(server.url):
            _make_due(direct, "s")
            await until(_gone(direct, "s"))


async def test_one_of_many_proxies_leads_only_once_something_is_late(
    server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "FEW", 1)
    with Connection(server.port) as other:
        other.ask("CLIENT", "TRACKING", "ON")
        other.ask("SUBSCRIBE", KEYS.broadcast)
        async with _reaping(server.url) as reaping:
            manage(direct, "s", m=1)
            _make_due(direct, "t")
            await _pass_time(direct)
            assert direct.ask("EXISTS", "s", "t", LEASE) == 2
            reaping.context.agenda.take_over(0)
            await until(_gone(direct, "s"))
            await until(_gone(direct, "t"))


async def test_the_last_proxy_leads(server: AnyServer, direct: Client) -> None:
    with closing(Client(server.port, protocol=3)) as other:
        other.ask("CLIENT", "TRACKING", "ON")
        direct.ask("SET", LEASE, "somebody", "PX", 600_000)
        async with _reaping(server.url, lease_ms=600_000) as reaping:
            await _begun(reaping)
            _make_due(direct, "s")
            await until(lambda: not reaping.context.agenda.leads)
            direct.ask("DEL", LEASE)
            await _pass_time(direct)
            assert direct.ask("EXISTS", "s") == 1
            other.ask("CLIENT", "TRACKING", "OFF")
            reaping.link.jobs.beat()
            await until(_gone(direct, "s"))


@pytest.mark.parametrize(("attached", "tries"), [(2, True), (1_000_000, False)])
async def test_of_many_proxies_that_see_something_late_some_wait_for_the_lease(
    server: AnyServer, direct: Client, attached: int, tries: bool
) -> None:
    async with _reaping(server.url, lease_ms=600_000) as reaping:
        await _begun(reaping)
        direct.ask("SET", LEASE, "somebody", "PX", 600_000)
        reaping.context.fleet.attached = attached
        _make_due(direct, "s")
        await until(lambda: not reaping.context.agenda.leads)
        assert (reaping.context.agenda.take_over_ms < NOTHING_DUE) == tries


async def test_the_lease_is_kept_for_what_follows_and_given_back_at_the_end(
    server: AnyServer, direct: Client
) -> None:
    async with _reaping(server.url, lease_ms=600_000) as reaping:
        _make_due(direct, "s")
        await until(_gone(direct, "s"))
        direct.ask("PEXPIRE", LEASE, 500_000)
        _make_due(direct, "t")
        await until(_gone(direct, "t"))
        assert direct.ask("PTTL", LEASE) <= 500_000, "it was not renewed"
        held = direct.ask("GET", LEASE)
        await reaping.over()
        direct.ask("SET", LEASE, "somebody")
        await reaping.reaper.drop_lease()
        assert direct.ask("GET", LEASE) == b"somebody"
        direct.ask("SET", LEASE, held)
        await reaping.reaper.drop_lease()
        assert direct.ask("EXISTS", LEASE) == 0
        await asyncio.to_thread(wait_until, lambda: not _ours(server), "its connection is closed")


async def test_a_reaper_without_a_lease_or_a_redis_gives_none_back(
    server: AnyServer, direct: Client
) -> None:
    async with _reaping(server.url, lease_ms=600_000) as reaping:
        await asyncio.to_thread(wait_until, lambda: _ours(server) != [], "the connection")
        await reaping.over()
        before = info(server.port, "stats")["total_connections_received"]
        await reaping.reaper.drop_lease()
        after = info(server.port, "stats")["total_connections_received"]
        assert int(after) == int(before) + 1, "the one that has asked for this"


async def test_one_of_many_has_a_connection_only_from_its_first_request_on(
    server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "FEW", 0)  # also before it has counted the others
    with Connection(server.port) as other:
        other.ask("CLIENT", "TRACKING", "ON")
        other.ask("SUBSCRIBE", KEYS.broadcast)
        async with _reaping(server.url, lease_ms=600_000) as reaping:
            await until(lambda: reaping.context.agenda.next_ms == NOTHING_DUE)
            assert not _ours(server)
            _make_due(direct, "s")
            reaping.context.agenda.take_over(0)
            await until(_gone(direct, "s"))
            assert _ours(server)


def _ours(server: AnyServer) -> list[dict[str, str]]:
    return [each for each in connections(server.port) if each["name"] == "ttlproxy:reaper"]


def _ours_of(direct: Client) -> list[bytes]:
    """The ids of its connections."""
    lines = [line for line in direct.ask("CLIENT", "LIST").splitlines() if b":reaper " in line]
    return [line.split()[0].removeprefix(b"id=") for line in lines]


@pytest.mark.any_server
@pytest.mark.parametrize("clustered", [False, True])
async def test_a_reap_counts_as_a_use_of_the_key_only_before_a_cluster(
    valkey_binary: Binary, clustered: bool
) -> None:
    with ExitStack() as stack:
        made = Cluster(valkey_binary, nodes=1) if clustered else Server(valkey_binary)
        stack.enter_context(made)
        server = made.nodes[0] if isinstance(made, Cluster) else made
        async with _reaping(server.url):
            await until(lambda: any("e" in each["flags"] for each in _ours(server)))
            (ours,) = _ours(server)
            assert ("T" in ours["flags"]) != clustered


async def test_its_connection_is_not_evicted_and_is_opened_again(
    server: AnyServer, direct: Client
) -> None:
    async with _reaping(server.url):
        for key in ("s", "t"):
            _make_due(direct, key)
            await until(_gone(direct, key))
            (ours,) = _ours(server)
            assert ("e" in ours["flags"]) == (release(server.name) >= (7, 0))
            direct.ask("CLIENT", "KILL", "ID", ours["id"])


async def test_a_key_that_redis_refuses_is_parked_and_others_are_reaped(
    narrow: str, direct: Client
) -> None:
    async with _reaping(narrow) as reaping:
        direct.ask("ACL", "SETUSER", "narrow", "resetkeys", "~good", "~__ttl:*")
        _make_due(direct, "bad")
        _make_due(direct, "good")
        await until(_gone(direct, "good"))
        await until(lambda: reaping.context.node_counts.parked.total() == 1)
        direct.ask("ACL", "SETUSER", "narrow", "~*")
        reaping.context.agenda.look_now()
        await until(_gone(direct, "bad"))
        await until(lambda: not reaping.context.node_counts.parked)


class Pause:
    """In place of a backoff: how long the pause after a failure is."""

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s

    def compute(self, failures: int) -> float:
        return self._pause_s


def _refused(direct: Client, key: bytes) -> int:
    """The number of refused accesses to a key, by ACL LOG."""
    entries = [dict(zip(line[::2], line[1::2], strict=True)) for line in direct.ask("ACL", "LOG")]
    return sum(entry[b"count"] for entry in entries if entry[b"object"] == key)


async def test_parked_keys_are_left_alone_for_a_while_and_hide_no_others(
    narrow: str, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agenda, "_PARKED", Pause(1e6))
    monkeypatch.setattr(module, "DUE", 1)
    async with _reaping(narrow) as reaping:
        direct.ask("ACL", "SETUSER", "narrow", "resetkeys", "~good", "~__ttl:*")
        direct.ask("ACL", "LOG", "RESET")
        _make_due(direct, "bad")
        await until(lambda: reaping.context.node_counts.parked.total() == 1)
        refused = _refused(direct, b"bad")
        _make_due(direct, "good", m=2)
        await until(_gone(direct, "good"))
        await _pass_time(direct)
        assert _refused(direct, b"bad") == refused


async def test_a_parked_key_is_tried_again_when_its_pause_is_over(
    narrow: str, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agenda, "_PARKED", Pause(0.2))
    async with _reaping(narrow) as reaping:
        direct.ask("ACL", "SETUSER", "narrow", "resetkeys", "~__ttl:*")
        _make_due(direct, "bad")
        await until(lambda: reaping.context.node_counts.parked.total() == 1)
        direct.ask("ACL", "SETUSER", "narrow", "~*")
        await until(_gone(direct, "bad"))


async def test_a_call_that_redis_refuses_as_a_whole_is_noted_and_tried_again(
    narrow: str, direct: Client
) -> None:
    async with _reaping(narrow) as reaping:
        direct.ask("ACL", "SETUSER", "narrow", "-@scripting")
        _make_due(direct, "s")
        reaping.context.sweep_later([S])
        await until(lambda: reaping.counters.refusals >= 2)
        assert direct.ask("EXISTS", "s") == 1
        direct.ask("ACL", "SETUSER", "narrow", "+@scripting")
        await until(_gone(direct, "s"))


async def test_a_schedule_that_could_not_be_read_is_read_again(
    server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_UNREAD_MS", 10)
    async with _reaping(server.url) as reaping:
        _make_due(direct, "late", m=FAR_MS)
        await until(lambda: reaping.context.agenda.next_ms == FAR_MS)
        direct.ask("RENAME", KEYS.schedule, "elsewhere")
        direct.ask("SET", KEYS.schedule, "junk")
        manage_later = direct.now_ms()
        reaping.context.agenda.look_at(manage_later)
        await until(lambda: reaping.counters.refusals >= 2)
        direct.ask("RENAME", "elsewhere", KEYS.schedule)
        manage(direct, "s", m=1)
        await until(_gone(direct, "s"))


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """After how many failures in a row each pause was made."""
    asked = list[int]()

    class Pace:
        def compute(self, failures: int) -> float:
            asked.append(failures)
            return 0.001

    monkeypatch.setattr(module, "_BACKOFF", Pace())
    return asked


def _waits(server: AnyServer) -> bool:
    """Whether the pause holds back its request."""
    return any("b" in each["flags"] for each in _ours(server))


async def test_a_lost_connection_is_opened_again_without_a_pause(
    server: AnyServer, direct: Client, pauses: list[int]
) -> None:
    async with _reaping(server.url, connect_timeout=0.1) as reaping:
        manage(direct, "s", m=1)
        direct.ask("CLIENT", "PAUSE", 60_000, "WRITE")
        try:
            reaping.context.registry.announced(*S, 1)
            await asyncio.to_thread(wait_until, lambda: _waits(server), "a call")
            await asyncio.wait({reaping.tasks[1]}, timeout=0.3)
            assert not pauses, "it waits longer for a reply than for a connection"
            direct.ask("CLIENT", "KILL", "ID", _ours(server)[0]["id"])
        finally:
            direct.ask("CLIENT", "UNPAUSE")
        await until(_gone(direct, "s"))
        assert not pauses
        assert not reaping.counters.refusals


async def test_connections_that_are_refused_are_tried_less_and_less_often(
    server: AnyServer, direct: Client, pauses: list[int]
) -> None:
    async with _reaping(server.url):
        _make_due(direct, "s")
        await until(_gone(direct, "s"))
        (most,) = direct.ask("CONFIG", "GET", "maxclients")[1:]
        direct.ask("CONFIG", "SET", "maxclients", 1)
        try:
            direct.ask("CLIENT", "KILL", "ID", _ours_of(direct)[0])
            _make_due(direct, "t")
            await until(lambda: len(pauses) >= 2)
            assert pauses[:2] == [2, 3]
        finally:
            direct.ask("CONFIG", "SET", "maxclients", most)
        await until(_gone(direct, "t"))


async def test_a_refused_call_is_tried_less_and_less_often(
    narrow: str, direct: Client, pauses: list[int]
) -> None:
    direct.ask("SET", LEASE, "somebody", "PX", 600_000)
    manage(direct, "s", m=1)
    manage(direct, "late", m=FAR_MS)
    direct.ask("ACL", "SETUSER", "narrow", "-pttl")
    async with _reaping(narrow, lease_ms=1) as reaping:
        for key in ("s", "t"):
            await until(lambda: len(pauses) >= 3)
            assert pauses[:3] == [1, 2, 3]
            assert reaping.counters.refusals >= 3
            direct.ask("DEL", LEASE)
            await until(_gone(direct, key))
            await until(lambda: reaping.context.agenda.next_ms == FAR_MS)
            direct.ask("SET", LEASE, "somebody", "PX", 600_000)
            pauses.clear()
            _make_due(direct, "t")


async def test_a_sweep_that_was_lost_is_done_later(server: AnyServer, direct: Client) -> None:
    async with _reaping(server.url) as reaping:
        _make_due(direct, "s", m=FAR_MS, gone=FAR_MS)
        direct.ask("SREM", "s", "gone")
        direct.ask("CLIENT", "PAUSE", 60_000, "WRITE")
        try:
            reaping.context.sweep_later([S])
            await asyncio.to_thread(wait_until, lambda: _waits(server), "the sweep")
            direct.ask("CLIENT", "KILL", "ID", _ours(server)[0]["id"])
        finally:
            direct.ask("CLIENT", "UNPAUSE")
        await until(_dates(direct, b"s", b"m"))


async def test_a_schedule_that_cannot_be_read_is_left_alone_for_a_while(
    server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_UNREAD_MS", NEVER_MS)
    async with _reaping(server.url) as reaping:
        _make_due(direct, "late", m=FAR_MS)
        await until(lambda: reaping.context.agenda.next_ms == FAR_MS)
        direct.ask("SET", KEYS.schedule, "junk")
        reaping.context.agenda.look_now()
        await until(lambda: reaping.counters.refusals >= 1)
        refusals = reaping.counters.refusals
        await _pass_time(direct)
        assert reaping.counters.refusals == refusals


async def test_after_a_life_of_the_link_all_is_begun_anew(start_server: StartServer) -> None:
    """Also what was under way: nobody announces it a second time."""
    server = start_server()
    with closing(Client(server.port)) as direct:
        async with _reaping(server.url, lease_ms=600_000) as reaping:
            _make_due(direct, "s")
            await until(_gone(direct, "s"))
            manage(direct, "t", m=1)
            assert direct.ask("DEL", LEASE) == 1
            direct.ask("SAVE")
            direct.ask("CLIENT", "PAUSE", 60_000, "WRITE")
            reaping.context.registry.announced(0, b"t", 1)
            await asyncio.to_thread(wait_until, lambda: _waits(server), "a call")
            server.kill()
            await until(lambda: not reaping.link.serving.now)
            server.restart()
            with closing(Client(server.port)) as anew:
                await until(_gone(anew, "t"))
                assert anew.ask("EXISTS", LEASE) == 1


async def test_work_that_the_end_of_a_life_of_the_link_cut_off_is_done_in_the_next(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at a host that has vanished: the reaper's own connection looks alive."""
    is_there = asyncio.Event()
    is_there.set()

    async def accepts(*_: object) -> bool:
        return is_there.is_set()

    monkeypatch.setattr(lives, "accepts", accepts)
    server = start_server()
    with closing(Client(server.port)) as direct:
        async with _reaping(server.url, connect_timeout=0.1) as reaping:
            manage(direct, "s", m=1)
            direct.ask("CLIENT", "PAUSE", 60_000, "WRITE")
            reaping.context.registry.announced(*S, 1)
            await asyncio.to_thread(wait_until, lambda: _waits(server), "a call")
            cut_off = {*ids(server, "ttlproxy:reaper")}
            os.kill(server.pid, signal.SIGSTOP)
            try:
                is_there.clear()
                reaping.link.jobs.beat()  # this is never answered
                await until(lambda: not reaping.link.serving.now)
            finally:
                os.kill(server.pid, signal.SIGCONT)
            is_there.set()
            await until(lambda: cut_off.isdisjoint(ids(server, "ttlproxy:reaper")))
            direct.ask("CLIENT", "UNPAUSE")
            await until(_gone(direct, "s"))


async def test_a_server_that_does_not_answer_keeps_nobody_from_ending(
    start_server: StartServer,
) -> None:
    server = start_server()
    with closing(Client(server.port)) as direct:
        async with _reaping(server.url, lease_ms=600_000, connect_timeout=0.1) as reaping:
            _make_due(direct, "s")
            await until(_gone(direct, "s"))
            await reaping.over()
            os.kill(server.pid, signal.SIGSTOP)
            try:
                await reaping.reaper.drop_lease()
            finally:
                os.kill(server.pid, signal.SIGCONT)
