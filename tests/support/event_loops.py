"""The two event loops the proxy runs on."""

import pytest

LOOPS = ("uvloop", "asyncio")

both_loops = pytest.mark.parametrize(
    "loop_name",
    ["uvloop", pytest.param("asyncio", marks=pytest.mark.slow)],
    indirect=True,
    scope="session",
)
