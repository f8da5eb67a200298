"""Numbers of flags."""

import argparse


def positive(text: str) -> int:
    """Raises ArgumentTypeError, as argparse wants it."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("must be a whole number of at least 1")
    return int(text)


def database(text: str) -> int:
    """The same."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("must be the number of a database")
    return int(text)
