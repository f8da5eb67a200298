"""A client's connection to Redis. Knows sockets and the event loop, no Redis."""

import asyncio

from tests.core.conftest import Run
from tests.support.proxy_ends import connected


def test_what_has_come_is_counted_until_the_connection_ends(run: Run) -> None:
    """Who asks later, as a client that is about to leave does, gets 0 and no error."""

    async def main() -> None:
        async with connected() as (client, backend, (_, redis)):
            assert backend.received == 0
            redis.write(b"+OK\r\n")
            redis.close()
            await client.ended.wait()
            assert client.replies == b"+OK\r\n"
            assert backend.received == 0

    run(main)


def test_a_connection_whose_replies_are_not_read_is_not_at_rest(run: Run) -> None:
    async def main() -> None:
        async with connected() as (_, backend, _):
            backend.pause(True)
            assert not any(backend.has_settled() for _ in range(3))
            backend.pause(False)
            assert [backend.has_settled() for _ in range(3)] == [False, True, True]

    run(main)


def test_a_connection_that_has_ended_is_at_rest(run: Run) -> None:
    async def main() -> None:
        async with connected() as (client, backend, (_, redis)):
            assert not backend.has_settled()
            assert backend.has_settled()
            redis.write(b"+OK\r\n")
            await client.gets(b"+OK\r\n")
            assert not backend.has_settled()
            redis.close()
            await client.ended.wait()
            assert backend.has_settled()
            assert backend.has_settled()

    run(main)


def test_replies_before_a_login_are_waited_for_and_tell_who_is_let_in(run: Run) -> None:
    async def main() -> None:
        async with connected() as (client, backend, (_, redis)):
            backend.count_lines()
            both = asyncio.create_task(backend.has_replied(2))
            redis.write(b"-NOAUTH first\r\n-NOAUTH")
            await client.gets(b"-NOAUTH first\r\n-NOAUTH")
            assert not both.done()
            redis.write(b" second\r\n")
            await both
            await backend.has_replied(2)
            redis.write(b"-NOAUTH third\r\n")
            await client.gets(b" second\r\n-NOAUTH third\r\n")
            refused = backend.lets_in(3)
            redis.write(b"-WRONGPASS\r\n")
            assert await refused is False
            let_in = backend.lets_in(4)
            redis.write(b"%1\r\n+proto\r\n")
            assert await let_in is True
            redis.write(b":3\r\n")
            await client.gets(b"-WRONGPASS\r\n%1\r\n+proto\r\n:3\r\n")

    run(main)
