"""What the command line prints."""

import sys


def say(line: str) -> None:
    """Prints a line on standard output, and flushes."""
    print(line, flush=True)


def tell(line: str) -> None:
    """Prints a line on standard error, and flushes."""
    print(line, file=sys.stderr, flush=True)
