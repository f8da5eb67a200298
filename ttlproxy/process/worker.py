"""`python -m ttlproxy.process.worker`: one of several processes that serve; `workers` starts it."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import socket
import sys

_MOST_SETTINGS = 1 << 16


def main() -> int:
    """Serves until the fd channel ends; the first argument is the channel's file descriptor."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the event loop runs
    gc.disable()  # as in ttlproxy/__main__.py
    from ttlproxy.config import Settings
    from ttlproxy.process import app
    from ttlproxy.process.fd_channel import Receiver
    from ttlproxy.process.runner import run

    gc.enable()
    end = socket.socket(fileno=int(sys.argv[1]))
    settings: Settings = pickle.loads(end.recv(_MOST_SETTINGS))
    main = app.work(settings, Receiver(end, settings))
    return run(settings, main, f"worker {os.getpid()}")


if __name__ == "__main__":
    raise SystemExit(main())
