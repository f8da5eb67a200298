"""`python -m tests.chaos --seconds 300`: one long run, its numbers, and exit code 1 for a fault."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.chaos.run import PROXIES, run
from tests.node import install
from tests.servers import Proxy, Server, find_binaries


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--redis", default="7.0", help="its version (default: 7.0)")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ttlproxy-")))
        install(folder)
        server = Server(find_binaries()[options.redis])
        stack.callback(server.remove)
        server.start()
        proxies = [Proxy(server.url) for _ in range(PROXIES)]
        for proxy in proxies:
            stack.callback(proxy.remove)
            proxy.start()
        account = run(server, proxies, options.seconds, options.seed, folder)
    for name, count in account.counts.items():
        print(f"{name:20}{count:>10,}")
    for fault in account.faults:
        print(f"FAULT: {fault}")
    return int(bool(account.faults))


if __name__ == "__main__":
    sys.exit(main())
