"""How many clients there may be, and what becomes of one too many."""

from __future__ import annotations

import pytest

from tests.proxy.conftest import Run, let_pass
from ttlproxy.proxy.client_limit import ClientLimit


def test_too_many_clients_are_logged_once_a_minute(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        limit = ClientLimit(2)
        assert not limit.reached(1)
        assert not caplog.messages
        assert all(limit.reached(clients) for clients in (2, 3, 2))
        assert caplog.messages == ["clients are refused: max_clients (2) are connected"]
        await let_pass(50)
        assert limit.reached(2)
        assert len(caplog.messages) == 1
        await let_pass(20)
        assert limit.reached(2)
        assert len(caplog.messages) == 2

    run(main)
