"""The entry point: `python -m ttlproxy`, and `ttlproxy` on the PATH.

It sets a handler for Ctrl-C before it imports the rest: imports take most of the start's time.
"""

import gc
import os
import signal
import sys

from ttlproxy.errors import INTERRUPTED


def main() -> int:
    """Runs `cli.main`. Until that sets its own handler, SIGINT may end the process at once: nothing
    needs a clean end yet."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    _have_streams()
    gc.disable()  # imported objects stay: looking through them takes a sixth of their time
    from ttlproxy.cli.main import main

    gc.enable()
    return main()


def _have_streams() -> None:
    """Opens standard streams that were closed: otherwise a socket would get their numbers, at which
    libuv ends the process."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free


if __name__ == "__main__":
    sys.exit(main())
