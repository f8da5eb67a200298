"""The beginning of a life of the link: what is known and done before anybody is served."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from redis.asyncio import Redis

from tests.conftest import StartServer
from tests.link.conftest import Become
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.redis_content import STATE
from tests.support.server_queries import calls
from ttlproxy.addresses import Upstream
from ttlproxy.commands import natives
from ttlproxy.errors import UnfitUpstream
from ttlproxy.link import LAYOUT, Context, Link, client
from ttlproxy.link.connecting.pipeline import run
from ttlproxy.link.life.server_setup import ServerSetup
from ttlproxy.link.server.acl import Acl


@pytest.fixture
async def link(server: AnyServer, context: Context) -> Link:
    return Link(Upstream.parse(server.url), context)


@pytest.fixture
def acl(link: Link) -> Acl:
    return link.acl


@pytest.fixture
def setup(link: Link) -> ServerSetup:
    return ServerSetup(link)


@pytest.fixture
def ann(direct: Client) -> Iterator[bytes]:
    """A user who may do all but write hashes, count keys and see rights."""
    direct.ask("ACL", "SETUSER", "ann", "on", "~*", "+@all", "-hset", "-dbsize", "-acl")
    yield b"ann"
    direct.ask("ACL", "DELUSER", "ann")


def _refused(direct: Client) -> int:
    """The number of refusals for a missing right, by ACL LOG."""
    entries = [dict(zip(line[::2], line[1::2], strict=True)) for line in direct.ask("ACL", "LOG")]
    return sum(entry[b"count"] for entry in entries)


def _lacks_scripts(direct: Client, context: Context) -> bool:
    digests = [script.sha for script in context.scripts.all()]
    return not all(direct.ask("SCRIPT", "EXISTS", *digests))


async def test_the_commands_of_the_server_are_known(
    setup: ServerSetup, redis: Redis, context: Context
) -> None:
    assert b"GETRANGE" not in context.router.passthrough
    await setup.prepare(redis)
    assert b"GETRANGE" in context.router.passthrough


async def test_the_table_of_commands_is_whole_although_it_is_read_in_pieces(
    link: Link, redis: Redis, direct: Client
) -> None:
    found = await link.commands.read(redis, b"")
    assert sorted(found, key=lambda row: row.name) == sorted(
        natives(direct.ask("COMMAND")), key=lambda row: row.name
    )


@pytest.mark.any_server("7.0")  # before 7.0 they are read each time
async def test_commands_are_read_anew_only_from_another_kind_of_server(
    link: Link, redis: Redis, server: AnyServer
) -> None:
    table, info = link.commands, b"redis_version:7.0.15\r\nmodule:name=one,ver=1\r\n"
    before = calls(server.port, "command|info")
    first = await table.read(redis, info)
    asked = calls(server.port, "command|info") - before
    assert await table.read(redis, b"uptime:1\r\n" + info) is first
    assert calls(server.port, "command|info") == before + asked
    assert await table.read(redis, info.replace(b"ver=1", b"ver=2")) is not first
    assert calls(server.port, "command|info") == before + 2 * asked


@pytest.mark.any_server("7.0")  # before, there is no COMMAND LIST to refuse
async def test_commands_are_known_if_their_list_is_refused_but_not_their_table(
    link: Link, redis: Redis, become: Become
) -> None:
    await become("-command|list")
    assert await link.commands.read(redis, b"")


async def test_a_renamed_command_is_in_the_table(link: Link, start_server: StartServer) -> None:
    renamed = start_server("--rename-command", "GETRANGE", "ANOTHER")
    connected = client(Upstream.parse(renamed.url), "test", 30.0)
    with closing(Client(renamed.port)) as direct:
        expected = {row.name for row in natives(direct.ask("COMMAND"))}
    try:
        assert {row.name for row in await link.commands.read(connected, b"")} == expected
    finally:
        await connected.aclose()


async def test_the_rights_that_users_lack_are_known(
    setup: ServerSetup, redis: Redis, context: Context, ann: bytes
) -> None:
    await setup.prepare(redis)
    rights = context.rights
    for may in (rights.may_count, rights.may_ask_acl, rights.have_all):
        assert may([b"default"])
        assert not may([ann])
    assert rights.may_script([ann])
    assert context.scripts.traits.careful, "somebody's rights are checked"


async def test_a_server_whose_users_could_not_be_read_may_show_them_in_the_next_life(
    setup: ServerSetup, redis: Redis, context: Context, acl: Acl, become: Become
) -> None:
    await become("-acl")
    await setup.prepare(redis)
    assert not context.rights.have_all([b"default"])
    await become("+acl")
    await setup.prepare(redis)
    await acl.learn_users(redis)
    assert context.rights.have_all([b"default"])


async def test_a_server_that_refuses_command_is_not_asked_for_the_commands_of_categories(
    setup: ServerSetup, redis: Redis, acl: Acl, become: Become, direct: Client
) -> None:
    """Redis would log a refusal each time."""
    await become("-command")
    await setup.prepare(redis)
    refused = _refused(direct)
    assert refused
    await acl.update(redis, await run(redis, [(0, words) for words in acl.questions()]), [b"read"])
    assert _refused(direct) == refused


async def test_each_life_begins_with_all_scripts_in_the_server_if_it_has_one(
    setup: ServerSetup, redis: Redis, context: Context, direct: Client
) -> None:
    for _ in range(2):
        direct.ask("SCRIPT", "FLUSH")
        await setup.prepare(redis)
        assert not context.scripts.loaded
        assert not any(
            direct.ask("SCRIPT", "EXISTS", *(script.sha for script in context.scripts.all()))
        )
        direct.ask("SCRIPT", "LOAD", context.scripts.all()[0].text)
        await setup.prepare(redis)
        assert not _lacks_scripts(direct, context)
        assert context.scripts.loaded


async def test_our_scripts_publish_keyspace_events_if_the_server_does(
    setup: ServerSetup, redis: Redis, context: Context, direct: Client
) -> None:
    direct.ask("CONFIG", "SET", "notify-keyspace-events", "KEA")
    try:
        await setup.prepare(redis)
    finally:
        direct.ask("CONFIG", "SET", "notify-keyspace-events", "")
    assert context.scripts.traits.events


async def test_a_server_that_is_met_holds_nothing_of_ours(
    setup: ServerSetup, redis: Redis, context: Context, direct: Client
) -> None:
    await setup.prepare(redis)
    assert context.script_calls.has_state is False
    assert direct.ask("DBSIZE") == 0


async def test_a_server_with_a_newer_layout_is_unfit(
    setup: ServerSetup, redis: Redis, direct: Client
) -> None:
    direct.ask("HSET", STATE, "layout", LAYOUT + 1)
    with pytest.raises(UnfitUpstream, match="which only knows layout"):
        await setup.prepare(redis)


@pytest.mark.parametrize(
    ("removed", "named"),
    [
        (["INFO", "EVAL", "ZADD"], "INFO, EVAL, ZADD"),  # all at once
        (["INFO", "COMMAND"], "INFO"),
    ],
)
async def test_a_server_without_info_is_unfit_and_what_it_lacks_is_named(
    setup: ServerSetup, start_server: StartServer, removed: list[str], named: str
) -> None:
    words = [word for name in removed for word in ("--rename-command", name, "")]
    server = start_server(*words)
    redis = client(Upstream.parse(server.url), "test", 30.0)
    try:
        with pytest.raises(UnfitUpstream, match=f"Redis lacks {named}, which ttlproxy needs"):
            await setup.prepare(redis)
    finally:
        await redis.aclose()
