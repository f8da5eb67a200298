"""The conversion of what version 0.1 left: when it is due, and that nothing of it is left over."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ResponseError

from tests.link.conftest import FAR_MS, KEYS, Become, set_rule
from tests.support.containers import AnyServer
from tests.support.redis_client import Client
from tests.support.version_01 import leave_count, leave_deferred, leave_kept, leave_rule
from ttlproxy.core.expiry_actions import verified
from ttlproxy.link import Context
from ttlproxy.link.server import migration as module
from ttlproxy.link.server.migration import Migration

MANY = 60
OLD = ("__ttl:deferring", "__ttl:serial", "__ttl:keeping", "__ttl:counts")


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAGE", 10)


@pytest.fixture
def migration(context: Context, redis: Redis) -> Migration:
    return Migration(context.script_calls, redis)


async def test_it_is_due_where_version_01_has_left_anything(
    migration: Migration, server: AnyServer, direct: Client
) -> None:
    direct.ask("SET", "__ttl:layout", 2)
    assert not await migration.is_due([])
    assert not await migration.is_due([0, 3])
    with closing(Client(server.port, 3)) as other:
        for name in OLD:
            other.ask("SET", name, 1)
            assert await migration.is_due([0, 3])
            assert not await migration.is_due([0])
            other.ask("DEL", name)
    direct.ask("SET", "__ttl:layout", 1)
    assert await migration.is_due([])


async def test_all_of_all_databases_is_converted(
    migration: Migration,
    context: Context,
    server: AnyServer,
    direct: Client,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    with closing(Client(server.port, 3)) as other:
        for db in (direct, other):
            for pattern in ("s:*", "t"):
                leave_rule(db, pattern, b"RPUSH - 0", b"late")
            for number in range(MANY):
                leave_deferred(db, b"q%d" % number, "x", FAR_MS, "DEL", f"q{number}")
                leave_kept(db, b"kept%d" % number, "element", "value", 1)
                leave_count(db, b"busy", b"job%d" % number, 2)
            for number in range(600):
                leave_deferred(db, b"q", f"{number:016}", FAR_MS, "LPUSH", "q", f"{number}")
            db.ask("SET", "__ttl:serial", 7)
        await migration.convert([0, 3])
        for db in (direct, other):
            assert db.ask("EXISTS", *OLD) == 0
            for name in (b"s:*", b"t"):
                signed = db.ask("GET", KEYS.rule(name))
                assert verified(signed, name, context.script_calls.signer)
                assert db.ask("HGET", KEYS.rules, b":" + name) == b""
            assert db.ask("ZCARD", KEYS.counts(b"busy")) == MANY
            noted = set(db.ask("SMEMBERS", KEYS.others))
            assert {KEYS.kept(b"kept%d" % number) for number in range(MANY)} <= noted
            later = [KEYS.deferred(key) for key in (b"q", b"q0", b"q%d" % (MANY - 1))]
            assert {*later, KEYS.counts(b"busy"), *map(KEYS.rule, (b"s:*", b"t"))} <= noted
            for name in later:
                assert all(_is_signed(db, name, field) for field in db.ask("HKEYS", name))
    text = f"migrated 2 rules, and the deferred commands of {MANY + 1} keys, from version 0.1"
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"database {db}: {text}" for db in (0, 3)]


def _is_signed(db: Client, name: bytes, field: bytes) -> bool:
    """Whether the entry has a signature before its words, of 16 bytes at least."""
    script = "return #(cmsgpack.unpack(redis.call('HGET', KEYS[1], ARGV[1])))"
    return bool(db.ask("EVAL", script, 1, name, field) >= 16)


async def test_what_is_converted_already_stays_as_it_is(
    migration: Migration, direct: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    leave_rule(direct, "s:*", b"RPUSH - 0", b"late")
    await migration.convert([0])
    before = direct.ask("GET", KEYS.rule(b"s:*"))
    caplog.clear()
    await migration.convert([0])
    assert direct.ask("GET", KEYS.rule(b"s:*")) == before
    assert not caplog.records


async def test_a_rule_that_is_set_anew_meanwhile_stays(
    migration: Migration,
    context: Context,
    direct: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A client sets it after the migration has read the old rules, and before it writes any."""
    caplog.set_level("INFO")
    leave_rule(direct, "s:*", b"RPUSH - 0", b"late")
    asked = migration._ask

    async def ask_then_set(db: int, *words: bytes | int) -> Any:
        reply = await asked(db, *words)
        if words[0] == b"HGETALL":
            set_rule(direct, context.script_calls.signer, "s:*", "DEL - 0")
        return reply

    monkeypatch.setattr(migration, "_ask", ask_then_set)
    await migration.convert([0])
    assert b"DEL - 0" in direct.ask("GET", KEYS.rule(b"s:*"))
    assert not caplog.records, "none was migrated"


async def test_a_deferred_command_that_version_01_cannot_have_written_is_not_signed(
    migration: Migration, direct: Client
) -> None:
    later = KEYS.deferred(b"q")
    leave_deferred(direct, b"q", "old", FAR_MS, "DEL", "q")
    forged = "return redis.call('HSET', KEYS[1], 'forged', cmsgpack.pack('forged', {'DEL', 'q'}))"
    direct.ask("EVAL", forged, 1, later)
    direct.ask("HSET", later, "junk", "junk", "none", "")
    before = direct.ask("HMGET", later, "forged", "junk", "none")
    await migration.convert([0])
    assert direct.ask("HMGET", later, "forged", "junk", "none") == before
    assert _is_signed(direct, later, b"old")


async def test_what_is_no_list_of_rules_has_none(migration: Migration, direct: Client) -> None:
    direct.ask("SET", KEYS.rules, "junk")
    direct.ask("SET", "__ttl:serial", 7)
    await migration.convert([0])
    assert direct.ask("EXISTS", *OLD) == 0


async def test_what_are_no_counts_is_dropped(migration: Migration, direct: Client) -> None:
    direct.ask("SET", "__ttl:counts", "junk")
    await migration.convert([0])
    assert direct.ask("EXISTS", *OLD) == 0
    leave_count(direct, b"busy", b"job", 2)
    direct.ask("ZADD", "__ttl:counts", 1, "no key", 1, "")
    await migration.convert([0])
    assert direct.ask("EXISTS", *OLD) == 0
    assert direct.ask("ZRANGE", KEYS.counts(b"busy"), 0, -1) == [b"job"]


async def test_what_redis_refuses_is_told(
    migration: Migration, direct: Client, become: Become
) -> None:
    leave_rule(direct, "s:*", b"RPUSH - 0", b"late")
    await become("-hgetall")
    with pytest.raises(NoPermissionError):
        await migration.convert([0])
    await become("+hgetall -set")
    with pytest.raises(ResponseError, match="can't run this command"):
        await migration.convert([0])
