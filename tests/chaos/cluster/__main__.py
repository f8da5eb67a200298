"""`python -m tests.chaos.cluster --trouble reshard --minutes 30`: one long run on a Redis Cluster.

Prints its numbers, and exits with 1 for a fault. While only slots move (reshard, atomic), an error
that a client sees is a fault, too. `--trouble all` mixes all of them: with an odd seed without
`partition`, with an even one without `distance`, because nodes that can be cut off have no relays.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack

from tests.chaos.accounts import Account, logged, parser
from tests.chaos.cluster.system import NODES, ClusterSystem
from tests.chaos.cluster.trial import trial
from tests.chaos.cluster.troubles import NAMES
from tests.support.network import Network
from tests.support.servers import find_binaries, moves_whole_slots

# A busy machine must not make nodes take each other for dead: that would be a trouble unasked for.
_TIMEOUT_MS = 5000
_CALM_TIMEOUT_MS = 30_000
# Of `all`, by an even and an odd seed.
_LEFT_OUT = ("distance", "partition")
_CALM = {"distance", "reshard", "atomic", "proxy", "rules", "memory", "failover", "takeover"}


def main() -> int:
    flags = parser("tests.chaos.cluster", __doc__)
    flags.add_argument("--trouble", nargs="+", choices=[*NAMES, "all"], default=["all"])
    flags.add_argument("--minutes", type=float, default=5.0)
    flags.add_argument("--log", help="a file for events, one in JSON a line")
    options = flags.parse_args()
    return _run(options).report(options.seed)


def _run(options: argparse.Namespace) -> Account:
    found = find_binaries()
    if (whole := moves_whole_slots()) is not None:
        found.setdefault(whole.name, whole)
    binary = found[options.redis]
    only = [name for name in NAMES if name != _LEFT_OUT[options.seed % 2]]
    if "all" not in options.trouble:
        only = options.trouble
    with ExitStack() as stack:
        log = stack.enter_context(logged(options.log))
        log("begin", seed=options.seed, redis=binary.name, troubles=only)
        timeout_ms = _CALM_TIMEOUT_MS if _CALM.issuperset(only) else _TIMEOUT_MS
        network = stack.enter_context(Network(NODES)) if "partition" in only else None
        system = stack.enter_context(
            ClusterSystem(binary, log, timeout_ms, forked=True, network=network)
        )
        try:
            account = trial(system, options.minutes * 60, options.seed, only)
        except BaseException:
            for proxy in system.proxies:
                print(proxy.stderr, file=sys.stderr)
            raise
        log("end", counts=account.counts, faults=account.faults)
        for number, proxy in enumerate(system.proxies):
            log("proxy", number=number, said=proxy.stderr)
        return account


if __name__ == "__main__":
    sys.exit(main())
