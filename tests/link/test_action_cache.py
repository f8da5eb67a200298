"""The rules of ONEXPIRE as a proxy has read them: which it believes, and for how long."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.link.conftest import KEYS, Become, set_rule
from tests.support.redis_client import Client
from ttlproxy.core import write_rules
from ttlproxy.core.counters import Counters, NodeCounts
from ttlproxy.core.expiry_actions import VERSION
from ttlproxy.core.keys import Keys
from ttlproxy.core.signing import Signer
from ttlproxy.link.connecting.failures import Refusals
from ttlproxy.link.shared.action_cache import ActionCache

SIGNER = Signer(b"x" * 64)


class Rules(ActionCache):
    """The cache; told: (whether there may be rules, whether one counts), as last told."""

    def __init__(self, counters: Counters) -> None:
        super().__init__(KEYS, SIGNER, Refusals(counters, NodeCounts()))
        self.told: list[tuple[bool, bool]] = []
        self.add_observer(lambda *told: self.told.append(told))
        self.told.clear()

    def dest(self, key: str, db: int = 0) -> bytes | None:
        action = self.of(db).of(key.encode())
        return action.dest if action else None


@pytest.fixture
def rules(counters: Counters) -> Rules:
    return Rules(counters)


async def test_rules_are_read_once_until_they_change(
    rules: Rules, redis: Redis, direct: Client
) -> None:
    set_rule(direct, SIGNER, "s", "RPUSH - 0", "late")
    assert rules.dest("s") is None
    assert rules.version(0) == b""
    await rules.read(redis, 0)
    assert rules.dest("s") == b"late"
    assert rules.version(0) == direct.ask("HGET", KEYS.rules, "version")
    assert rules.told == [(True, False)]
    set_rule(direct, SIGNER, "s", "RPUSH - 0", "other")
    await rules.read(redis, 0)
    assert rules.dest("s") == b"late", "nobody has told of the change"
    rules.refused(0)
    assert rules.unread == [0]
    await rules.read(redis, 0)
    assert rules.dest("s") == b"other"
    assert rules.unread == []


async def test_databases_have_rules_of_their_own(
    rules: Rules, redis: Redis, direct: Client
) -> None:
    set_rule(direct, SIGNER, "s", "RPUSH - 3", "late")
    await rules.read(redis, 3)
    assert rules.dest("s", 3) is None
    assert not rules.has_action(b"s")
    assert rules.told == [(False, False)]
    await rules.read(redis, 0)
    assert rules.told[-1] == (True, True)
    assert rules.has_action(b"s")
    assert not rules.has_action(b"other")
    rules.changed(3, False, b"p")
    assert rules.told[-1] == (True, True), "those of the first count still"
    assert rules.has_action(b"other") is None, "whatever has changed is not known yet"
    assert rules.set_anew == {3: 1}
    await rules.read(redis, 3)
    rules.forget(0)
    rules.changed(3, False, b"p")
    await rules.read(redis, 3)
    assert rules.told[-1] == (True, False), "nothing more while the first are not read again"
    assert rules.unread == [0]
    direct.ask("FLUSHDB")
    await rules.read(redis, 0)
    assert rules.told[-1] == (False, False)


async def test_a_change_of_a_rule_that_counts_is_told_at_once(rules: Rules) -> None:
    rules.changed(0, True, b"s")
    assert rules.told == [(True, True)]
    rules.changed(0, False, b"s")
    assert rules.told[-1] == (True, False)


async def test_a_known_rule_ends_with_its_own_key_only(
    rules: Rules, redis: Redis, direct: Client
) -> None:
    async def read_again() -> bytes | None:
        rules.forget(0)
        await rules.read(redis, 0)
        return rules.dest("s")

    set_rule(direct, SIGNER, "s", "RPUSH - 0", "late")
    await rules.read(redis, 0)
    direct.ask("DEL", KEYS.rules)
    assert await read_again() == b"late"
    direct.ask("DEL", KEYS.rule(b"s"))
    assert await read_again() is None
    set_rule(direct, SIGNER, "s", "RPUSH - 0", "late")
    direct.ask("DEL", KEYS.rules)
    assert await read_again() is None, "it is not in the list, and was not known"
    rules.named(0, [b"s"])
    assert await read_again() == b"late"


async def test_rules_that_are_told_of_are_known_without_the_list(
    rules: Rules, redis: Redis, direct: Client
) -> None:
    set_rule(direct, SIGNER, "s", "RPUSH - 0", "late")
    direct.ask("SET", KEYS.rules, "no list")
    rules.changed(0, False, b"s")
    await rules.read(redis, 0)
    assert rules.dest("s") == b"late"


async def test_databases_that_were_swapped_are_asked_for_the_rules_of_both(
    rules: Rules, redis: Redis, direct: Client
) -> None:
    set_rule(direct, SIGNER, "s", "RPUSH - 0", "late")
    await rules.read(redis, 0)
    await rules.read(redis, 5)
    direct.ask("DEL", KEYS.rules)
    direct.ask("SWAPDB", 0, 5)
    rules.forget(0, 5)
    await rules.read(redis, 0)
    await rules.read(redis, 5)
    assert (rules.dest("s", 0), rules.dest("s", 5)) == (None, b"late")


async def test_more_rules_than_one_request_asks_for(
    rules: Rules, redis: Redis, direct: Client
) -> None:
    count = 1001
    for number in range(count):
        set_rule(direct, SIGNER, f"s{number}", "RPUSH - 0", f"late{number}")
    await rules.read(redis, 0)
    found = [rules.dest(f"s{number}") for number in range(count)]
    assert found == [b"late%d" % number for number in range(count)]


async def test_a_rule_that_no_proxy_has_signed_is_none(
    rules: Rules, redis: Redis, direct: Client, counters: Counters
) -> None:
    set_rule(direct, SIGNER, "s", "RPUSH - 0", "late")
    await rules.read(redis, 0)
    assert counters.unsigned == {}
    set_rule(direct, Signer(b"y" * 64), "forged", "RPUSH - 0", "late")
    rules.forget(0)
    await rules.read(redis, 0)
    assert rules.dest("s") == b"late"
    assert rules.dest("forged") is None
    assert counters.unsigned == {"rule": 1}


async def test_rules_that_redis_refuses_stay_unread(
    rules: Rules, redis: Redis, become: Become
) -> None:
    rules.forget(0)
    await become("-hgetall")
    with pytest.raises(ResponseError):
        await rules.read(redis, 0)
    assert rules.unread == [0]


async def test_after_three_refusals_in_a_row_any_version_does_once(rules: Rules) -> None:
    for _ in range(3):
        assert rules.version(0) == b""
        rules.refused(0)
    assert rules.version(0) == b"*"
    assert rules.version(1) == b""
    rules.accepted(0)
    assert rules.version(0) == b""


class Changing(Rules):
    """Rules that change `changes` times while they are read; all of them, if `flushes`."""

    changes = 0
    reads = 0
    flushes = False

    async def _listed(self, redis: Redis, db: int) -> tuple[bytes, set[bytes]]:
        self.reads += 1
        if self.reads <= self.changes:
            if self.flushes:
                self.forget_all()
            else:
                self.forget(db)
        return await super()._listed(redis, db)


@pytest.mark.parametrize("flushes", [False, True])
@pytest.mark.parametrize(("changes", "reads"), [(0, 1), (1, 2), (2, 3), (9, 3)])
async def test_rules_that_change_while_they_are_read_are_read_again_but_not_for_ever(
    counters: Counters, redis: Redis, direct: Client, changes: int, reads: int, flushes: bool
) -> None:
    set_rule(direct, SIGNER, "s", "RPUSH - 0", "late")
    rules = Changing(counters)
    rules.changes, rules.flushes = changes, flushes
    await rules.read(redis, 0)
    assert rules.reads == reads
    assert rules.dest("s") == b"late"


async def test_rules_of_onwrite_that_change_whenever_they_are_read_stay_in_doubt(
    counters: Counters, redis: Redis, direct: Client
) -> None:
    """Nothing refuses a write by an old rule, as scripts refuse old rules of ONEXPIRE."""
    name = write_rules.name_of(b"s")
    set_rule(direct, SIGNER, name.decode(), "ONWRITE - 0", "100000 0 0 0 0")
    rules = Changing(counters)
    rules.changes = 9
    for in_doubt in ({0}, {0}, {0}, set()):  # three reads at a time
        await rules.read(redis, 0)
        assert rules.rules.in_doubt == in_doubt
        assert rules.unread == sorted(in_doubt)
    assert rules.rules.how((0,), b"s", b"set", False) == b"0+100000"


async def test_all_are_forgotten(rules: Rules, redis: Redis) -> None:
    await rules.read(redis, 0)
    await rules.read(redis, 3)
    rules.forget_all()
    assert rules.unread == [0, 3]


async def test_two_masters_that_refuse_at_once_know_a_version_that_was_lost(
    redis: Redis, direct: Client, counters: Counters
) -> None:
    """The second refusal comes when the rules are no longer known."""
    keys = Keys(clustered=True)
    cache = ActionCache(keys, SIGNER, Refusals(counters, NodeCounts()))
    direct.ask("HSET", keys.home(keys.rules), VERSION, 5)
    await cache.read(redis, 0)
    assert cache.version(0) == b"+5"
    cache.refused(0)
    cache.refused(0)
    await cache.read(redis, 0)
    assert cache.version(0) == b"*"


async def test_rules_of_a_cluster_are_in_doubt_if_slots_know_a_newer_version(
    redis: Redis, direct: Client, counters: Counters
) -> None:
    keys = Keys(clustered=True)
    cache = ActionCache(keys, SIGNER, Refusals(counters, NodeCounts()))
    direct.ask("HSET", keys.home(keys.rules), VERSION, 5)
    await cache.read(redis, 0)
    for version in (b"4", b"5"):
        cache.version_announced(version)
    cache.home_has(b"5")
    assert cache.knows(0)
    for version in (b"6", b"10", b""):
        cache.version_announced(version)
        assert cache.rules.in_doubt == {0}
        await cache.read(redis, 0)
        assert not cache.rules.in_doubt
    cache.home_has(b"4")
    assert not cache.knows(0)
