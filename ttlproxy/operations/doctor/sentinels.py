"""Whether each Sentinel of the URL can be asked, and says what the others say."""

from __future__ import annotations

import asyncio

from ttlproxy.addresses import Upstream
from ttlproxy.link import Sentinel, Sentinels
from ttlproxy.net.tasks import cancel
from ttlproxy.operations.doctor.finding import OK, WARNING, Finding
from ttlproxy.operations.doctor.target import Target

_CHECK = "sentinels"


async def sentinels(target: Target) -> list[Finding]:
    upstream = target.settings.upstream
    if upstream is None or upstream.sentinels is None:
        return [Finding(_CHECK, OK, "no Sentinel is asked for the master")]
    asked = await _asked(upstream, target.settings.connect_timeout)
    latest = asked.latest()
    found = [_silent(each) for each in asked.each if each.answer is None]
    if latest is not None:
        found += [
            _other(each, str(latest.address))
            for each in asked.each
            if each.answer is not None and each.answer.address != latest.address
        ]
    said = f"{len(asked.each)} Sentinels say that the master is {latest and latest.address}"
    return found or [Finding(_CHECK, OK, said)]


async def _asked(upstream: Upstream, timeout_s: float) -> Sentinels:
    asked = Sentinels(upstream, lambda: timeout_s)
    running = asyncio.create_task(asked.run(), name="doctor: Sentinels")
    try:
        await asked.until_asked(timeout_s)
    finally:
        await cancel(running)
    return asked


def _silent(sentinel: Sentinel) -> Finding:
    return Finding(
        _CHECK,
        WARNING,
        f"the Sentinel at {sentinel.address}: {sentinel.trouble or 'no answer'}",
        "If the others are away as well, nobody learns of a failover.",
        "look whether it runs there, and at sentinel_user and sentinel_password",
    )


def _other(sentinel: Sentinel, master: str) -> Finding:
    assert sentinel.answer is not None
    return Finding(
        _CHECK,
        WARNING,
        f"the Sentinel at {sentinel.address} says that the master is {sentinel.answer.address},"
        f" and the latest to the others is {master}",
        "It is cut off from the others, or watches other servers under the same name.",
        "look at SENTINEL MASTERS and SENTINEL SENTINELS there",
    )
