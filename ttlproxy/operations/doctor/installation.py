"""Checks of this installation of ttlproxy, which is the proxies' too where they run from it."""

from __future__ import annotations

from ttlproxy.operations.doctor.finding import INFO, OK, Finding
from ttlproxy.operations.doctor.target import Target
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
