"""Element expiry in the words of other servers, so that what was written for them runs unchanged.

What each command takes and answers is from the server whose it is; where ours differ on purpose, it
is in three things: a time that is already past deletes at once, conditions come before that, as
everywhere here, and a time that no deadline can hold is refused.
"""

from ttlproxy.commands.dialects import dragonfly, garnet, keydb

VIRTUALS = (*keydb.VIRTUALS, *dragonfly.VIRTUALS, *garnet.VIRTUALS)
LONGER = keydb.LONGER

__all__ = ["LONGER", "VIRTUALS"]
