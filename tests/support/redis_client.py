"""redis-py reduced to words and replies: no decoding, no callbacks, no retries, no commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, ResponseError
from redis.retry import Retry

Word: TypeAlias = "bytes | str | int"


class Client:
    """redis-py with a pool of one connection, so that pipelines and MULTI use the same one."""

    def __init__(self, port: int, db: int = 0, protocol: int = 2, host: str = "127.0.0.1") -> None:
        self._redis = Redis(
            host=host,
            port=port,
            db=db,
            protocol=protocol,
            max_connections=1,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=30,
            driver_info=None,  # else each client reads redis-py's version from its package
        )
        self._redis.response_callbacks.clear()

    def ask(self, *words: Word) -> Any:
        try:
            return self._redis.execute_command(*words)
        except ResponseError as error:
            return error

    def ask_many(
        self, requests: Sequence[Sequence[Word]], *, transaction: bool = False
    ) -> list[Any]:
        """Sends all requests in one write, then reads all replies."""
        pipeline = self._redis.pipeline(transaction=transaction)
        for words in requests:
            pipeline.execute_command(*words)
        return list(pipeline.execute(raise_on_error=False))

    def now_ms(self) -> int:
        """Redis's clock in ms."""
        seconds, microseconds = self.ask("TIME")
        return milliseconds(seconds, microseconds)

    def close(self) -> None:
        self._redis.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *trouble: object) -> None:
        self.close()


def ask_anew(port: int, *words: Word) -> Any:
    """The reply to a client that has just connected; None if it is closed meanwhile."""
    with Client(port) as client:
        try:
            return client.ask(*words)
        except ConnectionError:
            return None


def milliseconds(seconds: bytes, microseconds: bytes) -> int:
    return int(seconds) * 1000 + int(microseconds) // 1000
