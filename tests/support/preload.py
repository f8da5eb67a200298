"""What every proxy does before it reads its settings, done once: tests.support.forkserver has
proxies begin here. What only some import is here too, but for a test that sees that others do
without."""

import ttlproxy.admin
import ttlproxy.cli.main
from ttlproxy.core.keys import DEFAULT_PREFIX, Keys
from ttlproxy.scripts import Scripts

__all__ = ["ttlproxy"]

Keys()
dict(Scripts(DEFAULT_PREFIX))
