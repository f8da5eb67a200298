"""The proxy's own connections to Redis: load scripts, run one, receive pushes, reconnect.

`connections` opens them, `pushes` receives announcements, `reaps` asks for reaps on behalf of
sessions, `waits` waits for items of lists, `refusals` says what Redis refuses, `link` holds it all
together and starts anew when any of it is lost. `context` is what sessions and the reaper use, too.
"""

from ttlproxy.link.attached import attached
from ttlproxy.link.backoff import Backoff
from ttlproxy.link.clock import ServerClock
from ttlproxy.link.connections import client
from ttlproxy.link.context import Context
from ttlproxy.link.fitness import LAYOUT, OLDEST, TRIAL
from ttlproxy.link.link import DUE, Link
from ttlproxy.link.pipeline import everywhere, run, valid
from ttlproxy.link.pushes import announcing
from ttlproxy.link.reaps import TOGETHER
from ttlproxy.link.refusals import passes, reason
from ttlproxy.link.scores import whole_ms
from ttlproxy.link.script_calls import answered
from ttlproxy.link.waits import Waits

__all__ = [
    "DUE",
    "LAYOUT",
    "OLDEST",
    "TOGETHER",
    "TRIAL",
    "Backoff",
    "Context",
    "Link",
    "ServerClock",
    "Waits",
    "announcing",
    "answered",
    "attached",
    "client",
    "everywhere",
    "passes",
    "reason",
    "run",
    "valid",
    "whole_ms",
]
