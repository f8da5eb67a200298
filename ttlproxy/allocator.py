"""What becomes of freed memory. Knows glibc's malloc, and leaves any other as it is."""

from __future__ import annotations

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
    import ctypes  # takes 1 MB (RSS), of those who serve

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_TRIM_THRESHOLD, _SPARE)
    mallopt(_M_MMAP_THRESHOLD, _LARGE)
