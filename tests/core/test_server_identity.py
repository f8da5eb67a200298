"""INFO's reply as the proxy reads it."""

from __future__ import annotations

import pytest

from ttlproxy.link.connecting.known_server import Identity, cached_scripts, fields

INFO = (
    b"# Server\r\nredis_version:7.0.15\r\nrun_id:a\r\nos:Linux 6.1 x86_64: \xff\r\n\r\n"
    b"# Replication\r\nrole:slave\r\ntracking_clients:3\r\n"
    b"# Keyspace\r\ndb0:keys=1,expires=0\r\ndb12:keys=2,expires=0\r\ndbx:1\r\nxx1:1\r\n"
)


def test_each_line_with_a_colon_is_a_field_and_the_value_may_have_more() -> None:
    found = fields(INFO)
    assert found["redis_version"] == "7.0.15"
    assert found["os"] == "Linux 6.1 x86_64: \ufffd"
    assert "# Server" not in found


def test_the_server_its_role_who_tracks_keys_and_the_databases_with_keys() -> None:
    assert Identity.of(fields(INFO)) == Identity("a", False, 3, [0, 12])


def test_a_server_that_tells_nothing_counts_as_a_master_that_others_use() -> None:
    found = Identity.of(fields(b""))
    assert (found.run_id, found.is_master, found.databases) == ("", True, [])
    assert found.trackers > 1


@pytest.mark.parametrize(
    ("said", "count"), [(b"number_of_cached_scripts:7\r\n", 7), (b"used_memory:9\r\n", 0)]
)
def test_the_number_of_scripts_that_the_server_knows_is_read(said: bytes, count: int) -> None:
    assert cached_scripts(said) == count
