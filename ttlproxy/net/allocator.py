"""What becomes of freed memory. Knows glibc's malloc, and leaves any other as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
# Blocks from here on go back to the system when they are freed: by default glibc raises this to
# the largest that was ever freed, up to 32 MiB, and such blocks then lie about in the heap.
_LARGE: Final = 1 << 20
# What may stay free at the end of the heap; a chunk of a client's, 256 KiB at most, comes and goes.
_SPARE: Final = 4 << 20


def give_back() -> None:
    """From now on what large requests took goes back to the system when they are done."""
    mallopt = _function("mallopt")
    mallopt(_M_TRIM_THRESHOLD, _SPARE)
    mallopt(_M_MMAP_THRESHOLD, _LARGE)


def trim() -> None:
    """What is free in the midst of the heap goes back to the system: the chunks of many clients lie
    among what stays. Takes some 0.1 ms for each MB."""
    _function("malloc_trim")(0)


def _function(name: str) -> Callable[..., object]:
    """One of glibc's; with any other malloc one that does nothing."""
    import ctypes  # takes 1 MB (RSS), of those who serve

    try:
        found: Callable[..., object] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return lambda *_: None
    return found
