"""The most values and words that scripts are given.

Lua's unpack fails at 8,000 values ("too many results to unpack": LUAI_MAXCSTACK in luaconf.h).
"""

from __future__ import annotations

from typing import Final

# The values that a script unpacks at a time: a multiple of 2 and 3, so that the words of one
# element stay together.
UNPACK_MAX: Final = 7200
# The elements of one reap: lib/deliver.lua unpacks those of a list together.
REAP_BATCH_MAX: Final = 7000
# The words of a command that a script calls for a client.
CALLED_WORDS_MAX: Final = 7900
# The words of one virtual command, including the name: with that many, a script blocks Redis for a
# second.
REQUEST_WORDS_MAX: Final = 200_000
