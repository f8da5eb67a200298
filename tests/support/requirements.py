"""What the tests need from this machine. TTLPROXY_REQUIRE=6.2,7.0,chromium,cc makes a run fail
without it. Knows where it looks for servers and programs; starts none."""

import os
import re
import shutil
from functools import cache
from typing import NoReturn

import pytest

from tests.support.containers import IMAGES, why_no_engine
from tests.support.servers import find_binaries, release

BINARIES = find_binaries()
NOT_HERE = "not here: "

# Programs that may have other names.
PROGRAMS = {
    "cc": ("cc", "gcc", "clang"),
    "chromium": ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"),
}


def required() -> list[str]:
    """The names in TTLPROXY_REQUIRE."""
    names = os.environ.get("TTLPROXY_REQUIRE", "").split(",")
    return [name.strip() for name in names if name.strip()]


def find_program(name: str) -> str | None:
    """The path of a program, which may have several names."""
    return next(filter(None, map(shutil.which, PROGRAMS.get(name, (name,)))), None)


@cache
def servers_here() -> list[str]:
    """The versions that tests can run on, the newest last."""
    images = [] if why_no_engine() else [*IMAGES]
    return sorted({*BINARIES, *images}, key=release)


def servers_of_a_run(must_be_killable: bool) -> list[str]:
    """The versions that TTLPROXY_REQUIRE names, else all that are here, the newest last. If none of
    the named ones fits, the newest that fits. A container cannot be killed and started again."""
    fit = [name for name in servers_here() if name in BINARIES or not must_be_killable]
    named = [name for name in required() if is_version(name)]
    return [name for name in fit if name in named] or (fit[-1:] if named else fit)


def is_version(name: str) -> bool:
    """Whether this is a server's version, as servers_here writes it."""
    return re.fullmatch(r"(valkey-)?\d+(\.\d+)?", name) is not None


def servers_not_here() -> list[str]:
    """One line for each reason why a server is absent."""
    lines = [
        f"redis-server {version}: neither on the PATH nor named by TTLPROXY_TEST_REDIS"
        for version in ("6.2", "7.0")
        if version not in BINARIES
    ]
    if why_no_engine():
        lines.append(f"{' and '.join(IMAGES.values())} in containers: no Docker engine answers")
    return lines


def missing() -> list[str]:
    """Required servers and programs that are absent. The tests check other names themselves."""
    return [
        name
        for name in required()
        if (is_version(name) and name not in servers_here())
        or (name in PROGRAMS and find_program(name) is None)
    ]


def absent(name: str, reason: str) -> NoReturn:
    """Skips with the reason, or fails if TTLPROXY_REQUIRE has the name."""
    if name in required():
        pytest.fail(f"TTLPROXY_REQUIRE has {name}: {reason}", pytrace=False)
    pytest.skip(f"{NOT_HERE}{reason}")
