"""A Cluster of one master behind the proxy."""

from __future__ import annotations

from tests.cluster.databases import ANSWERS
from tests.conftest import StartProxy
from tests.support.cluster import Node
from tests.support.deadlines import BOUNDED
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from tests.support.servers import Proxy
from ttlproxy.core.keys import SLOTS, Keys


def test_elements_of_many_slots_are_reaped(node: Node, shared: Proxy) -> None:
    keys = [b"h:%d" % number for number in range(300)]
    app = Client(shared.port)
    assert app.ask("FLUSHALL") == b"OK"
    app.ask_many([("HSET", key, "b", "1") for key in keys])
    app.ask_many([("HSETEX", key, "PX", 200, "FIELDS", 1, "a", "1") for key in keys])
    wait_until(
        lambda: app.ask_many([("HLEN", key) for key in keys]) == [1] * len(keys), "all are gone"
    )
    assert node.ask("KEYS", "__ttl:{*") == []
    app.close()


def test_a_proxy_that_starts_knows_the_deadlines_of_all_slots(
    node: Node, start_proxy: StartProxy
) -> None:
    keys = [b"h:%d" % number for number in range(300)]
    first, second = (Client(start_proxy(node.url).port) for _ in range(2))
    assert first.ask("FLUSHALL") == b"OK"
    first.ask_many([("HSETEX", key, "EX", 1000, "FIELDS", 1, "a", "1") for key in keys])
    third = Client(start_proxy(node.url).port)
    for app in (first, second, third):
        left = app.ask_many([("HTTLFIELD", key, "a") for key in keys])
        assert all(900 < seconds <= 1000 for seconds in left)
    # A write on a managed key removes its deadline, whoever has set that.
    for app, key in zip((second, third), keys, strict=False):
        assert app.ask("HSET", key, "a", "2") == 0
        assert app.ask("HTTLFIELD", key, "a") == -1
        assert node.ask("ZCARD", b"__ttl:{%b}:" % key) == 0
    for app in (first, second, third):
        app.close()


def test_a_flush_costs_no_request_for_each_slot(node: Node, shared: Proxy) -> None:
    with Client(shared.port) as app:
        keys = [b"h:%d" % number for number in range(100)]
        app.ask_many([("HSETEX", key, *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v") for key in keys])
        before = calls(node.port, "zscan")
        assert app.ask("FLUSHALL") == b"OK"
        app.ask("HSETEX", "h", *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v")
        wait_until(lambda: b"managed_keys:1\r\n" in app.ask("INFO", "ttlproxy"), "all is read anew")
        assert calls(node.port, "zscan") - before < 200


def test_clients_see_no_internal_keys(node: Node, shared: Proxy) -> None:
    app = Client(shared.port)
    assert app.ask("FLUSHALL") == b"OK"
    keys = sorted(b"h:%d" % number for number in range(100))
    app.ask_many([("HSETEX", key, "EX", 100, "FIELDS", 1, "a", "1") for key in keys])
    app.ask("DEFER", "EX", 100, "RPUSH", "q", "x")
    assert sorted(app.ask("KEYS", "*")) == keys
    assert app.ask("DBSIZE") == len(keys)
    assert app.ask("SCAN", 0, "COUNT", 10_000)[0] == b"0"
    assert sorted(app.ask("SCAN", 0, "COUNT", 10_000)[1]) == keys
    app.close()


def test_what_a_cluster_does_not_have_is_refused_as_redis_does(node: Node, shared: Proxy) -> None:
    with Connection(shared.port) as app, Connection(node.port) as direct:
        app.ask("FLUSHALL")
        for request, said in ANSWERS:
            assert app.ask(*request.split()) == said.encode() + b"\r\n", request
        app.ask("FLUSHALL")
        if not node.binary.name.startswith("valkey"):  # that may have databases
            for request, said in ANSWERS:
                assert direct.ask(*request.split()) == said.encode() + b"\r\n", request
        assert app.ask("DEL", "a", "b") == direct.ask("DEL", "a", "b")
        app.ask("HSETEX", "a", "EX", 10_000, "FIELDS", 1, "f", "v")
        assert app.ask("DEL", "a", "b") == direct.ask("DEL", "a", "b")
        assert app.ask("HTTLFIELD", "a", "f") != b":-1\r\n"
        assert app.ask("ONEXPIRE", "a*", "RPUSH", "b").startswith(b"-CROSSSLOT 'b' is in another")


def test_a_rule_of_onwrite_holds_in_all_slots(
    node: Node, shared: Proxy, start_proxy: StartProxy
) -> None:
    with Client(shared.port) as app:
        assert app.ask("FLUSHALL") == b"OK"
        assert app.ask("ONWRITE", "k:*", "EX", 1000) == b"OK"
        assert app.ask("ONWRITE") == [[b"k:*", b"EX", b"1000"]]
        # The secret that the rule is signed with went with the flush: a proxy that starts before it
        # is there again makes another one.
        keys = Keys(clustered=True)
        state = keys.home(keys.state)
        wait_until(lambda: node.ask("HGET", state, "secret"), "the secret is there")
        with Client(start_proxy(node.url).port) as second:
            for part in "abc":
                assert app.ask("SADD", f"k:{part}", "a") == 1
                assert second.ask("HSET", f"k:{part}h", "f", "v") == 1
                assert app.ask("EVAL", "redis.call('SADD', KEYS[1], 'a')", 1, f"k:{part}e") is None
            for part in "abc":
                assert second.ask("STTLMEMBER", f"k:{part}", "a") > 900
                assert app.ask("HTTLFIELD", f"k:{part}h", "f") > 900
                swept = ("STTLMEMBER", f"k:{part}e", "a")
                wait_until(lambda swept=swept: app.ask(*swept) > 900, "it is swept")  # type: ignore[misc]
            assert second.ask("ONWRITE", "k:*", "DEL") == b"OK"
            assert app.ask("HSET", "k:a:h", "f", "v") == 1
            assert app.ask("HTTLFIELD", "k:a:h", "f") == -1
        assert app.ask("FLUSHALL") == b"OK"


def test_a_rule_holds_in_all_slots(node: Node, shared: Proxy) -> None:
    with Client(shared.port) as app:
        assert app.ask("FLUSHALL") == b"OK"
        rule = ("ONEXPIRE", "held:{*}", "RPUSH", "late:{%1}")
        assert app.ask_many([("MULTI",), rule, ("EXEC",)])[2] == [b"OK"]
        assert app.ask("ONEXPIRE") == [[word.encode() for word in rule[1:]]]
        for part in "abc":
            assert app.ask("SADDEX", f"held:{{{part}}}", "PX", 1, "MEMBERS", 1, part) == 1
        for part in "abc":
            ends = (f"late:{{{part}}}", f"taken:{{{part}}}", "LEFT", "LEFT")
            assert app.ask("BLMOVE", *ends, 30) == part.encode()
        assert app.ask("DBSIZE") == 3
        keys = Keys(clustered=True)
        known = node.client.ask_many(
            [("HGET", keys.shared_in(number, keys.rules), "version") for number in range(SLOTS)]
        )
        assert len({*known}) == 1
        assert app.ask("ONEXPIRE", "held:{*}", "DEL") == b"OK"
        assert app.ask("FLUSHALL") == b"OK"
