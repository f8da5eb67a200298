"""The way in: `python -m ttlproxy`, and `ttlproxy` on the PATH.

What it needs is imported after it has said what Ctrl-C does: imports take the most of a start.
"""

import os
import signal
import sys

INTERRUPTED = 130  # as shells have it for a process that SIGINT has ended


def main() -> int:
    """Runs ttlproxy, as `cli.main` does. Until that says what SIGINT is to do, nothing has begun
    that would have to be ended with care."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from ttlproxy.cli.main import main

    return main()


if __name__ == "__main__":
    sys.exit(main())
