"""Runs one coroutine as a whole process: sets up its log and event loop, gives the exit code."""

import asyncio
import importlib.util
import logging
import sys
from collections.abc import Callable, Coroutine

from ttlproxy.config import Settings
from ttlproxy.errors import INTERRUPTED, TtlproxyError
from ttlproxy.telemetry import logs

log = logging.getLogger(__name__)


def run(settings: Settings, main: Coroutine[None, None, int], process: str = "") -> int:
    """Runs a coroutine of `app` with the log and event loop of the settings; returns the exit code.

    `process`: the name of this process in its log lines; empty if there is only one.
    """
    logs.set_up(settings.log_level, settings.log_format, process)
    try:
        with asyncio.Runner(loop_factory=loop_factory(settings.event_loop)) as runner:
            return runner.run(main)
    except (TtlproxyError, OSError) as error:  # OSError: the address cannot be bound
        if settings.log_format == "text":
            return failed(error)
        log.critical("%s", error)
        return _exit_code(error)
    except KeyboardInterrupt:  # if no handler for SIGINT was set, as `__main__` does
        return INTERRUPTED
    except Exception:  # a fault of ours: the log must have it, in its format, before the end
        log.critical("ended: internal error", exc_info=True)
        return 1


def failed(error: Exception) -> int:
    """Prints the error on standard error; returns the exit code."""
    print(f"ttlproxy: {error}", file=sys.stderr)
    return _exit_code(error)


def _exit_code(error: Exception) -> int:
    return error.exit_code if isinstance(error, TtlproxyError) else 1


def loop_factory(choice: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's loop if it is installed and `choice` allows it, else None for asyncio's own."""
    if choice == "asyncio" or not importlib.util.find_spec("uvloop"):
        return None
    import uvloop

    return uvloop.new_event_loop
