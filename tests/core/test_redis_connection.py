"""A client's connection to Redis. Knows sockets and the event loop, no Redis."""

from tests.core.conftest import Run
from tests.support.proxy_ends import connected


def test_a_connection_is_at_rest_once_nothing_is_owed_and_nothing_new_was_sent(run: Run) -> None:
    async def main() -> None:
        async with connected() as (client, backend, (_, redis)):
            assert [backend.has_settled() for _ in range(3)] == [False, True, True]
            backend.expect(1)
            backend.write(b"PING\r\n")
            assert not any(backend.has_settled() for _ in range(3))
            redis.write(b"+PONG\r\n")
            await client.gets(b"+PONG\r\n")
            assert [backend.has_settled() for _ in range(3)] == [False, True, True]
            backend.replies.uncount()
            assert not any(backend.has_settled() for _ in range(3)), "nobody can tell"

    run(main)


def test_a_connection_that_has_ended_is_at_rest(run: Run) -> None:
    async def main() -> None:
        async with connected() as (client, backend, (_, redis)):
            backend.expect(1)
            redis.close()
            await client.ended.wait()
            assert backend.has_settled()
            assert backend.has_settled()

    run(main)
