"""Proxies that cannot work together find each other before one does harm."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.link.running import Running, running
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from ttlproxy.core.keys import MEETING
from ttlproxy.errors import UnfitUpstream
from ttlproxy.link import LAYOUT, other_prefixes


async def _refuses(url: str, *words: str, why: str) -> None:
    with pytest.raises(UnfitUpstream, match=why):
        async with running(Running(url, *words)):
            pass


async def test_a_proxy_with_another_prefix_is_refused_until_the_first_is_gone(
    server: AnyServer,
) -> None:
    """A write through one would leave deadlines of the other, which then delete new elements."""
    async with running(Running(server.url)) as first:
        await _refuses(server.url, "--prefix", "app:", why=r"the prefix __ttl:, and .* has app:")
        # Redis is the same at whatever address it is reached.
        other = server.url.replace("127.0.0.1", "localhost")
        await _refuses(other, "--prefix", "app:", why="another ttlproxy in front of it")
        async with running(Running(server.url)):
            assert first.link.serving.now
    async with running(Running(server.url, "--prefix", "app:")):
        await _refuses(server.url, why=r"the prefix app:, and .* has __ttl:")


async def test_proxies_with_different_signing_keys_do_not_run_together(
    server: AnyServer, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"a signing key of many letters: {name}\n")
    one, two = (("--signing-key-file", str(tmp_path / name)) for name in ("one", "two"))
    async with running(Running(server.url, *one)), running(Running(server.url, *one)):
        for words in (two, ()):
            await _refuses(server.url, *words, why="the same --signing-key-file")


async def test_a_proxy_of_another_layout_is_refused_also_where_nothing_is_stored(
    server: AnyServer,
) -> None:
    with closing(Client(server.port)) as other:
        other.ask("SUBSCRIBE", MEETING + b"9:stored:__ttl:")
        await _refuses(server.url, why=f"the layout 9, and this one has {LAYOUT}")


async def test_a_proxy_that_may_not_look_for_others_is_served(
    server: AnyServer, direct: Client
) -> None:
    direct.ask("ACL", "SETUSER", "deaf", "on", "nopass", "~*", "&*", "+@all", "-pubsub")
    try:
        async with running(Running(f"redis://deaf:x@127.0.0.1:{server.port}")) as link:
            assert link.link.serving.now
    finally:
        direct.ask("ACL", "DELUSER", "deaf")


async def test_the_names_of_connections_show_which_prefixes_others_have(
    server: AnyServer, redis: Redis
) -> None:
    async with running(Running(server.url, "--prefix", "app:")):
        assert await other_prefixes(redis, b"__ttl:") == {b"app:"}
        assert await other_prefixes(redis, b"app:") == set()
    async with running(Running(server.url)):
        assert await other_prefixes(redis, b"app:") == {b"__ttl:"}
