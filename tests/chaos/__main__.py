"""`python -m tests.chaos --seconds 300`: one long run, its numbers, and exit code 1 for a fault.

It makes all that a server, its replica, their clock, the proxies and the connections between them
may do, or `--only` some of it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.chaos.accounts import Account, logged, parser
from tests.chaos.system import System
from tests.chaos.trial import trial
from tests.chaos.troubles import names
from tests.support.clock_shim import built
from tests.support.servers import find_binaries


def main() -> int:
    flags = parser("tests.chaos", __doc__)
    flags.add_argument("--seconds", type=float, default=300.0)
    flags.add_argument("--only", nargs="+", default=[], choices=names(), metavar="NAME")
    flags.add_argument("--log", help="a file for events, one in JSON a line")
    options = flags.parse_args()
    return _run(options).report(options.seed)


def _run(options: argparse.Namespace) -> Account:
    binary = find_binaries()[options.redis]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ttlproxy-")))
        log = stack.enter_context(logged(options.log))
        log("begin", seed=options.seed, redis=binary.name, seconds=options.seconds)
        system = stack.enter_context(System(binary, built(folder), log, forked=True))
        try:
            account = trial(system, options.seconds, options.seed, only=options.only)
        except Exception:
            for proxy in system.proxies:
                print(proxy.stderr, file=sys.stderr)
            raise
        log("end", counts=account.counts, faults=account.faults)
        return account


if __name__ == "__main__":
    sys.exit(main())
