"""The entry point: `python -m ttlproxy`, and `ttlproxy` on the PATH.

It sets a handler for Ctrl-C before it imports the rest: imports take most of the start's time.
"""

import gc
import os
import signal
import sys

INTERRUPTED = 130  # as shells have it for a process that SIGINT has ended


def main() -> int:
    """Runs `cli.main`. Until that sets its own handler, SIGINT may end the process at once: nothing
    needs a clean end yet."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    gc.disable()  # what imports make stays: to look through it takes a sixth of their time
    from ttlproxy.cli.main import main

    gc.enable()
    return main()


if __name__ == "__main__":
    sys.exit(main())
