"""What every proxy does before it reads its settings, done once: the proxies of
tests.support.forkserver start from here. Imports that only some proxies need are here too, except
those that a test expects to be absent."""

import ttlproxy.admin
import ttlproxy.cli.main
from ttlproxy.core.keys import DEFAULT_PREFIX, Keys
from ttlproxy.scripts import Scripts

__all__ = ["ttlproxy"]

Keys()
dict(Scripts(DEFAULT_PREFIX))
