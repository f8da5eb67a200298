"""What proxies before one server share beside deadlines: their secret, and the layout of it all.

It stands in a hash whose name no pattern of keys under the prefix reaches. Whoever writes it first
wins, and the others take it over; when it is gone, as after FLUSHALL, any of them writes it again.
"""

from __future__ import annotations

from redis.asyncio import Redis
from redis.exceptions import ReadOnlyError, ResponseError

from ttlproxy.caller import Caller
from ttlproxy.commands import Call
from ttlproxy.link.fitness import LAYOUT, check_layout
from ttlproxy.link.pipeline import run, valid
from ttlproxy.link.refusals import Refusals

_LAYOUT = b"%d" % LAYOUT


class State:
    """Keeps the secret of `caller.signer` and the layout in Redis.

    shares_secret: whether the secret is the one in Redis, and not a file's
    """

    def __init__(self, caller: Caller, refusals: Refusals, shares_secret: bool) -> None:
        self._caller = caller
        self._refusals = refusals
        self._shares_secret = shares_secret

    async def claim(self, redis: Redis) -> None:
        """At connect, before anybody is served.

        Raises UnfitUpstream for a layout that is newer than ours. Where Redis does not let the
        state be written, as on a replica, the proxy serves with a secret of its own.
        """
        layout = await self._written(redis, b"")
        check_layout(self._caller.keys.prefix, layout)
        if layout is None:
            await self._written(redis, _LAYOUT)

    async def keep(self, redis: Redis) -> None:
        """In each heartbeat: it may be gone, or another proxy may have been first since then.

        Raises redis-py's ConnectionError or TimeoutError.
        """
        words = (b"HMGET", self._caller.keys.state, b"secret", b"layout")
        (reply,) = await run(redis, [(0, words)])
        secret = self._caller.signer.secret if self._shares_secret else None
        if isinstance(reply, list) and reply[1] and secret in (None, reply[0]):
            return
        await self._written(redis, _LAYOUT)

    async def _written(self, redis: Redis, layout: bytes) -> bytes | None:
        """Writes what is missing, and takes over what is there; gives the layout, if any."""
        signer = self._caller.signer
        secret = signer.secret if self._shares_secret else b""
        call = Call("state_keep", (), (secret, layout))
        (reply,) = await run(redis, [(0, self._caller.words(call, b"0"))])
        try:
            found, known = valid(reply)
        except ReadOnlyError:
            return None
        except ResponseError as refusal:
            self._refusals.note("to keep the secret of the proxies", refusal)
            return None
        if self._shares_secret and found:
            signer.adopt(found)
        return known or None
