"""Whether a server is fit, as its own replies say."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.link.conftest import Become
from tests.support.redis_client import Client
from ttlproxy import __version__
from ttlproxy.errors import UnfitUpstream
from ttlproxy.link import LAYOUT
from ttlproxy.link.connecting.pipeline import Words, run
from ttlproxy.link.server import compatibility


async def _asked(redis: Redis, questions: Sequence[Words]) -> list[object]:
    return await run(redis, [(0, words) for words in questions])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"redis_mode": "sentinel", "redis_version": "7.0.15"}, "it is a Sentinel"),
        ({"redis_version": "6.0.20"}, "Redis 6.0.20 is too old"),
        ({"redis_version": "5.2"}, "too old"),
        ({}, r"Redis \? is too old"),
    ],
)
def test_a_server_that_is_not_fit_is_refused_with_the_reason(
    said: dict[str, str], why: str
) -> None:
    with pytest.raises(UnfitUpstream, match=why):
        compatibility.check_server(said)


@pytest.mark.parametrize("release", ["6.2", "6.2.14", "6.10.0", "7.0.15", "8.8.0", "10.0.0"])
def test_any_redis_from_6_2_on_is_fit(release: str) -> None:
    said = {"redis_mode": "standalone", "redis_version": release, "cluster_enabled": "0"}
    compatibility.check_server(said)


@pytest.mark.parametrize("layout", [None, b"", b"%d" % LAYOUT])
def test_our_layout_and_none_are_fit(layout: bytes | None) -> None:
    compatibility.check_layout(b"__ttl:", layout, b"9.9.9")


@pytest.mark.parametrize("layout", [b"%d" % (LAYOUT - 1), b"%d" % (LAYOUT + 1), b"10", b"junk"])
def test_each_other_layout_is_refused_with_the_version_that_has_written_it(layout: bytes) -> None:
    said = f"have layout {layout.decode()}, of ttlproxy 9.9.9, but this is ttlproxy {__version__}"
    with pytest.raises(UnfitUpstream, match=said):
        compatibility.check_layout(b"__ttl:", layout, b"9.9.9")


def test_an_odd_version_can_be_read() -> None:
    with pytest.raises(UnfitUpstream, match=r"of ttlproxy \\xff\\x00,"):
        compatibility.check_layout(b"__ttl:", b"%d" % (LAYOUT + 1), b"\xff\0")


def test_some_traits_depend_on_the_version() -> None:
    for version, pauses, subkeys in (("6.2.14", True, False), ("7.0.0", False, False)):
        said = {"redis_version": version}
        assert compatibility.pauses_script(said) == pauses
        assert compatibility.has_subkey_events(said) == subkeys
    assert not compatibility.has_subkey_events({"redis_version": "8.7.9"})
    assert compatibility.has_subkey_events({"redis_version": "8.8.0"})
    assert compatibility.forms({"server_name": "valkey"})
    assert not compatibility.forms({})


def test_a_greeting_that_is_missing_is_named() -> None:
    with pytest.raises(UnfitUpstream, match="Redis lacks CLIENT, which ttlproxy needs"):
        compatibility.check_greeting(ResponseError("ERR unknown command `CLIENT`, with args"))
    compatibility.check_greeting(ResponseError("NOPERM this user has no permissions"))


async def test_a_server_with_all_commands_is_fit_and_runs_scripts_by_their_digests(
    redis: Redis,
) -> None:
    await compatibility.check_commands(redis)
    assert not compatibility.wants_text(await _asked(redis, compatibility.TRIALS))


async def test_a_user_who_may_not_ask_for_commands_is_not_told_of_any(
    redis: Redis, become: Become
) -> None:
    await become("-command -eval -evalsha")
    await compatibility.check_commands(redis)
    assert not compatibility.wants_text(await _asked(redis, compatibility.TRIALS)), (
        "a missing right is no missing command"
    )


async def test_settings_that_break_a_promise_are_logged(
    redis: Redis, direct: Client, become: Become, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="ttlproxy")
    compatibility.warn(await _asked(redis, compatibility.SETTINGS))
    assert not caplog.records
    for policy in ("allkeys-lru", "volatile-ttl"):
        direct.ask("CONFIG", "SET", "maxmemory-policy", policy)
        try:
            compatibility.warn(await _asked(redis, compatibility.SETTINGS))
        finally:
            direct.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        (record,) = caplog.records
        assert f"maxmemory-policy {policy}: it may evict the deadlines" in record.getMessage()
        caplog.clear()
    await become("-config")
    compatibility.warn(await _asked(redis, compatibility.SETTINGS))
    assert not caplog.records
