"""The lives of a link: how one begins, what ends it, and what waits within it."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import closing

import pytest

from tests.conftest import StartServer
from tests.link.conftest import FAR_MS, KEYS, S, manage, set_rule, until
from tests.link.running import Running, ids, running
from tests.support.containers import AnyServer
from tests.support.processes import CLOSED_PORT
from tests.support.redis_client import Client
from tests.support.redis_content import STATE
from tests.support.server_queries import calls
from tests.support.servers import Server
from ttlproxy.errors import UnfitUpstream, UpstreamError
from ttlproxy.link import LAYOUT
from ttlproxy.link.connecting import discovery
from ttlproxy.link.connecting.connections import Backoff, close, open_now
from ttlproxy.link.connecting.known_server import Identity
from ttlproxy.link.life import heartbeat, server_setup
from ttlproxy.link.life import link as module
from ttlproxy.net.tasks import cancel

OURS = ("ttlproxy:link", "ttlproxy:reaps", "ttlproxy:pushes")


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.02)


@pytest.fixture
def own(start_server: StartServer) -> Server:
    """A server that the test may end."""
    return start_server()


@pytest.fixture
async def life(server: AnyServer) -> AsyncIterator[Running]:
    async with running(Running(server.url)) as link:
        yield link


async def _begun(link: Running) -> None:
    """Begins to run; ends when the first attempt to serve is over."""
    link.task = asyncio.create_task(link.link.run())
    await link.link.serving.tried.wait()


async def test_a_life_begins_with_all_connections_and_the_registry(
    server: AnyServer, direct: Client
) -> None:
    soon_ms = direct.now_ms() + 30_000
    manage(direct, "s", m=soon_ms)
    manage(direct, "later", m=FAR_MS)
    link = Running(server.url)
    assert not link.link.serving.tried.is_set()
    assert link.link.server.identity is None
    async with running(link):
        assert link.link.serving.now
        assert link.link.serving.tried.is_set()
        assert link.link.upstream.address == f"127.0.0.1:{server.port}"
        assert all(len(ids(server, name)) == 1 for name in OURS)
        assert link.context.registry.bounds(0) == {b"s": soon_ms}
        assert link.context.registry.until_ms > soon_ms
        await until(lambda: link.context.managed_keys == 2)
        await until(lambda: link.context.scripts.loaded)  # there are deadlines, so one was called
        assert link.link.trouble == ""
        assert link.changes == 0
    assert link.link.serving.now is False
    await until(lambda: not any(ids(server, name) for name in OURS))


async def test_a_server_that_comes_back_is_another_one(own: Server) -> None:
    link = Running(own.url)
    async with running(link):
        term = link.link.server.term
        own.kill()
        await until(lambda: not link.link.serving.now)
        await until(lambda: bool(link.link.trouble))
        assert link.changes == 0, "it may come back as it was"
        own.restart()
        await link.link.serving.ready.wait()
        assert (link.changes, link.link.server.changes) == (1, 1)
        assert link.link.server.term == term + 1
        await until(lambda: link.link.trouble == "")


async def test_a_former_master_ends_all_sessions(
    life: Running, direct: Client, caplog: pytest.LogCaptureFixture
) -> None:
    direct.ask("REPLICAOF", "127.0.0.1", CLOSED_PORT)
    try:
        await until(lambda: life.link.server.changes > 0)
        await life.link.serving.ready.wait()
    finally:
        direct.ask("REPLICAOF", "NO", "ONE")
    assert life.changes == 2, "at the end of the life, and at the beginning of the next"
    assert "all clients are closed" in caplog.text


@pytest.mark.any_server("7.0")  # 6.2 counts COMMAND COUNT as COMMAND
async def test_facts_about_a_server_are_not_asked_again(
    life: Running, server: AnyServer, direct: Client
) -> None:
    """The life ends with its connections, and the next is with the same server."""
    commands = calls(server.port, "command")
    gone = life.link.server.identity
    stays = asyncio.create_task(life.link.while_it_lives(asyncio.Event().wait()))
    await asyncio.sleep(0)
    (most,) = direct.ask("CONFIG", "GET", "maxclients")[1:]
    direct.ask("CONFIG", "SET", "maxclients", 1)
    try:
        direct.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        with pytest.raises(UpstreamError, match="the link was lost"):
            await stays
    finally:
        direct.ask("CONFIG", "SET", "maxclients", most)
    await life.link.serving.ready.wait()
    assert life.link.server.identity is not None
    assert gone is not None
    assert life.link.server.identity.run_id == gone.run_id
    assert (life.changes, life.link.server.changes) == (0, 0)
    assert calls(server.port, "command") == commands


async def test_work_within_a_life_gives_its_result_and_ends_with_the_life(own: Server) -> None:
    async def answer() -> int:
        return 42

    async def fail() -> None:
        raise ZeroDivisionError

    link = Running(own.url)
    with pytest.raises(UpstreamError, match="the link was lost"):
        await link.link.while_it_lives(asyncio.Event().wait())
    async with running(link):
        assert await link.link.while_it_lives(answer()) == 42
        with pytest.raises(ZeroDivisionError):
            await link.link.while_it_lives(fail())
        waiting = asyncio.create_task(link.link.while_it_lives(asyncio.Event().wait()))
        done, _ = await asyncio.wait({waiting}, timeout=0.01)
        assert not done
        own.kill()
        with pytest.raises(UpstreamError, match="the link was lost"):
            await waiting
        left = {task.get_name() for task in asyncio.all_tasks()}
        assert not left & {"link: a life", "link: end of a life"}
        own.restart()
        await link.link.serving.ready.wait()
        assert await link.link.while_it_lives(answer()) == 42


async def test_a_silent_server_is_waited_for_as_long_as_it_accepts_connections(
    own: Server,
) -> None:
    link = Running(own.url, "--connect-timeout", "0.1")
    async with running(link):
        link.link.serving.tried.clear()
        own.child.send_signal(signal.SIGSTOP)
        try:
            for _ in range(2):
                await link.link.serving.tried.wait()
                link.link.serving.tried.clear()
            assert link.link.serving.now
        finally:
            own.child.send_signal(signal.SIGCONT)
        answers = link.link.heartbeat.answers
        await until(lambda: link.link.heartbeat.answers > answers)
        assert (link.changes, link.link.trouble) == (0, "")


async def test_a_server_that_accepts_no_connection_any_more_is_away(
    own: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a host that has vanished: the connections look alive."""

    async def accepts(*_: object) -> bool:
        return False

    monkeypatch.setattr(module, "accepts", accepts)
    link = Running(own.url, "--connect-timeout", "0.1")
    async with running(link):
        own.child.send_signal(signal.SIGSTOP)
        try:
            await until(lambda: "accepts no new connection" in link.link.trouble)
            assert not link.link.serving.now
        finally:
            own.child.send_signal(signal.SIGCONT)
        monkeypatch.undo()
        await link.link.serving.ready.wait()


