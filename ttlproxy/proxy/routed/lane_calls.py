"""Requests to one lane whose reply somebody awaits in place of the client.

Each raises UpstreamError if the connection ends before the reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ttlproxy.errors import NO_FREE_CONNECTION, NoFreeConnection
from ttlproxy.proxy.routed.gathering import OK
from ttlproxy.proxy.routed.pending_request import PendingRequest
from ttlproxy.session import Step
from ttlproxy.session.replies import Told
from ttlproxy.wire import encode

if TYPE_CHECKING:
    from ttlproxy.proxy.routed.lane import Lane

# Why a client has no connection to a master.
NO_ROOM: Final = "clients may have no more connections to a master"
ASKING: Final = encode((b"ASKING",))


async def asked(lane: Lane, request: PendingRequest) -> bytes:
    """Sends one request; returns its reply."""
    taker = request.awaited()
    lane.resume()
    lane.send([request], request.raw)
    return await _reply(request, taker)


async def asked_together(lane: Lane, requests: Sequence[PendingRequest]) -> list[bytes]:
    """Sends requests in one go; returns their replies. Raises NoFreeConnection if there was no room
    for a connection."""
    takers = [request.awaited() for request in requests]
    lane.send(requests, b"".join([request.raw for request in requests]))
    replies = [await taker for taker in takers]
    if NO_FREE_CONNECTION in replies:  # not one of them has gone to Redis
        raise NoFreeConnection(NO_ROOM)
    return replies


async def asked_as(
    lane: Lane, request: PendingRequest, data: bytes, *, asking: bool = False
) -> bytes:
    """Sends a request in this form, `asking` for a slot that is on its way here. The lane is
    open."""
    taker, request.lane = request.awaited(), lane
    lane.resume()
    if asking:
        ours = PendingRequest([b"ASKING"], ASKING, None)
        ours.awaited()
        lane.put([ours, request], ASKING + data)
    else:
        lane.put([request], data)
    return await _reply(request, taker)


async def confirmed(lane: Lane, request: PendingRequest, count: int) -> bytes:
    """Sends a request of the SUBSCRIBE family, which is answered with so many confirmations.

    They pass to the client. Returns Redis's error in their place, or the last of them.
    """
    await lane.opened()
    assert lane.session is not None
    lane.replies.tell(Told(0, confirmations=count))
    taker = request.awaited()
    lane.put([request], lane.session.from_client(request.raw).to_redis)
    return await taker


def forget_subscriptions(lane: Lane) -> None:
    """The client is subscribed to nothing there any more."""
    lane.replies.forget_subscriptions()
    if lane.session is not None:
        lane.session.listens = False


def relay(lane: Lane, data: bytes) -> None:
    """Passes all unread from now on, in both directions."""
    lane.replies.relay()
    lane.put([], data)


async def logs_in(lane: Lane, words: Sequence[bytes]) -> bytes:
    """Sends a request that may log in, or another that each connection of the client needs; returns
    its reply."""
    await lane.opened()
    return await prepared(lane, words)


async def prepared(lane: Lane, words: Sequence[bytes]) -> bytes:
    """Does what `logs_in` does, on a connection that is being opened."""
    assert lane.session is not None
    request = PendingRequest(list(words), b"", None)
    taker = request.awaited()
    step = lane.session.from_client(encode(tuple(words)))
    lane.put([request], step.to_redis)
    lane.sent(lane.session, step)
    reply = await taker
    _tell(step, reply.partition(b"\n")[0] + b"\n")
    if step.look:
        await lane.link.jobs.verify(lane.replies.answered())
    return reply


def was_told(lane: Lane, words: Sequence[bytes]) -> None:
    """The shared connection has been told this, or what says the same."""
    assert lane.session is not None
    _tell(lane.session.from_client(encode(tuple(words))), OK)


def _tell(step: Step, line: bytes) -> None:
    """Takes the first line of the reply to the only request of a step."""
    for told in step.told:
        if told.tell is not None:
            told.tell(line)


def on_the_way(lane: Lane, request: PendingRequest) -> bytes | None:
    """Returns the bytes to send while the slot of a request is migrating from this lane's master.

    This lane knows the keys of the slot, until it has moved. None if something is due in its keys:
    nothing can be reaped before. The lane is open.
    """
    assert lane.session is not None
    lane.hear()
    step = lane.session.from_client(request.raw)
    return None if step.is_held or step.pauses else _dated(lane, step)


async def unindexed(lane: Lane, request: PendingRequest) -> bytes | None:
    """Does as `on_the_way` where keys that may have an index have none, at either master: nothing
    is due or to be swept, and no script is needed, which Redis would refuse. Raises TimeoutError
    after hold_max."""
    assert lane.session is not None
    places = lane.session.may_be_indexed(request.args)
    if not places or any((await lane.link.holds.indexed(places)).values()):
        return None
    lane.session.unindexed = True
    step = lane.session.from_client(request.raw)
    return None if step.unsure or step.pauses else _dated(lane, step)


def _dated(lane: Lane, step: Step) -> bytes:
    """The bytes of a step; rules give its elements deadlines once it has been carried out."""
    if step.apply_ttl_after:
        lane.link.context.apply_ttl_later(step.apply_ttl_after)
    return step.to_redis


async def _reply(request: PendingRequest, taker: asyncio.Future[bytes]) -> bytes:
    try:
        return await taker
    finally:
        request.taker = None
