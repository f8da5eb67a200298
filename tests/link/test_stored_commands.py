"""What proxies store of the server's commands for each other: who believes it, and who does not."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.link.conftest import Become
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.redis_content import STATE
from tests.support.server_queries import calls
from ttlproxy.commands import Router, natives
from ttlproxy.config import Settings
from ttlproxy.core.counters import Counters
from ttlproxy.core.signing import SIGNATURE_LENGTH
from ttlproxy.link import Context, Link
from ttlproxy.link.connecting.known_server import INFO
from ttlproxy.link.connecting.pipeline import run
from ttlproxy.link.life.server_setup import ServerSetup
from ttlproxy.link.server.command_table import FIELD, Packable, pack, unpack


class Proxy:
    """What a proxy has of its link until it is known what the server can do."""

    def __init__(self, settings: Settings) -> None:
        assert settings.upstream is not None
        self.context = Context(settings, Counters())
        link = Link(settings.upstream, self.context)
        self.acl, self.stored, self.known = link.acl, link.commands, link.server
        self.state, self.setup = link.shared_state, ServerSetup(link)

    async def start(self, redis: Redis) -> None:
        await self.setup.prepare(redis)
        await self.state.claim(redis)  # as a heartbeat does where there are several
        asked = [(0, words) for words in self.acl.questions()]
        await self.acl.update(redis, await run(redis, asked), self.context.router.categories)

    async def ask(self, redis: Redis) -> tuple[bytes, list[object]]:
        """INFO's reply, and what is stored."""
        info, *replies = await run(
            redis, [(0, words) for words in (INFO, *self.stored.questions())]
        )
        assert isinstance(info, bytes)
        return info, replies

    async def met(self, redis: Redis) -> bool:
        return self.stored.take_stored(*await self.ask(redis))


@pytest.fixture
def first(settings: Settings) -> Proxy:
    return Proxy(settings)


@pytest.fixture
def second(settings: Settings) -> Proxy:
    return Proxy(settings)


def _asked(server: AnyServer) -> int:
    """How often Redis was asked for what it takes a millisecond to tell. Before 7.0 it does not
    count subcommands apart: of each proxy there are two COMMAND COUNT and two ACL LIST."""
    names: tuple[str, ...] = ("command", "acl")
    if not server.name.startswith("6.2"):
        names += ("command|info", "command|list", "acl|cat")
    return sum(calls(server.port, name) for name in names)


async def _store(proxy: Proxy, redis: Redis) -> None:
    await proxy.start(redis)
    assert proxy.stored.is_wanted
    await proxy.stored.store(redis)


async def test_a_table_that_one_proxy_has_read_is_known_to_others_without_asking(
    first: Proxy, second: Proxy, redis: Redis, server: AnyServer
) -> None:
    await _store(first, redis)
    assert not first.stored.is_wanted
    before = _asked(server)
    await second.start(redis)
    assert _asked(server) == before + (4 if server.name.startswith("6.2") else 0)
    assert not second.stored.is_wanted
    assert second.acl.categories == first.acl.categories
    assert second.acl.categories
    assert second.context.router.passthrough == first.context.router.passthrough
    assert second.context.command_families == first.context.command_families


async def test_the_stored_commands_are_the_servers_own(
    first: Proxy, second: Proxy, redis: Redis, direct: Client
) -> None:
    await _store(first, redis)
    await second.start(redis)
    assert await second.met(redis)
    found = second.stored.natives
    assert {row.name: row for row in found} == {
        row.name: row for row in natives(direct.ask("COMMAND"))
    }
    assert {name: sorted(of) for name, of in second.acl.categories.items()} == {
        name: sorted(direct.ask("ACL", "CAT", name)) for name in Router(found).categories
    }


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        (b"run_id:", b"run_id:1"),  # another process, perhaps of another version
        (b"redis_version:", b"redis_version:1"),
        (b"run_id:", b"module:name=one,ver=1\r\nrun_id:"),
        (b"run_id:", b"hidden:"),  # a server that does not tell which one it is
    ],
)
async def test_a_table_that_was_stored_for_another_server_is_read_anew(
    first: Proxy, second: Proxy, redis: Redis, line: bytes, instead: bytes
) -> None:
    await _store(first, redis)
    await second.start(redis)
    info, replies = await second.ask(redis)
    assert second.stored.take_stored(info, replies)
    assert not second.stored.take_stored(info.replace(line, instead), replies)


async def test_a_table_that_was_stored_before_a_module_brought_commands_is_read_anew(
    first: Proxy, second: Proxy, redis: Redis
) -> None:
    await _store(first, redis)
    await second.start(redis)
    info, (how_many, stored) = await second.ask(redis)
    assert isinstance(how_many, int)
    assert not second.stored.take_stored(info, [how_many + 1, stored])


@pytest.mark.any_server("7.0")  # before 7.0 the server does not list its commands
async def test_after_a_restart_nobody_reads_a_table_again_that_was_found_stored(
    first: Proxy, second: Proxy, redis: Redis, server: AnyServer, direct: Client
) -> None:
    await _store(first, redis)
    await second.start(redis)
    direct.ask("HDEL", STATE, FIELD)  # as what was stored for the process before counts for nothing
    before = calls(server.port, "command|info")
    second.known.identity = None
    await second.start(redis)
    assert calls(server.port, "command|info") == before + 1, "what is needed is looked for again"
    assert second.stored.is_wanted


async def test_a_table_that_no_proxy_has_signed_is_not_believed(
    first: Proxy, second: Proxy, redis: Redis, direct: Client
) -> None:
    await _store(first, redis)
    await second.start(redis)
    stored = direct.ask("HGET", STATE, FIELD)
    signature, packed = stored[:SIGNATURE_LENGTH], stored[SIGNATURE_LENGTH:]
    *known, categories = unpack(packed)
    for forged in (b"", b"junk", packed, signature + pack([*known, categories[:2]])):
        direct.ask("HSET", STATE, FIELD, forged)
        assert not await second.met(redis)


async def test_a_server_that_refuses_to_store_is_served_all_the_same(
    first: Proxy, second: Proxy, redis: Redis, direct: Client, become: Become
) -> None:
    await become("-hset")
    await _store(first, redis)
    assert direct.ask("HGET", STATE, FIELD) is None
    await second.start(redis)
    assert second.acl.categories == first.acl.categories


async def test_a_proxy_that_may_not_read_the_stored_table_asks_the_server(
    first: Proxy, second: Proxy, redis: Redis, become: Become
) -> None:
    await _store(first, redis)
    await become("-hget")
    await second.start(redis)
    assert not second.stored.is_wanted, "it could not see whether it is needed"
    assert second.context.router.passthrough == first.context.router.passthrough


async def test_nothing_is_stored_in_front_of_a_cluster(first: Proxy, redis: Redis) -> None:
    first.context.set_clustered(clustered=True)
    assert not first.stored.questions()
    assert await first.stored.learn(redis, b"run_id:1\r\n", [])
    assert not first.stored.is_wanted


@pytest.mark.parametrize(
    "broken", [b"", b"junk", pack([b"a"])[:-1], pack(b"a") + b"a", pack(b"a" * (1 << 24))]
)
def test_unpacking_other_bytes_is_an_error(broken: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpack(broken)


def test_a_packed_table_is_unpacked() -> None:
    value: Packable = [b"a\r\n", 7, -1, None, [], [b"", [b"b"]]]
    assert unpack(pack(value)) == value
