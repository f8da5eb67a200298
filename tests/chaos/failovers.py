"""`python -m tests.chaos.failovers --times 50`: failovers by Sentinel, under clients.

Prints for each kind, in seconds since a replica became the new master, when the first write through
the proxy was acknowledged there, and when the first Sentinel named it. Also how many acknowledged
writes Redis itself has lost, because it replicates asynchronously. Exit code 1 for an element that
was seen late, went early or has lost its deadline without being among those.
"""

from __future__ import annotations

import signal
import statistics
import sys
import time
from typing import NamedTuple

from tests.chaos.accounts import parser
from tests.support.rewinds import Outcome
from tests.support.sentinels import Replicated
from tests.support.servers import Proxy, find_binaries
from tests.support.timed_clients import TimedClients

# After a failover that took longer, the end of the proxy's log is shown.
_SLOW_S = 5.0
_LOG_SHOWN = 20_000
KINDS = ("asked", "killed", "stopped")
_SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}


class Failover(NamedTuple):
    """
    served_s: from the promotion until the first write was acknowledged at the new master
    named_s: from the promotion until a Sentinel named the new master; None if it gave up
    tilts: how often a Sentinel stood still because it got no processor
    """

    served_s: float
    named_s: float | None
    tilts: int
    outcome: Outcome


def fail_over(servers: Replicated, proxy: Proxy, kind: str) -> Failover:
    """One failover, with clients."""
    old, tilts = servers.until_calm(), servers.tilts
    with TimedClients(proxy.port) as clients:
        session = clients.acknowledged[-1].session
        if kind == "asked":
            new = servers.fail_over(old)
        else:
            old.child.send_signal(_SIGNALS[kind])
            new = servers.until_promoted(old)
        promoted_s = time.monotonic()
        is_named = servers.until_named(new)  # before that, they agree on the old one
        named_s = time.monotonic()
        clients.until_served()
        if kind == "killed":
            old.wait()
        if kind == "stopped":
            old.child.send_signal(signal.SIGCONT)
        new = servers.until_calm()
        clients.until_served()
    outcome = clients.examined(new.port)
    clients.until_gone(new.port)
    served_s = min(
        write.at_s
        for write in outcome.arrived
        if write.session > session and write.at_s >= promoted_s
    )
    return Failover(
        served_s - promoted_s,
        named_s - promoted_s if is_named else None,
        servers.tilts - tilts,
        outcome,
    )


def main() -> int:
    flags = parser("tests.chaos.failovers", __doc__)
    flags.add_argument("--times", type=int, default=50, help="of each kind")
    flags.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    options = flags.parse_args()
    done: dict[str, list[Failover]] = {kind: [] for kind in options.kind}
    with Replicated(find_binaries()[options.redis]) as servers:
        proxy = Proxy(servers.url, "--log-level", "debug")
        try:
            proxy.start()  # its log tells of each client
            for _ in range(options.times):
                for kind in options.kind:
                    done[kind].append(fail_over(servers, proxy, kind))
                    print(_shown(kind, done[kind][-1:]), flush=True)
                    if done[kind][-1].served_s > _SLOW_S:
                        print(proxy.stderr[-_LOG_SHOWN:], flush=True)
        finally:
            proxy.remove()
    for kind, each in done.items():
        print(_shown(kind, each))
    faults = [fault for each in done.values() for one in each for fault in one.outcome.faults]
    for fault in faults:
        print(f"FAULT: {fault}")
    return int(bool(faults))


def _shown(kind: str, done: list[Failover]) -> str:
    """The times, without those failovers in which a Sentinel stood still or gave up; and what
    became of all writes."""
    calm = [each for each in done if not each.tilts and each.named_s is not None]
    rewound = [each.outcome.rewound for each in done]
    return (
        f"{kind}: {len(done)} times, {len(done) - len(calm)} of them with a Sentinel that came too"
        f" late; since the promotion: served {_times([each.served_s for each in calm])},"
        f" named {_times([each.named_s or 0 for each in calm])}; writes lost by Redis itself:"
        f" {sum(rewound)}, at most {max(rewound)}; elements checked:"
        f" {sum(each.outcome.checked for each in done)}; faults:"
        f" {sum(len(each.outcome.faults) for each in done)}"
    )


def _times(seconds: list[float]) -> str:
    if not seconds:
        return "?"
    return f"{statistics.median(seconds):.2f} s (at most {max(seconds):.2f} s)"


if __name__ == "__main__":
    sys.exit(main())
