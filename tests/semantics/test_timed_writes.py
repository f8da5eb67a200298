"""HSETEX and SADDEX write and set the deadline in one step: long and short form, no MAXLEN."""

from __future__ import annotations

import pytest

from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import noted_ms
from ttlproxy.core.keys import Keys

in_redis_8s_words = pytest.mark.usefixtures("redis_8s_words")


# --- SADDEX


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("HSETEX k MAXLEN 2 EX 100 FIELDS 1 a 1", "HSETEX k EX 2000 FIELDS 1 b 1"),
        ("SADDEX k 100 a", "SADDEX k 2000 b"),
        ("ZADDEX k 100 1 a", "ZADDEX k 2000 2 b"),
        ("RPUSHEX k 100 a", "RPUSHEX k 2000 b"),
    ],
)
@pytest.mark.parametrize(("then", "left_ms"), [("PERSIST k", 0), ("EXPIRE k 5000", 2_000_000)])
def test_deadlines_last_as_long_as_a_key_whose_expiry_somebody_else_has_changed(
    app: Connection, direct: Client, first: str, second: str, then: str, left_ms: int
) -> None:
    """With the old expiry the deadlines would vanish, and their elements would stay for good."""
    app.ask(*first.split())
    assert app.ask("EXPIRE", "k", 1000) == b":1\r\n"
    assert noted_ms(direct, b"k")
    assert direct.ask(*then.split()) == 1
    assert not app.ask(*second.split()).startswith(b"-")
    ends_ms = noted_ms(direct, b"k")
    assert ends_ms and ends_ms > direct.now_ms() + left_ms if left_ms else ends_ms is None
    assert direct.ask("PTTL", Keys().index(b"k")) == -1
