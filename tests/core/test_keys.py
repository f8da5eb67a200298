"""The names of internal keys: their slot, and that no two data keys have the same one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import StartServer, in_cluster_mode
from tests.support.raw_client import Connection
from ttlproxy.core.keys import Keys, slot, slots

NAMES = st.text("a{}:t_", max_size=8).map(str.encode) | st.binary(max_size=12)
ODD = [b"", b"a{b}c", b"{}x", b"a}b", b"}{", b"{a", b"{{a}}", b"{a}{b}", b"t:{a}", b"\xff\0\r\n"]
KEYS = Keys()


def test_redis_finds_an_index_in_the_slot_of_its_key(start_server: StartServer) -> None:
    server = in_cluster_mode(start_server)
    names = [*ODD, *(b"key:%d" % number for number in range(2000))]
    with Connection(server.port) as client:
        for name in names:
            announcement = KEYS.announcement_prefix + b"0:1:" + KEYS.index(name)[len(KEYS.prefix) :]
            slots = {
                client.ask("CLUSTER", "KEYSLOT", each)
                for each in (name, KEYS.index(name), announcement)
            }
            assert slots == {b":%d\r\n" % slot(name)}, name


@given(NAMES, NAMES)
def test_no_two_keys_share_an_index(one: bytes, other: bytes) -> None:
    assert (KEYS.index(one) == KEYS.index(other)) == (one == other)


@given(NAMES)
def test_every_index_stands_in_the_slot_of_its_key(name: bytes) -> None:
    assert slot(KEYS.index(name)) == slot(name)


@given(st.sampled_from([b"", b"{}", b"{", b"a}", b"{t}", b"{t}}"]), st.lists(NAMES, min_size=1))
def test_slots_of_many_keys_are_those_of_each(tag: bytes, names: list[bytes]) -> None:
    keys = [tag + name for name in names]
    assert slots(keys) == [slot(key) for key in keys]


@given(NAMES, st.integers(0, 15), st.integers(0, 2**46))
def test_an_announcement_says_what_was_put_in(name: bytes, db: int, deadline_ms: int) -> None:
    suffix = KEYS.index(name)[len(KEYS.prefix) :]
    announcement = b"%b%d:%d:%b" % (KEYS.announcement_prefix, db, deadline_ms, suffix)
    assert KEYS.announced(announcement) == (db, deadline_ms, name)


@pytest.mark.parametrize("name", [b"", b"__ttl:schedule", b"__ttl:!x:1:t:k", b"__ttl:!0:1"])
def test_other_keys_announce_nothing(name: bytes) -> None:
    assert KEYS.announced(name) is None


def test_an_announced_swap_is_told_from_everything_else() -> None:
    assert KEYS.swapped(b"__ttl:!swap:0:12") == (0, 12)
    assert KEYS.announced(b"__ttl:!swap:0:12") is None
    for name in (b"__ttl:!swap:0", b"__ttl:!swap:0:x", b"__ttl:!0:12:{x}:k", b"swap:0:1"):
        assert KEYS.swapped(name) is None, name


def test_an_announcement_of_rules_says_where_and_whether_they_count() -> None:
    assert KEYS.ruled(b"__ttl:!rules:12:1") == (12, True, b"")
    assert KEYS.ruled(b"__ttl:!rules:0:0") == (0, False, b"")
    for name in (b"__ttl:!rules:x:1", b"__ttl:!0:1:k", b"rules:0:1", b"__ttl:!swap:0:1"):
        assert KEYS.ruled(name) is None, name


def test_an_announcement_of_a_version_is_told_from_everything_else() -> None:
    assert KEYS.rules_version(b"__ttl:!version:{x1F}123") == b"123"
    assert KEYS.rules_version(b"__ttl:!version:{x1F}") == b""
    assert KEYS.announced(b"__ttl:!version:{x1F}123") is None
    for name in (b"__ttl:!rules:0:1", b"version:{x1F}123", b"__ttl:version"):
        assert KEYS.rules_version(name) is None, name
