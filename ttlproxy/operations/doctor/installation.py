"""Checks of this installation of ttlproxy and its container, which are the proxies' too where the
doctor runs beside them."""

from __future__ import annotations

import math

from ttlproxy.operations.doctor.finding import INFO, OK, WARNING, Finding
from ttlproxy.operations.doctor.target import Target
from ttlproxy.telemetry.container_memory import container_memory, shortage
from ttlproxy.wire import IS_COMPILED


async def core(target: Target) -> list[Finding]:
    if IS_COMPILED:
        return [Finding("core", OK, "requests and replies are read by compiled code")]
    return [
        Finding(
            "core",
            INFO,
            "requests and replies are read in Python: the compiled core is not built",
            "A proxy then needs up to twice the CPU time for plain requests.",
            "install a C compiler and Python's headers, and then ttlproxy again",
        )
    ]


async def memory_limit(target: Target) -> list[Finding]:
    """Compares the container's limit with what a proxy with the same settings may need."""
    short = shortage(target.settings)
    if short is None:
        limit = container_memory().limit
        said = "none" if math.isinf(limit) else f"{limit / (1 << 20):.0f} MiB, which is enough"
        return [Finding("memory-limit", OK, f"memory limit of the container: {said}")]
    why = "A container that exceeds its limit is killed, and its clients lose their connections."
    return [Finding("memory-limit", WARNING, short.what, why, short.fix)]
