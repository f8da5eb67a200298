"""What every proxy does before it reads its settings, done once: the proxies of
tests.support.forkserver start from here. Imports that only some proxies need are here too, except
those that a test expects to be absent.

Such proxies look at Redis, and for slow clients, more often than others, and say more often how far
long work is, because many tests wait for that. A proxy that is not forked does so once a second.
"""

import gc

import ttlproxy.admin
import ttlproxy.process.app
import ttlproxy.process.runner
import ttlproxy.process.workers
import ttlproxy.proxy.routed_server
from ttlproxy.cli.main import load
from ttlproxy.core.keys import DEFAULT_PREFIX, Keys
from ttlproxy.link.connecting import discovery
from ttlproxy.link.life import heartbeat
from ttlproxy.link.reaper import walks
from ttlproxy.link.shared import barriers
from ttlproxy.net import progress
from ttlproxy.proxy import slow_clients
from ttlproxy.scripts import Scripts

__all__ = ["ttlproxy"]

_EVERY_S = 0.2

heartbeat.EVERY_S = _EVERY_S  # type: ignore[misc]
barriers._SOON_S = _EVERY_S  # type: ignore[misc]
discovery._EVERY_S = _EVERY_S
walks.EVERY_S *= _EVERY_S  # type: ignore[misc]
slow_clients._LOOK_S = _EVERY_S  # type: ignore[misc]
progress._LOOK_S = _EVERY_S  # type: ignore[misc]
progress._NOTED_S = _EVERY_S  # type: ignore[misc]
Keys()
dict(Scripts(DEFAULT_PREFIX))
load([])
gc.freeze()
