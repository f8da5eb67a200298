"""Reaps for sessions: who waits for what, and what Redis refuses holds up nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import closing

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.link.conftest import FAR_MS, KEYS, Become, S, manage
from tests.support.containers import AnyServer
from tests.support.processes import CLOSED_PORT
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from ttlproxy.addresses import Upstream
from ttlproxy.config import Settings
from ttlproxy.core.registry import DbKey, Registry
from ttlproxy.errors import UpstreamError
from ttlproxy.link import Context, client
from ttlproxy.link.connecting.known_server import Identity, KnownServer
from ttlproxy.link.reaper.reap_requests import ReapRequest, ReapRequests
from ttlproxy.link.reaper.schedules import Schedules
from ttlproxy.net.tasks import cancel

Begin = Callable[[], "asyncio.Task[None]"]


@pytest.fixture
def known() -> KnownServer:
    return KnownServer("", lambda: None)


@pytest.fixture
def looked() -> asyncio.Event:
    """Set when the server's role is to be looked at."""
    return asyncio.Event()


@pytest.fixture
def requests(context: Context, known: KnownServer, looked: asyncio.Event) -> ReapRequests:
    return ReapRequests(context, known, looked.set)


@pytest.fixture
async def begin(requests: ReapRequests, redis: Redis, direct: Client) -> AsyncIterator[Begin]:
    """`begin()` serves the requests from now on, and gives the task."""
    tasks = list[asyncio.Task[None]]()

    def serve() -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(requests.run(redis)))
        return tasks[-1]

    yield serve
    await cancel(*tasks)
    requests.stop()


async def _until_refused(request: ReapRequest) -> None:
    while request.refusal is None:
        await asyncio.wait({request.done}, timeout=0.01)
    assert not request.done.done()


async def test_requests_of_one_moment_share_their_calls(
    requests: ReapRequests, begin: Begin, direct: Client, known: KnownServer
) -> None:
    known.met(Identity("x", True, 1, []))
    manage(direct, "a", m=1)
    manage(direct, "b", m=1)
    both = [requests.add([(0, key)], [], []) for key in (b"a", b"b")]
    begin()
    await asyncio.gather(*(each.done for each in both))
    assert direct.ask("EXISTS", "a", "b") == 0
    manage(direct, "a", m=1)
    await requests.add([(0, b"a")], [], []).done
    assert direct.ask("EXISTS", "a") == 0


def _reaps(server: AnyServer) -> int:
    return calls(server.port, "eval") + calls(server.port, "evalsha")


async def test_of_keys_of_which_nothing_is_known_only_what_is_due_is_reaped(
    requests: ReapRequests, begin: Begin, direct: Client, context: Context, server: AnyServer
) -> None:
    context.rights.trusts_schedules = True
    context.clock.adjust(direct.now_ms(), context.clock.reading())
    manage(direct, "later", m=FAR_MS)
    begin()
    before = _reaps(server)
    places = [(0, b"later"), (0, b"plain")]
    await requests.add(places, [], []).done
    assert _reaps(server) == before
    manage(direct, "due", m=1)
    await requests.add([*places, (0, b"due")], [], []).done
    assert _reaps(server) == before + 1
    assert direct.ask("EXISTS", "due", "later") == 1


