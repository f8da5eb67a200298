"""`python -m tests.chaos --seconds 300`: one long run, its numbers, and exit code 1 for a fault.

`--trouble kills` kills proxies, under clients of two languages; `--trouble all` makes all that a
server, its replica, their clock and the connections to them may do as well.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.chaos.run import PROXIES, Account, run
from tests.chaos.system import Log, System
from tests.chaos.trial import trial
from tests.chaos.troubles import names
from tests.support.clock_shim import built
from tests.support.npm import install
from tests.support.servers import Binary, Proxy, Server, find_binaries


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.chaos", description=__doc__)
    parser.add_argument("--trouble", choices=["kills", "all"], default="kills")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--redis", default="7.0", help="its version (default: 7.0)")
    parser.add_argument("--only", nargs="+", default=[], choices=names(), metavar="NAME")
    parser.add_argument("--log", help="of --trouble all: a file for its events, one in JSON a line")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    binary = find_binaries()[options.redis]
    if options.trouble == "all":
        account = _all(binary, options)
    else:
        account = _kills(binary, options.seconds, options.seed)
    for name, count in account.counts.items():
        print(f"{name:20}{count:>10,}")
    for fault in account.faults:
        print(f"FAULT: {fault}")
    verdict = f"{len(account.faults)} faults" if account.faults else "no fault"
    print(f"{verdict} with seed {options.seed}")
    return int(bool(account.faults))


def _kills(binary: Binary, seconds: float, seed: int) -> Account:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ttlproxy-")))
        install(folder)
        server = Server(binary)
        stack.callback(server.remove)
        server.start()
        proxies = [Proxy(server.url) for _ in range(PROXIES)]
        for proxy in proxies:
            stack.callback(proxy.remove)
            proxy.start()
        return run(server, proxies, seconds, seed, folder)


def _all(binary: Binary, options: argparse.Namespace) -> Account:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ttlproxy-")))
        path = options.log
        log = Log(stack.enter_context(open(path, "w", encoding="utf-8")) if path else None)
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
