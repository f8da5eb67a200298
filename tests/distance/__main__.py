"""Tries what follows a reply through a farther proxy, many times: `python -m tests.distance`.

One Redis, a proxy at its side and one behind a relay that delays each way. Prints, for each delay
and kind, how many tries went wrong; ends with 1 if any did.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack

import redis.asyncio
from redis.exceptions import RedisError

from tests.distance.kinds import KINDS, Step
from tests.support.network_path import NetworkPath
from tests.support.servers import Binary, Proxy, Server

# What a TTL of 100 s may be by the time that it is asked for.
_ABOUT_100 = range(95, 101)


async def _fault(
    near: redis.asyncio.Redis, far: redis.asyncio.Redis, steps: Sequence[Step], number: int
) -> str | None:
    for step in steps:
        words = step.words.replace("{}", str(number)).split()
        try:
            reply = await (far if step.is_far else near).execute_command(*words)
        except RedisError as refusal:
            reply = str(refusal)
        if isinstance(reply, bytes):
            reply = reply.decode()
        is_ok = (step.reply, reply) == ("OK", True)
        is_about_100 = step.reply == 100 and reply in _ABOUT_100
        if step.reply not in (None, reply) and not (is_ok or is_about_100):
            return f"{' '.join(words)} replies {reply!r}, not {step.reply!r}"
    return None


async def faults(
    near_port: int, far_port: int, steps: Sequence[Step], tries: int, clients: int
) -> list[str]:
    """What went wrong in so many tries. Each client has keys of its own."""
    faults: list[str] = []

    async def some(first: int) -> None:
        near, far = (
            redis.asyncio.Redis(port=port, single_connection_client=True)
            for port in (near_port, far_port)
        )
        for each in (near, far):
            each.response_callbacks.clear()
        async with near, far:
            for number in range(first, tries, clients):
                if fault := await _fault(near, far, steps, number):
                    faults.append(fault)

    await asyncio.gather(*map(some, range(min(clients, tries))))
    return faults


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.distance", description=__doc__)
    parser.add_argument("--tries", type=int, default=10_000, help="of each kind, at each delay")
    parser.add_argument("--delays", default="0,0.2,1,5,50", help="in ms, each way")
    parser.add_argument("--kinds", default=",".join(KINDS), help="some of these")
    parser.add_argument("--server", default="redis-server", help="the binary")
    parser.add_argument("--io-threads", default="1", help="of the server")
    parser.add_argument("--asking", action="store_true", help="proxies ask what is due, as many do")
    parser.add_argument("--clients", type=int, default=1, help="that try at the same time")
    given = parser.parse_args(arguments)
    path = shutil.which(given.server)
    if path is None:
        parser.error(f"there is no {given.server}")
    wrong = 0
    for delay in given.delays.split(","):
        with ExitStack() as stack:
            server = Server(Binary("", path), "--io-threads", given.io_threads).start()
            stack.callback(server.remove)
            relay = stack.enter_context(NetworkPath(server.port, delay_s=float(delay) / 1000))
            ports = []
            for url in (server.url, f"redis://127.0.0.1:{relay.port}"):
                proxy = Proxy(url, asks=given.asking)
                proxy.start()
                stack.callback(proxy.stop)
                ports.append(proxy.port)
            for kind in given.kinds.split(","):
                found = asyncio.run(
                    faults(ports[0], ports[1], KINDS[kind], given.tries, given.clients)
                )
                print(f"{delay} ms, {kind}: {len(found)} of {given.tries} wrong", flush=True)
                for fault in found[:3]:
                    print(f"  {fault}", flush=True)
                wrong += len(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
