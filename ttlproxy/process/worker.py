"""`python -m ttlproxy.process.worker`, as `workers` calls it: one process of several that serve."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys

_MOST_SETTINGS = 1 << 16


def main() -> int:
    """Serves until the handover ends; its socket is the descriptor that the first word names."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until there is something to be ended with care
    from ttlproxy.config import Settings
    from ttlproxy.process import app
    from ttlproxy.process.fd_channel import Receiver
    from ttlproxy.process.runner import run

    end = socket.socket(fileno=int(sys.argv[1]))
    settings: Settings = pickle.loads(end.recv(_MOST_SETTINGS))
    main = app.work(settings, Receiver(end, settings))
    return run(settings, main, f"worker {os.getpid()}")


if __name__ == "__main__":
    raise SystemExit(main())