async def test_a_key_that_is_known_to_be_due_is_reaped_without_a_question(
    requests: ReapRequests,
    begin: Begin,
    direct: Client,
    registry: Registry,
    server: AnyServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In its own database."""
    asked, really_ask = set[DbKey](), Schedules.due_among

    async def due_among(
        self: Schedules, redis: Redis, places: Collection[DbKey], now_ms: int
    ) -> set[DbKey]:
        asked.update(places)
        return await really_ask(self, redis, places, now_ms)

    monkeypatch.setattr(Schedules, "due_among", due_among)
    registry.end_reading(registry.begin_reading(FAR_MS), FAR_MS)
    registry.announced(0, b"s", 1)
    manage(direct, "s", m=1)
    with closing(Client(server.port, 3)) as other:
        manage(other, "s", m=1)
        begin()
        await requests.add([S, (3, b"s")], [], []).done
        assert direct.ask("EXISTS", "s") + other.ask("EXISTS", "s") == 0
    assert asked == {(3, b"s")}


async def test_a_key_that_was_lost_to_its_schedule_is_put_there_when_it_is_asked_for(
    requests: ReapRequests, begin: Begin, direct: Client, context: Context
) -> None:
    context.rights.trusts_schedules = True
    manage(direct, "s", m=FAR_MS, due=1)
    direct.ask("DEL", KEYS.schedule)
    begin()
    await requests.add([S], [], []).done
    assert direct.ask("SMEMBERS", "s") == [b"m"]
    assert direct.ask("ZSCORE", KEYS.schedule, "s") == b"%d" % FAR_MS


@pytest.mark.parametrize("rules", ["-eval -evalsha", "-eval -evalsha -zscore -exists"])
async def test_a_refusal_is_not_taken_for_nothing_due(
    requests: ReapRequests,
    begin: Begin,
    become: Become,
    direct: Client,
    context: Context,
    rules: str,
) -> None:
    context.rights.trusts_schedules = True
    manage(direct, "s", m=1)
    await become(rules)
    begin()
    waits = requests.add([S], [], [])
    await _until_refused(waits)
    direct.ask("ACL", "SETUSER", "narrow", "+@all")
    await waits.done
    assert direct.ask("EXISTS", "s") == 0


async def test_a_key_with_more_than_one_batch_is_emptied(
    requests: ReapRequests, begin: Begin, direct: Client, settings: Settings
) -> None:
    manage(direct, "s", **{f"m{number}": 1 for number in range(2 * settings.reap_batch + 1)})
    begin()
    await requests.add([S], [], []).done
    assert direct.ask("EXISTS", "s") == 0


async def test_all_that_is_due_in_a_database_goes_and_no_other(
    requests: ReapRequests,
    begin: Begin,
    direct: Client,
    server: AnyServer,
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Schedules.due, "__defaults__", (100,))  # keys that are read at a time
    context.clock.adjust(direct.now_ms(), context.clock.reading())
    with closing(Client(server.port, 3)) as other:
        for number in range(300):
            manage(other, f"k{number}", m=1)
        manage(other, "later", m=FAR_MS)
        manage(direct, "s", m=1)
        begin()
        await requests.add([], [3], []).done
        assert other.ask("DBSIZE") <= 4  # the key that is not due, with what belongs to it
        assert other.ask("EXISTS", "later") == 1
    assert direct.ask("EXISTS", "s") == 1


async def test_a_request_may_ask_for_a_sweep(
    requests: ReapRequests, begin: Begin, direct: Client
) -> None:
    manage(direct, "s", m=FAR_MS, gone=FAR_MS)
    direct.ask("SREM", "s", "gone")
    begin()
    await requests.add([], [], [S]).done
    assert direct.ask("ZRANGE", KEYS.index(b"s"), 0, -1) == [b"m"]


async def test_a_refusal_holds_up_the_requests_that_need_it_until_it_is_fixed(
    requests: ReapRequests, begin: Begin, direct: Client, become: Become, context: Context
) -> None:
    context.clock.adjust(direct.now_ms(), context.clock.reading())
    for key in ("bad", "good"):
        manage(direct, key, m=1)
    manage(direct, "worse", m=FAR_MS)
    await become("resetkeys ~good ~__ttl:*")
    begin()
    held = [
        requests.add([(0, b"bad"), (0, b"good")], [], []),
        requests.add([], [0], []),
        requests.add([], [], [(0, b"worse")]),
    ]
    await requests.add([(0, b"good")], [], []).done
    await requests.add([], [3], []).done
    for each in held:
        await _until_refused(each)
        assert "permission" in str(each.refusal)
    direct.ask("ACL", "SETUSER", "narrow", "~*")
    await asyncio.gather(*(each.done for each in held))
    assert direct.ask("EXISTS", "bad", "good") == 0


async def test_a_schedule_that_redis_refuses_holds_up_those_who_need_its_database(
    requests: ReapRequests, begin: Begin, direct: Client
) -> None:
    direct.ask("SET", KEYS.schedule, "junk")
    begin()
    held = requests.add([], [0, 3], [])
    await requests.add([], [3], []).done
    await _until_refused(held)
    direct.ask("DEL", KEYS.schedule)
    await held.done


@pytest.fixture
def replica(server: AnyServer, direct: Client) -> Iterator[None]:
    """Redis is a replica now, of nobody who answers."""
    manage(direct, "s", m=1)
    assert direct.ask("REPLICAOF", "127.0.0.1", CLOSED_PORT) == b"OK"
    yield
    direct.ask("REPLICAOF", "NO", "ONE")


@pytest.mark.usefixtures("replica")
async def test_a_replica_can_reap_nothing_and_holds_up_nobody(
    requests: ReapRequests, begin: Begin, direct: Client, caplog: pytest.LogCaptureFixture
) -> None:
    begin()
    await requests.add([S], [], []).done
    assert "Redis is a replica, and is asked again to reap in database 0" in caplog.text
    assert "ERROR" not in caplog.text
    assert direct.ask("EXISTS", "s") == 1


@pytest.mark.usefixtures("replica")
async def test_a_master_that_has_become_a_replica_is_looked_at_before_what_is_due_is_read(
    requests: ReapRequests, begin: Begin, direct: Client, known: KnownServer, looked: asyncio.Event
) -> None:
    known.met(Identity("x", True, 1, []))
    begin()
    request = requests.add([S], [], [])
    await looked.wait()
    await _until_refused(request)
    direct.ask("REPLICAOF", "NO", "ONE")
    await request.done
    assert direct.ask("EXISTS", "s") == 0


async def test_entries_without_an_element_that_a_reap_finds_are_swept_later(
    requests: ReapRequests, begin: Begin, direct: Client, context: Context
) -> None:
    manage(direct, "s", m=1, gone=1, left=FAR_MS, away=FAR_MS)
    direct.ask("SREM", "s", "gone", "away")
    begin()
    await requests.add([S], [], []).done
    assert set(context.agenda.take_sweeps(FAR_MS)) == {S}


async def test_a_passing_refusal_is_tried_again(
    requests: ReapRequests, begin: Begin, direct: Client, caplog: pytest.LogCaptureFixture
) -> None:
    manage(direct, "s", m=1)
    direct.ask("CONFIG", "SET", "min-replicas-to-write", 1)
    try:
        begin()
        held = requests.add([S], [], [])
        await _until_refused(held)
        assert "NOREPLICAS" in str(held.refusal)
        assert "too few replicas that are up to date, and is asked again to reap" in caplog.text
    finally:
        direct.ask("CONFIG", "SET", "min-replicas-to-write", 0)
    await held.done


async def test_a_session_that_waits_no_more_is_not_served(
    requests: ReapRequests, begin: Begin, direct: Client, become: Become
) -> None:
    manage(direct, "s", m=1)
    await become("resetkeys ~__ttl:*")
    begin()
    gone, stays = requests.add([S], [], []), requests.add([S], [], [])
    await _until_refused(stays)
    gone.done.cancel()
    failures = stays.failures
    while stays.failures < failures + 3:
        await asyncio.wait({stays.done}, timeout=0.01)
    assert gone.failures <= failures + 1


async def test_a_session_that_leaves_meanwhile_ends_nothing(
    requests: ReapRequests, begin: Begin
) -> None:
    requests.add([S], [], []).done.cancel()
    begin()
    await requests.add([S], [], []).done
    requests.add([S], [], []).done.cancel()
    requests.stop()
    await requests.add([S], [], []).done


async def test_a_lost_connection_is_opened_again_and_the_request_repeated(
    requests: ReapRequests, begin: Begin, direct: Client
) -> None:
    await (await _served(requests, begin)).done
    direct.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    manage(direct, "s", m=1)
    await requests.add([S], [], []).done
    assert direct.ask("EXISTS", "s") == 0


async def test_a_second_loss_in_a_row_is_told(requests: ReapRequests) -> None:
    came = list[None]()

    def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(None)
        writer.close()

    async with await asyncio.start_server(close, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        closing_at_once = client(Upstream(host="127.0.0.1", port=port), "test", 30.0)
        request = requests.add([S], [], [])
        with pytest.raises(RedisConnectionError):
            await requests.run(closing_at_once)
        await closing_at_once.aclose()
    assert len(came) == 2
    requests.stop()
    with pytest.raises(UpstreamError):
        await request.done


async def test_losses_between_which_something_was_done_are_not_in_a_row(
    requests: ReapRequests, begin: Begin, direct: Client
) -> None:
    begin()
    for _ in range(3):
        manage(direct, "s", m=1)
        await requests.add([S], [], []).done
        assert direct.ask("EXISTS", "s") == 0
        direct.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


async def _served(requests: ReapRequests, begin: Begin) -> ReapRequest:
    begin()
    return requests.add([S], [], [])


async def test_a_request_that_waits_when_it_stops_must_be_made_again(
    requests: ReapRequests, begin: Begin, direct: Client, become: Become
) -> None:
    manage(direct, "s", m=1)
    await become("resetkeys ~none ~__ttl:*")
    serving = begin()
    refused = requests.add([S], [], [])
    while refused.failures < 8:  # it pauses for long now
        await asyncio.wait({refused.done}, timeout=0.001)
    await cancel(serving)
    new = requests.add([(0, b"none")], [], [])
    requests.stop()
    for each in (refused, new):
        with pytest.raises(UpstreamError):
            await each.done
    begin()
    again = requests.add([S], [], [])
    await requests.add([(0, b"none")], [], []).done
    await _until_refused(again)
    direct.ask("ACL", "SETUSER", "narrow", "~*")
    await again.done
