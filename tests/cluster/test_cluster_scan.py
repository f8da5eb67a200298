"""CLUSTERSCAN of Valkey 9.1 through the proxy: all keys of a Cluster, but for the proxy's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.processes import wait_until
from tests.support.redis_client import Client

KEYS = {b"k:%d" % number for number in range(50)}


@pytest.fixture
def app(valkey_port: int) -> Iterator[Client]:
    with Client(valkey_port) as client:
        if "unknown command" in str(client.ask("CLUSTERSCAN", "{tag}")):
            pytest.skip("the server has no CLUSTERSCAN")
        yield client


def _scanned(app: Client, *options: str | int) -> list[bytes]:
    cursor, names = app.ask("CLUSTERSCAN", "0", *options)
    while cursor != b"0":
        cursor, page = app.ask("CLUSTERSCAN", cursor, *options)
        names += page
    return list(names)


def test_all_keys_are_found_and_none_of_the_proxys(app: Client) -> None:
    app.ask_many([("HSETEX", key, "EX", 1000, "FIELDS", 1, "f", "v") for key in KEYS])
    app.ask("DEFER", "EX", 1000, "RPUSH", "q", "x")
    assert sorted(_scanned(app, "COUNT", 1000)) == sorted(KEYS)
    assert sorted(_scanned(app, "MATCH", "k:1*")) == sorted(
        key for key in KEYS if key.startswith(b"k:1")
    )
    assert "syntax error" in str(app.ask("CLUSTERSCAN", "0", "x"))


def test_a_key_whose_elements_have_expired_is_not_found(app: Client) -> None:
    app.ask_many([("SADD", key, "a") for key in KEYS])
    assert app.ask_many([("SPEXPIREMEMBER", key, "a", 1) for key in KEYS]) == [1] * 50
    app.ask("SADD", "other", "a")
    begun_ms = app.now_ms()
    wait_until(lambda: app.now_ms() > begun_ms + 1, "it is due")
    assert _scanned(app) == [b"other"]
