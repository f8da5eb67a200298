"""What the command line prints."""

import sys
from typing import Final

# Of what has only looked.
ADD_APPLY: Final = "nothing was changed; --apply does it"


def say(line: str) -> None:
    """Prints a line on standard output, and flushes."""
    print(line, flush=True)


def tell(line: str) -> None:
    """Prints a line on standard error, and flushes."""
    print(line, file=sys.stderr, flush=True)
