"""Requests in one round trip: each in its database, each with its own outcome."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis
from redis.exceptions import BusyLoadingError, ResponseError

from tests.link.conftest import KEYS, Become
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from ttlproxy.addresses import Upstream
from ttlproxy.commands import Call
from ttlproxy.link import Context, answered, attached, client
from ttlproxy.link.connecting.known_server import push_name
from ttlproxy.link.connecting.pipeline import error, run, valid


async def test_each_request_is_carried_out_in_its_database(redis: Redis, server: AnyServer) -> None:
    await redis.execute_command("PING")
    before = calls(server.port, "select")
    requests = [(0, (b"SET", b"k", 0)), (3, (b"SET", b"k", 3)), (3, (b"GET", b"k"))]
    assert await run(redis, [*requests, (0, (b"GET", b"k"))]) == [b"OK", b"OK", b"3", b"0"]
    assert calls(server.port, "select") == before + 2
    assert await run(redis, [(3, (b"GET", b"k"))]) == [b"3"]
    assert await run(redis, [(3, (b"GET", b"k"))]) == [b"3"]
    assert calls(server.port, "select") == before + 3, "it is there already"
    assert await run(redis, []) == []


async def test_each_reply_is_told_as_it_comes(redis: Redis) -> None:
    told = []
    await run(redis, [(0, (b"PING",)), (0, (b"NONSENSE",))], lambda: told.append("reply"))
    assert len(told) == 2


async def test_a_server_that_cannot_serve_ends_the_connection_whichever_reply_says_so(
    redis: Redis, direct: Client
) -> None:
    says_so = (b"EVAL", b"return {err = 'LOADING for a while'}", 0)
    for requests in ([says_so, (b"PING",)], [(b"PING",), says_so]):
        with pytest.raises(BusyLoadingError):
            await run(redis, [(0, words) for words in requests])
        assert await run(redis, [(0, (b"PING",))]) == [b"PONG"]


async def test_an_error_is_the_reply_to_its_own_request(redis: Redis) -> None:
    one, bad, two = await run(redis, [(0, (b"PING",)), (0, (b"NONSENSE",)), (0, (b"PING",))])
    assert (one, two) == (b"PONG", b"PONG")
    assert error(bad) is bad
    assert error(one) is None
    assert valid(one) == b"PONG"
    with pytest.raises(ResponseError):
        valid(bad)


async def test_a_request_that_another_database_would_get_counts_as_refused(
    redis: Redis, become: Become
) -> None:
    await become("-select")
    found = await run(redis, [(0, (b"GET", b"k")), (3, (b"GET", b"k")), (0, (b"GET", b"k"))])
    assert [bool(error(reply)) for reply in found] == [False, True, False]
    await become("+select")
    assert await run(redis, [(3, (b"SET", b"k", 3)), (3, (b"GET", b"k"))]) == [b"OK", b"3"]
    await become("-select")
    found = await run(redis, [(5, (b"GET", b"k")), (3, (b"GET", b"k"))])
    assert [bool(error(reply)) for reply in found] == [True, False], "it stays in database 3"
    await become("+select")
    assert await run(redis, [(0, (b"GET", b"k")), (3, (b"GET", b"k"))]) == [None, b"3"]


async def test_nothing_is_in_a_database_that_the_server_does_not_have(redis: Redis) -> None:
    await run(redis, [(0, (b"SET", b"k", 0))])
    assert not error((await run(redis, [(99, (b"PING",))]))[0])
    assert await run(redis, [(0, (b"GET", b"k"))]) == [b"0"]


async def test_a_connection_that_redis_refuses_to_open_is_the_reply_to_each_request(
    server: AnyServer, become: Become
) -> None:
    await become("-client")  # so it may not give the connection its name
    url = server.url.replace("redis://", "redis://narrow:x@")
    narrow = client(Upstream.parse(url), "test", 30.0)
    found = await run(narrow, [(0, (b"PING",)), (0, (b"PING",))])
    assert len(found) == 2
    assert all(error(reply) for reply in found)
    await narrow.aclose()


async def test_a_call_of_a_script_that_was_flushed_is_repeated_as_text(
    redis: Redis, context: Context, direct: Client
) -> None:
    direct.ask("SCRIPT", "FLUSH")
    context.scripts.loaded = True
    call = Call("keys_first", (b"none",), ())
    assert await answered(redis, context.script_calls, 0, call) == [-1]
    assert not context.scripts.loaded
    direct.ask("SCRIPT", "LOAD", context.scripts["keys_first"].text)
    context.scripts.loaded = True
    assert await answered(redis, context.script_calls, 0, call) == [-1]
    assert context.scripts.loaded


# --- how many proxies there are


async def test_proxies_of_a_prefix_are_counted_by_their_push_connections(
    redis: Redis, server: AnyServer, become: Become
) -> None:
    prefix = "a b:é".encode()
    named = [push_name(KEYS.prefix), push_name(KEYS.prefix), push_name(prefix)]
    assert named[0] == b"ttlproxy:pushes"
    assert named[2] == b"ttlproxy:pushes:a?b:??"
    opened = [client(Upstream.parse(server.url), name.decode(), 30.0) for name in named]
    for each in opened:
        await each.execute_command("PING")
    assert await attached(redis, KEYS.prefix) == 2
    assert await attached(redis, prefix) == 1
    assert await attached(redis, b"other") == 0
    await become("-client" if server.name == "6.2" else "-client|list")
    assert await attached(redis, KEYS.prefix) == 0, "none of these tracks keys"
    for each in opened:
        await each.aclose()
