"""What a run must not do without: TTLPROXY_REQUIRE=6.2,7.0 turns those skips into failures."""

import os
from typing import NoReturn

import pytest


def absent(name: str, reason: str) -> NoReturn:
    """Skips with the reason, or fails where TTLPROXY_REQUIRE has the name."""
    required = os.environ.get("TTLPROXY_REQUIRE", "").split(",")
    if name in (word.strip() for word in required):
        pytest.fail(f"TTLPROXY_REQUIRE has {name}: {reason}", pytrace=False)
    pytest.skip(reason)
