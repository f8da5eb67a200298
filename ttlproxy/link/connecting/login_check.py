"""Whether a server asks clients for a login. It is asked by a connection that has none, so the
answer is the one that clients would get, whatever the proxy's own user may see of the users."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from redis.exceptions import AuthenticationError, RedisError, ResponseError

from ttlproxy.addresses import Upstream
from ttlproxy.link.connecting.connections import client, close, open_now

# An answer is valid for so long.
_RECENT_S: Final = 1.0


class LoginCheck:
    """Asks one server, at most once a second."""

    def __init__(self, upstream: Callable[[], Upstream], timeout_s: Callable[[], float]) -> None:
        """`upstream`: its address now."""
        self._upstream = upstream
        self._timeout_s = timeout_s
        self._asking = asyncio.Lock()
        self._asked: Upstream | None = None
        self._until_s = 0.0  # on the loop's clock
        self._answer = False

    async def asks_login(self) -> bool:
        """Whether it refuses clients that have not logged in. Raises OSError."""
        loop, upstream, limit_s = asyncio.get_running_loop(), self._upstream(), self._timeout_s()
        async with asyncio.timeout(limit_s), self._asking:
            if upstream != self._asked or loop.time() > self._until_s:
                self._answer = await _asks_login(upstream, limit_s)
                self._asked, self._until_s = upstream, loop.time() + _RECENT_S
            return self._answer


async def _asks_login(upstream: Upstream, timeout_s: float) -> bool:
    nobody = replace(upstream, user=None, password=None, user_file=None, password_file=None)
    redis = client(nobody, "ttlproxy:probe", timeout_s)
    try:
        await open_now(redis)  # which says CLIENT SETNAME
    except AuthenticationError:
        return True
    except ResponseError:  # Redis looks at the login before it looks at anything else
        return False
    except RedisError as trouble:
        raise ConnectionError(str(trouble)) from trouble
    finally:
        await close(redis)
    return False
