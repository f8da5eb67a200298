"""The element-expiry commands of other servers, so that clients written for them run unchanged.

Each command takes and answers what it does on its own server, with three differences on purpose: a
time that is already past deletes at once; conditions are checked before that, as everywhere here; a
time too large for a deadline is refused.
"""

from ttlproxy.commands.dialects import dragonfly, garnet, keydb

VIRTUALS = (*keydb.VIRTUALS, *dragonfly.VIRTUALS, *garnet.VIRTUALS)
LONGER = keydb.LONGER

__all__ = ["LONGER", "VIRTUALS"]