async def test_a_server_that_answers_is_not_asked_whether_it_is_there(
    server: AnyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it answers: on a busy machine a start takes long, and has no heartbeat yet."""

    async def accepts(*_: object) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(module, "accepts", accepts)
    link = Running(server.url, "--connect-timeout", "0.001").link
    looking = asyncio.create_task(link._end_where_unreachable())
    for _ in range(1000):  # an answer in each turn of the event loop
        link._count_reply()
        await asyncio.sleep(0)
    assert not looking.done()
    assert not link.serving.tried.is_set()
    await cancel(looking)


class _Resting:
    """Says that the heartbeat's connection waits for no reply, and counts who asks that."""

    def __init__(self) -> None:
        self.asked = 0

    @property
    def rests(self) -> bool:
        self.asked += 1
        return True


async def test_a_server_is_not_asked_whether_it_is_there_while_it_owes_nothing(
    server: AnyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of many proxies has a heartbeat every ten seconds. But if a client waits, it is asked."""

    async def accepts(*_: object) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(module, "accepts", accepts)
    running_link, resting = Running(server.url, "--connect-timeout", "0.001"), _Resting()
    link = running_link.link
    monkeypatch.setattr(link, "jobs", resting)
    looking = asyncio.create_task(link._end_where_unreachable())
    await until(lambda: resting.asked > 3)
    assert not looking.done()
    running_link.counters.holding = 1
    with pytest.raises(ZeroDivisionError):
        await looking


async def test_each_reply_to_the_link_is_an_answer(server: AnyServer) -> None:
    link = Running(server.url).link
    redis = link._connect("ttlproxy:link")
    await open_now(redis)
    before = link._replies
    await redis.ping()
    assert link._replies == before + 1
    await close(redis)


async def test_an_unfit_server_ends_the_link(server: AnyServer, direct: Client) -> None:
    direct.ask("HSET", STATE, "layout", LAYOUT + 1)
    with pytest.raises(UnfitUpstream, match="which only knows layout"):
        async with running(Running(server.url)):
            pass


async def test_a_layout_that_comes_while_the_link_runs_ends_it_before_the_next_look(
    server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy of another version announces it when it has written it."""
    monkeypatch.setattr(heartbeat, "EVERY_S", 1e6)
    link = Running(server.url)
    await _begun(link)
    direct.ask("HSET", STATE, "layout", LAYOUT + 1, "program", "9.9.9")
    name = KEYS.prefix + b"!layout:%d" % (LAYOUT + 1)
    direct.ask_many([("SET", name, ""), ("DEL", name)])
    assert link.task is not None
    with pytest.raises(UnfitUpstream, match=f"layout {LAYOUT + 1}, of ttlproxy 9.9.9"):
        await link.task
    assert not link.link.serving.now


async def test_a_layout_that_is_only_said_to_come_ends_nothing(
    server: AnyServer, direct: Client
) -> None:
    """Any client may make announcements."""
    async with running(Running(server.url)) as link:
        name = KEYS.prefix + b"!layout:%d" % (LAYOUT + 1)
        for _ in range(3):
            direct.ask_many([("SET", name, ""), ("DEL", name)])
            await link.beats()
        await link.link.serving.ready.wait()
        assert link.changes == 0


async def test_a_wrong_password_is_told_and_tried_again(server: AnyServer, direct: Client) -> None:
    link = Running(f"redis://narrow:wrong@127.0.0.1:{server.port}")
    await _begun(link)
    try:
        assert "refuses the user or the password" in link.link.trouble
        assert not link.link.serving.now
        direct.ask("ACL", "SETUSER", "narrow", "on", ">wrong", "~*", "&*", "+@all")
        await link.link.serving.ready.wait()
    finally:
        assert link.task is not None
        await cancel(link.task)
        direct.ask("ACL", "DELUSER", "narrow")


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """After how many failures there was a pause. Each life that serves is a healthy one."""
    failed = list[int]()

    class Counting(Backoff):
        def compute(self, failures: int) -> float:
            failed.append(failures)
            return 0.001

    monkeypatch.setattr(module, "_BACKOFF", Counting(cap=1, base=1))
    monkeypatch.setattr(module, "_HEALTHY_MS", -1)
    return failed


async def test_a_life_that_serves_nobody_is_a_failure(own: Server, computed: list[int]) -> None:
    async with running(Running(own.url)) as link:
        assert computed == []
        own.kill()
        await until(lambda: len(computed) > 2)
        assert computed[:3] == [1, 2, 3]
        assert not link.link.serving.now


async def test_a_life_begins_later_the_more_proxies_there_were(
    own: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them waits at random, so that they do not all connect at once."""
    waited_for = list[int]()

    def stagger_s(attached: int) -> float:
        waited_for.append(attached)
        return 0.0

    monkeypatch.setattr(module, "stagger_s", stagger_s)
    monkeypatch.setattr(server_setup, "stagger_s", stagger_s)
    others = [Running(own.url), Running(own.url)]
    async with running(others[0]), running(others[1]), running(Running(own.url)) as last:
        assert waited_for == [0, 1, 2], "those that were there before"
        await last.beats()
        own.kill()
        await until(lambda: 3 in waited_for)


async def test_proxies_that_start_at_once_know_of_each_other(
    own: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited_for = list[int]()

    def stagger_s(attached: int) -> float:
        waited_for.append(attached)
        return 0.0 if attached else 60.0

    monkeypatch.setattr(server_setup, "stagger_s", stagger_s)
    starting = asyncio.create_task(Running(own.url).link.run())
    await until(lambda: waited_for == [0])
    async with running(Running(own.url)):
        assert waited_for == [0, 1]
    await cancel(starting)


async def test_a_session_that_waits_for_a_reap_asks_again_in_the_next_life(own: Server) -> None:
    link = Running(own.url, "--hold-max", "100")
    async with running(link):
        own.child.send_signal(signal.SIGSTOP)
        held = asyncio.create_task(link.link.holds.until_reaped([S], [], [], False))
        done, _ = await asyncio.wait({held}, timeout=0.01)
        assert not done
        own.kill()
        own.restart()
        await held


async def test_a_server_that_lacks_what_opens_connections_is_unfit(
    start_server: StartServer,
) -> None:
    link = Running(start_server("--rename-command", "CLIENT", "").url)
    with pytest.raises(UnfitUpstream, match="lacks CLIENT"):
        await link.link.run()


async def test_one_of_several_that_is_met_as_a_replica_is_not_served(
    own: Server, server: AnyServer, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a master when it was looked for."""

    async def identity(*_: object) -> Identity:
        return Identity("x" * 40, True, 1, [])

    monkeypatch.setattr(discovery, "identity", identity)
    one = f"127.0.0.1:{server.port}"
    direct.ask("REPLICAOF", "127.0.0.1", own.port)
    link = Running(f"redis://{one},127.0.0.1:{own.port}")
    try:
        await _begun(link)
        await until(lambda: f"{one} is a replica, and no master" in link.link.trouble)
        assert not link.link.serving.now
    finally:
        assert link.task is not None
        await cancel(link.task)
        direct.ask("REPLICAOF", "NO", "ONE")


async def test_attempts_become_rare_until_a_life_was_healthy(
    server: AnyServer, direct: Client, computed: list[int]
) -> None:
    link = Running(f"redis://narrow:wrong@127.0.0.1:{server.port}")
    await _begun(link)
    try:
        await until(lambda: len(computed) > 2)
        assert computed[:3] == [1, 2, 3]
        direct.ask("ACL", "SETUSER", "narrow", "on", ">wrong", "~*", "&*", "+@all")
        await link.link.serving.ready.wait()
        before = len(computed)
        direct.ask("REPLICAOF", "127.0.0.1", CLOSED_PORT)
        await until(lambda: link.link.server.changes > 0)
        assert len(computed) == before, "the first attempt after a healthy life comes at once"
        await link.link.serving.ready.wait()
    finally:
        assert link.task is not None
        await cancel(link.task)
        direct.ask("REPLICAOF", "NO", "ONE")
        direct.ask("ACL", "DELUSER", "narrow")


async def test_a_short_life_counts_as_a_failure(
    life: Running, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HEALTHY_MS", life.context.clock.reading())
    direct.ask("REPLICAOF", "127.0.0.1", CLOSED_PORT)
    try:
        await until(lambda: life.link._failures > 0)
    finally:
        direct.ask("REPLICAOF", "NO", "ONE")


async def test_of_several_servers_the_log_says_which_is_served(
    own: Server, server: AnyServer, direct: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    one, other = f"127.0.0.1:{server.port}", f"127.0.0.1:{own.port}"
    link = Running(f"redis://{one},{other}")
    async with running(link):
        assert f"Redis at redis://{one},{other}: 0 keys managed" in caplog.text
        direct.ask("REPLICAOF", "127.0.0.1", own.port)
        try:
            await until(lambda: link.link.upstream.address == other)
            await link.link.serving.ready.wait()
            assert link.changes > 0
            await until(lambda: f"redis://{one},{other} ({other}): 0" in caplog.text)
        finally:
            direct.ask("REPLICAOF", "NO", "ONE")


async def test_rules_are_read_anew_in_each_life(own: Server) -> None:
    link = Running(own.url)
    async with running(link):
        actions = link.context.actions
        with closing(Client(own.port, 5)) as direct:
            set_rule(direct, link.context.script_calls.signer, "s", "RPUSH", "list")
        redis = link.link._connect("test")
        await actions.read(redis, 5)
        await redis.aclose()
        assert actions.has_action(b"s")
        own.kill()
        await until(lambda: not link.link.serving.now)
        own.restart()
        await until(lambda: not actions.has_action(b"s"))
