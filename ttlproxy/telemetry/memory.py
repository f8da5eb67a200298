"""The memory of processes, and of the proxy's control group (cgroup); whether the settings fit it.

Knows Linux's files: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of the kernel.
On other systems nothing is known about the group. Workers are numbered: pids would make ever new
series.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ttlproxy.config import Settings

_MIB: Final = 1 << 20
# Measured figures (docs/deploying.md): a process at the start, what each of several workers adds to
# the one that listens, the admin pages, a client. 5 KiB of the last are the kernel's for two
# sockets, which count for the group.
_PROCESS: Final = 60 * _MIB
_WORKER: Final = 30 * _MIB
_PAGES: Final = 13 * _MIB
_CLIENT: Final = 13 << 10
# Less than this for buffers and requests is of no use.
_LEAST: Final = 8 * _MIB
# Copies of a request, for a moment, while it is rewritten.
_COPIES: Final = 4

_MEMBERSHIP: Final = Path("/proc/self/cgroup")
_MOUNT: Final = Path("/sys/fs/cgroup")
# v1 has a number near 2**63 if there is no limit, v2 the word "max".
_NO_LIMIT: Final = 1 << 60


class _Layout(NamedTuple):
    """The files of a version: the folder below the mount, and the names of files.

    cache: the line of memory.stat with file cache that the kernel drops if it needs memory
    """

    folder: str
    limit: str
    used: str
    cache: str


# The keys are the controllers that a line of /proc/self/cgroup names.
_LAYOUTS: Final = {
    "memory": _Layout(
        "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
    ),
    "": _Layout("", "memory.max", "memory.current", "inactive_file"),
}


class Memory(NamedTuple):
    """Figures in bytes. limit: infinite if there is none; used: NaN if the system does not tell"""

    limit: float
    used: float


class Shortage(NamedTuple):
    """Settings that allow more memory than there is. what: that in words; fix: what to do"""

    what: str
    fix: str


def container_memory() -> Memory:
    """Returns the memory of the group with the lowest limit: this process's, or one that contains
    it."""
    return min(_groups(), key=lambda group: group.limit, default=Memory(math.inf, math.nan))


def needed(settings: Settings) -> float:
    """Returns the bytes that proxies with these settings may use; infinite without a limit for
    buffers."""
    each = settings.max_buffer_bytes or math.inf
    each += _COPIES * settings.max_request_bytes
    return _at_rest(settings) + settings.workers * each


def shortage(settings: Settings) -> Shortage | None:
    """Returns advice if the group's limit is lower than what the settings allow; else None."""
    limit, most, rest = container_memory().limit, needed(settings), _at_rest(settings)
    if limit >= most:
        return None
    allowed = _mib(most) if math.isfinite(most) else "any number of bytes"
    fixes = []
    if (room := int(limit - rest) // settings.workers) >= _LEAST:
        # Half for buffers, half for a request.
        buffers, request = room // 2, room // 2 // _COPIES
        fixes.append(f"--max-buffer-bytes {buffers} --max-request-bytes {request}")
    elif math.isinf(most):
        fixes.append(f"a memory limit above {_mib(rest)}")
    if math.isfinite(most):
        fixes.append(f"a memory limit of {_mib(most)}")
    what = f"the memory limit of the container is {_mib(limit)}, but the settings allow {allowed}"
    return Shortage(what, ", or ".join(fixes))


def _mib(count: float) -> str:
    return f"{math.ceil(count / _MIB)} MiB"


def _at_rest(settings: Settings) -> int:
    """Returns the bytes that the processes and their clients need, without buffers and requests."""
    workers = settings.workers * _WORKER if settings.workers > 1 else 0
    pages = _PAGES if settings.admin is not None else 0
    return _PROCESS + workers + pages + settings.max_clients * _CLIENT


def _groups() -> Iterator[Memory]:
    try:
        lines = _MEMBERSHIP.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    places = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
    # If both versions are mounted, the first one has the memory.
    layout, path = next(
        ((_LAYOUTS[name], places[name]) for name in _LAYOUTS if name in places), (None, "")
    )
    if layout is None:
        return
    mount = _MOUNT / layout.folder
    own = mount / path.strip("/")
    # In a namespace of its own, a process of v1 sees its group as the mount.
    for folder in (own, *own.parents) if own.is_dir() else (mount,):
        if folder.is_relative_to(mount):
            yield _group(folder, layout)


def _group(folder: Path, layout: _Layout) -> Memory:
    limit, used = _number(folder / layout.limit), _number(folder / layout.used)
    try:
        lines = (folder / "memory.stat").read_text("ascii").splitlines()
        cache = float(dict(line.split(" ", 1) for line in lines).get(layout.cache, 0))
    except (OSError, ValueError):
        cache = 0
    return Memory(limit if limit < _NO_LIMIT else math.inf, used - cache)


def _number(file: Path) -> float:
    """Reads a number; NaN if the file is not there, or has none."""
    try:
        return float(file.read_text("ascii").replace("max", "nan"))
    except (OSError, ValueError):
        return math.nan


MEMORY: Final = "ttlproxy_worker_resident_memory_bytes"
# On Linux: sizes of this process in pages, the resident ones second (man 5 proc).
_SIZES: Final = Path("/proc/self/statm")
# The name of a single process, or of a worker that does not know its number.
ONE: Final = "1"


def own_memory() -> dict[str, float]:
    """Returns the memory of this process, by its number; empty if the system does not tell."""
    try:
        pages = int(_SIZES.read_text("ascii").split()[1])
    except OSError:
        return {}
    return {ONE: pages * os.sysconf("SC_PAGE_SIZE")}
