"""`python -m tests.chaos.failovers --times 50`: failovers by Sentinel, under clients.

Prints for each kind how long it took until a write through the proxy was acknowledged at the new
master: since that became one, and since the first Sentinel has said so. Exit code 1 for an element
that was seen late or has no deadline.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import time
from contextlib import closing, suppress

from redis.exceptions import RedisError

from tests.support.processes import attempts, wait_until
from tests.support.redis_client import Client
from tests.support.sentinels import Replicated
from tests.support.servers import Proxy, Server, find_binaries
from tests.support.timed_clients import TimedClients, without_deadline

KINDS = ("asked", "killed", "stopped")
_SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}


def _until_served(proxy: Proxy, server: Server) -> None:
    """Returns when a write through the proxy has reached this server."""
    marker = f"served:{time.monotonic_ns()}"
    for _ in attempts(60.0, "a write at the new master"):
        with suppress(RedisError, OSError), closing(Client(proxy.port)) as client:
            if client.ask("SET", marker, 1, "PX", 60_000) in (b"OK", True):
                with closing(Client(server.port)) as direct:
                    if direct.ask("EXISTS", marker):
                        return


def fail_over(
    servers: Replicated, proxy: Proxy, kind: str
) -> tuple[tuple[float, float], list[str]]:
    """Seconds until served, since the promotion and since a Sentinel has told it; and faults."""
    old = servers.until_calm()
    with TimedClients(proxy.port) as clients:
        if kind == "asked":
            servers.ask_to_fail_over()
        else:
            old.child.send_signal(_SIGNALS[kind])
        new = servers.until_promoted(old)
        promoted_s = time.monotonic()
        servers.until_named(new)
        named_s = time.monotonic()
        _until_served(proxy, new)
        served_s = time.monotonic()
        if kind == "killed":
            old.wait()
        if kind == "stopped":
            old.child.send_signal(signal.SIGCONT)
        new = servers.until_calm()
        clients.until_served()
    faults = [*clients.late, *clients.faults, *without_deadline(new.port, clients.keys)]
    with closing(Client(new.port)) as direct:
        wait_until(lambda: not direct.ask("EXISTS", *clients.keys), "all that is due gone")
    return (served_s - promoted_s, served_s - named_s), faults


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.chaos.failovers", description=__doc__)
    parser.add_argument("--times", type=int, default=50, help="of each kind")
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--redis", default="7.0", help="its version (default: 7.0)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in options.kind}
    faults: list[str] = []
    with Replicated(find_binaries()[options.redis]) as servers:
        proxy = Proxy(servers.url)
        try:
            proxy.start()
            for _ in range(options.times):
                for kind in options.kind:
                    took, found = fail_over(servers, proxy, kind)
                    times[kind].append(took)
                    faults += found
                    shown = "{:.2f} s, {:.2f} s".format(*took)
                    print(f"{kind}: {shown}, {len(found)} faults", flush=True)
        finally:
            proxy.remove()
    for kind, each in times.items():
        for since, seconds in zip(("promotion", "Sentinel"), zip(*each, strict=True), strict=True):
            middle, most = statistics.median(seconds), max(seconds)
            print(
                f"{kind:8} {len(each)} times, since {since}: {middle:.2f} s, at most {most:.2f} s"
            )
    for fault in faults:
        print(f"FAULT: {fault}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
