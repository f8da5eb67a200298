"""Returns freed memory to the system. Knows glibc's malloc, and leaves any other as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
# Blocks of at least this size go back to the system when they are freed. By default glibc raises
# this limit to the largest block ever freed, up to 32 MiB, and such blocks then stay in the heap.
_LARGE: Final = 1 << 20
# Free bytes that may stay at the end of the heap: clients' chunks, 256 KiB at most, come and go.
_SPARE: Final = 4 << 20


def give_back() -> None:
    """Makes malloc return the memory of large requests to the system from now on, when they are
    done."""
    mallopt = _function("mallopt")
    mallopt(_M_TRIM_THRESHOLD, _SPARE)
    mallopt(_M_MMAP_THRESHOLD, _LARGE)


def trim() -> None:
    """Returns free memory inside the heap to the system: clients' chunks lie between blocks that
    stay in use. Takes about 0.1 ms for each MB."""
    _function("malloc_trim")(0)


def _function(name: str) -> Callable[..., object]:
    """Returns a function of glibc; with any other malloc a function that does nothing."""
    import ctypes  # takes 1 MB (RSS), so only processes that serve import it

    try:
        found: Callable[..., object] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return lambda *_: None
    return found
