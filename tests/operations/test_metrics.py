"""/metrics reports what has happened, as the metrics catalogue says, and nothing about clients."""

from __future__ import annotations

import math
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import (
    FLAGS,
    Pages,
    becomes,
    families,
    metric,
    metric_if_there,
    pages,
)
from tests.support.deadlines import BOUNDED
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_content import LEASE
from tests.support.server_queries import calls
from tests.support.servers import Proxy, Server
from ttlproxy.core.keys import Keys
from ttlproxy.link.reaper.walks import SAMPLE
from ttlproxy.scripts import Scripts
from ttlproxy.telemetry.metric_spec import BY_CERTIFICATE, BY_NODE, BY_SCRIPT, BY_WORKER
from ttlproxy.telemetry.metrics_catalogue import METRICS

pytestmark = pytest.mark.any_server

KEYS = Keys()

_NAME = re.compile(r"ttlproxy(_[a-z]+)+_total|ttlproxy(_[a-z]+)+")
_OWN = ("process_", "python_", "ttlproxy_")


# Labels whose values are not known before.
_OPEN = (BY_NODE, BY_SCRIPT, BY_WORKER)
# These have no series here.
_NONE_YET = {
    *(each.name for each in METRICS if each.label == BY_CERTIFICATE),
    "ttlproxy_node_next_deferred_seconds",
    "ttlproxy_node_oldest_kept_seconds",
}


@pytest.fixture
def redis_server(start_server: StartServer) -> Server:
    return start_server()


@pytest.fixture
def watched(redis_server: Server, start_proxy: StartProxy) -> Proxy:
    return start_proxy(redis_server.url, *FLAGS)


@pytest.fixture
def admin(watched: Proxy) -> Pages:
    return pages(watched)


@pytest.fixture
def talker(watched: Proxy) -> Iterator[Connection]:
    with Connection(watched.port) as connection:
        yield connection


def test_names_are_as_the_style_has_them() -> None:
    for each in METRICS:
        assert _NAME.fullmatch(each.name)
        assert each.name.endswith("_total") == (each.kind == "counter")
        assert bool(each.label) == (bool(each.values) or each.label in _OPEN)


def test_every_metric_is_shown_and_no_other(admin: Pages, redis_server: Server) -> None:
    node = f"127.0.0.1:{redis_server.port}"
    what_waits = "ttlproxy_node_deferred_commands"
    wait_until(lambda: bool(families(admin)[what_waits].samples), "what waits is counted")
    shown = families(admin)
    here = {BY_NODE: [node], BY_WORKER: ["1"]}
    for each in METRICS:
        family = shown[each.name.removesuffix("_total")]
        samples = {sample.name for sample in family.samples}
        assert family.documentation == each.meaning
        if each.name in _NONE_YET or (each.label == BY_SCRIPT and not samples):
            assert not samples  # there are none here, or none yet
            continue
        assert samples - {f"{each.name.removesuffix('_total')}_created"} == set(each.series)
        if each.label:
            found = list(dict.fromkeys(sample.labels[each.label] for sample in family.samples))
            if each.label == BY_SCRIPT:
                assert {*found} <= Scripts(b"").keys()
            else:
                assert found == here.get(each.label, list(each.values))
    ours = {each.name.removesuffix("_total") for each in METRICS}
    assert {name for name in shown if name.startswith("ttlproxy_")} == ours
    assert all(name.startswith(_OWN) for name in shown)
    assert shown["process_resident_memory_bytes"].samples[0].value > 0


def test_connections_are_counted_with_the_reason_of_their_end(
    watched: Proxy, admin: Pages, redis_server: Server
) -> None:
    with Connection(watched.port) as one, Connection(watched.port) as other:
        for each in (one, other):
            assert each.ask("PING") == b"+PONG\r\n"
        becomes(admin, 2, "ttlproxy_connections")
        one.close()
        becomes(admin, 1, "ttlproxy_connections_closed_total", reason="client")
        with Connection(watched.port) as quits:
            assert quits.ask("QUIT") == b"+OK\r\n"
            assert quits.read_to_end() == b""
        becomes(admin, 2, "ttlproxy_connections_closed_total", reason="client")
        redis_server.kill()
        assert other.read_to_end() == b""
    becomes(admin, 1, "ttlproxy_connections_closed_total", reason="redis")
    with Connection(watched.port) as refused:
        assert b"no connection to Redis" in refused.read_to_end()
    becomes(admin, 1, "ttlproxy_connections_refused_total")
    becomes(admin, 1, "ttlproxy_connections_closed_total", reason="refused")
    becomes(admin, 0, "ttlproxy_connections")  # the proxy may see later that `refused` has gone
    assert metric(admin, "ttlproxy_connections_accepted_total") == 4


def test_the_link_is_up_while_redis_is_there(admin: Pages, redis_server: Server) -> None:
    assert metric(admin, "ttlproxy_link_up") == 1
    redis_server.kill()
    becomes(admin, 0, "ttlproxy_link_up")
    redis_server.restart()
    becomes(admin, 1, "ttlproxy_link_up")


def test_connections_to_redis_are_counted_those_that_fail_by_reason(
    watched: Proxy, admin: Pages, redis_server: Server
) -> None:
    opened, failed = (f"ttlproxy_upstream_connections_{how}_total" for how in ("opened", "failed"))
    before = metric(admin, opened)
    with Connection(watched.port) as client:
        assert client.ask("PING") == b"+PONG\r\n"
        assert metric(admin, opened) > before
    redis_server.kill()
    wait_until(lambda: metric(admin, failed, reason="refused") > 0, "a refused connection")
    before = metric(admin, opened)
    assert [metric(admin, failed, reason=why) for why in ("tls", "dns", "other")] == [0, 0, 0]
    redis_server.restart()
    wait_until(lambda: metric(admin, opened) > before, "a connection of the link's own")


def test_what_is_reaped_is_counted_by_type_and_by_how_late_it_was(
    admin: Pages, talker: Connection
) -> None:
    talker.ask("HSET", "hash", "f", "v", "g", "v")
    talker.ask("SADD", "set", "m")
    talker.ask("HPEXPIREFIELD", "hash", 1, "FIELDS", 2, "f", "g")
    talker.ask("SPEXPIREMEMBER", "set", "m", 1)
    becomes(admin, 2, "ttlproxy_reaped_elements_total", type="hash")
    becomes(admin, 1, "ttlproxy_reaped_elements_total", type="set")
    assert metric(admin, "ttlproxy_reap_lag_seconds_count") == 3
    assert 0 < metric(admin, "ttlproxy_reap_lag_seconds_sum") < 3 * 60
    assert metric(admin, "ttlproxy_reap_call_seconds_count") > 0


def test_what_nobody_reaps_is_overdue(
    admin: Pages, talker: Connection, redis_server: Server
) -> None:
    with Connection(redis_server.port) as direct:
        direct.ask("SET", LEASE, "a test", "PX", 60_000)
        for key in ("a", "b"):
            talker.ask("HSET", key, "f", "v")
            talker.ask("HPEXPIREFIELD", key, "f", 1)
        becomes(admin, 2, "ttlproxy_overdue_keys")
        assert metric(admin, "ttlproxy_oldest_overdue_seconds") > 0
        assert metric(admin, "ttlproxy_managed_keys") == 2
        direct.ask("DEL", LEASE)
    becomes(admin, 0, "ttlproxy_overdue_keys")
    assert metric(admin, "ttlproxy_oldest_overdue_seconds") == 0


def test_what_another_proxy_has_reaped_is_not_overdue(
    admin: Pages, talker: Connection, redis_server: Server, start_proxy: StartProxy
) -> None:
    both = (admin, pages(start_proxy(redis_server.url, *FLAGS)))
    with Connection(redis_server.port) as direct:
        direct.ask("SET", LEASE, "a test", "PX", 60_000)
        talker.ask("HSET", "h", "f", "v", "g", "v")
        talker.ask("HPEXPIREFIELD", "h", "f", 1)
        for each in both:
            becomes(each, 1, "ttlproxy_overdue_keys")
        direct.ask("DEL", LEASE)
    for each in both:
        becomes(each, 0, "ttlproxy_overdue_keys")
    reaped = [metric(each, "ttlproxy_reaped_elements_total", type="hash") for each in both]
    assert sum(reaped) == 1


def test_a_key_that_redis_lets_nobody_reap_is_parked(
    redis_server: Server, start_proxy: StartProxy
) -> None:
    with Connection(redis_server.port) as direct:
        direct.ask("ACL", "SETUSER", "proxy", "on", ">word", "~*", "&*", "+@all", "-hdel")
        direct.ask("HSET", "h", "f", "v")
        direct.ask("ZADD", KEYS.index(b"h"), 1, "f")
        direct.ask("ZADD", KEYS.schedule, 1, "h")
        admin = pages(start_proxy(f"redis://proxy:word@127.0.0.1:{redis_server.port}", *FLAGS))
        becomes(admin, 1, "ttlproxy_parked_keys", reason="noperm")
        assert metric(admin, "ttlproxy_refusals_total") > 0
        direct.ask("ACL", "SETUSER", "proxy", "+hdel")
    becomes(admin, 0, "ttlproxy_parked_keys", reason="noperm")


def test_deferred_commands_and_kept_elements_are_counted(admin: Pages, talker: Connection) -> None:
    names = {
        "deferred": "ttlproxy_node_deferred_commands",
        "until_next": "ttlproxy_node_next_deferred_seconds",
        "kept": "ttlproxy_node_kept_elements",
        "since_oldest": "ttlproxy_node_oldest_kept_seconds",
    }

    def waiting() -> dict[str, float]:
        shown = families(admin)
        return {
            what: sample.value for what, name in names.items() for sample in shown[name].samples
        }

    wait_until(lambda: waiting() == {"deferred": 0, "kept": 0}, "nothing waits")
    talker.ask("ONEXPIRE", "cart:*", "KEEP")
    talker.ask("SADDEX", "cart:1", "PX", 1, "MEMBERS", 2, "a", "b")
    talker.ask("DEFER", "EX", 1000, "ID", "late", "RPUSH", "jobs", "a")
    talker.ask("DEFER", "EX", 500, "ID", "soon", "RPUSH", "jobs", "b")
    talker.ask("DEFER", "EX", 700, "PUBLISH", "news", "hello")
    wait_until(lambda: {"deferred": 3, "kept": 2}.items() <= waiting().items(), "all wait")
    found = waiting()
    assert 0 < found["until_next"] <= 500
    assert found["since_oldest"] > 0
    talker.ask("TAKE", "cart:1", "COUNT", 10)
    wait_until(lambda: "since_oldest" not in waiting(), "none is kept")
    assert waiting()["kept"] == 0


def test_of_many_keys_some_are_counted_and_stand_for_all(
    admin: Pages, talker: Connection, redis_server: Server
) -> None:
    keys = 3 * SAMPLE
    near = range(keys - 4, keys + 3)
    requests = [command("DEFER", "EX", 1000, "PUBLISH", f"news:{each}", "") for each in range(keys)]
    talker.send(b"".join(requests))
    talker.read_many(keys)
    node = f"127.0.0.1:{redis_server.port}"
    # Two keys that are no deferred commands' may be among those that are looked at.
    wait_until(
        lambda: metric_if_there(admin, "ttlproxy_node_deferred_commands", node=node) in near,
        "an estimate",
    )
    with Connection(redis_server.port) as direct:
        direct.ask("CONFIG", "RESETSTAT")
        wait_until(lambda: calls(redis_server.port, "srandmember") == 1, "it counts again")
        assert SAMPLE - 2 <= calls(redis_server.port, "hlen") <= SAMPLE


def test_nothing_of_clients_or_secret_is_told(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server("--requirepass", "secret-of-all")
    proxy = start_proxy(f"redis://:secret-of-all@127.0.0.1:{server.port}", *FLAGS)
    admin = pages(proxy)
    with Connection(proxy.port) as client:
        client.ask("AUTH", "secret-of-all")
        client.ask("HSET", "name-of-key", "name-of-field", "some-value")
        client.ask("HEXPIREFIELD", "name-of-key", "name-of-field", 100)
        becomes(admin, 1, "ttlproxy_managed_keys")
        address = "{}:{}".format(*client.socket.getsockname())  # Redis's own may be told
        server.kill()
        for path in ("/metrics", "/readyz", "/livez", "/startup"):
            text = admin.get(path).text
            assert not re.search(f"secret-of|name-of|some-value|{address}", text)


def test_metrics_are_open_metrics_for_who_asks_for_them(admin: Pages) -> None:
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    answer = admin.ask("GET", "/metrics", accept)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
    assert admin.get("/metrics").headers["Content-Type"].startswith("text/plain")


def test_requests_are_counted_by_what_becomes_of_them(admin: Pages, talker: Connection) -> None:
    """No other test gives keys of these two families deadlines."""
    key, counted = "metrics of plain keys", "metrics of requests"
    for chunk in (
        command("SET", key, "v") * 3 + command("HSET", counted, "f", "v"),
        command("HEXPIREFIELD", counted, "f", 100),
        command("HSET", counted, "f", "w") + command("GET", key),
    ):
        talker.send(chunk)
        talker.read_many(chunk.count(b"*"))
    requests = "ttlproxy_requests_total"
    assert metric(admin, requests, kind="virtual") == 1
    assert metric(admin, requests, kind="rewritten") == 1
    assert metric(admin, requests, kind="forwarded") == 5


def test_script_calls_are_counted_by_script(admin: Pages, talker: Connection) -> None:
    for words in (
        ("HSET", "h", "f", "v"),
        ("HEXPIREFIELD", "h", "f", 100),
        ("SADDEX", "s", 9, "m"),
    ):
        talker.ask(*words)
    talker.send(command("HSET", "h", "f", "w") * 3 + command("SADD", "s", "n") * 2)
    talker.read_many(5)
    talker.send(command("MULTI") + command("HTTLFIELD", "h", "f") + command("EXEC"))
    talker.read_many(3)
    calls = {"hash_expire": 1, "set_addex": 1, "hash_set": 3, "set_add": 2, "hash_ttl": 1}
    for script, count in calls.items():
        assert metric(admin, "ttlproxy_script_calls_total", script=script) == count
    talker.ask("SPEXPIREMEMBER", "s", "n", 1)
    becomes(admin, 1, "ttlproxy_reaped_elements_total", type="set")
    assert metric(admin, "ttlproxy_script_calls_total", script="reap") > 0, "of its own"


def test_round_trips_are_measured_and_those_of_scripts_by_script(
    admin: Pages, talker: Connection, redis_server: Server
) -> None:
    """A stopped Redis makes one long: as no client sends meanwhile, it is the one measured."""
    trips = "ttlproxy_round_trip_seconds"
    talker.ask("HSETEX", "h", *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v")
    talker.ask("HTTLFIELD", "h", "f")  # maybe by the text of the script, which Redis knows then
    before = metric(admin, f"{trips}_count")

    def measured() -> bool:
        for _ in range(20):
            assert talker.ask("HTTLFIELD", "h", "f").startswith(b":")
        return metric(admin, f"{trips}_count") >= before + 2

    wait_until(measured, "two round trips")
    assert 0 < metric(admin, f"{trips}_sum") < 60
    of_script = "ttlproxy_script_round_trips_total"
    assert metric(admin, of_script, script="hash_ttl") >= 2
    assert metric(admin, "ttlproxy_script_round_trip_seconds_total", script="hash_ttl") > 0
    assert metric(admin, "ttlproxy_script_round_trips_failed_total", script="hash_ttl") == 0


def test_what_redis_counts_of_commands_is_shown_by_family(
    admin: Pages, talker: Connection, redis_server: Server
) -> None:
    with Connection(redis_server.port) as direct:
        direct.send(command("HSET", "h", "f", "v") * 5 + command("GET", "h") * 3)
        direct.send(command("GEOADD", "g", 1, 1, "m") + command("ZADD", "g", 1) * 2)
        direct.read_many(11)
        talker.ask("CONFIG", "SET", "slowlog-max-len", 100)  # the next heartbeat looks at all
        becomes(admin, 3, "ttlproxy_redis_failed_calls_total", family="string")
        assert metric(admin, "ttlproxy_redis_failed_calls_total", family="zset") == 2
        assert metric(admin, "ttlproxy_redis_calls_total", family="geo") == 1
        assert metric(admin, "ttlproxy_redis_calls_total", family="hash") >= 5
        assert metric(admin, "ttlproxy_redis_call_seconds_total", family="hash") > 0
        assert metric(admin, "ttlproxy_redis_errors_total", error="WRONGTYPE") == 3
        assert metric(admin, "ttlproxy_redis_errors_total", error="ERR") >= 2


def test_bytes_are_counted_each_way(admin: Pages, talker: Connection) -> None:
    value = b"x" * 1000
    sent = command("SET", "k", value) + command("GET", "k") * 20
    replies = b"+OK\r\n" + (b"$1000\r\n" + value + b"\r\n") * 20
    talker.send(sent)
    for _ in range(21):
        talker.read()
    assert metric(admin, "ttlproxy_sent_bytes_total", to="redis") == len(sent)
    assert metric(admin, "ttlproxy_sent_bytes_total", to="clients") == len(replies)


def test_bytes_that_wait_are_counted_by_where_they_are_to_go(
    watched: Proxy, admin: Pages, redis_server: Server
) -> None:
    buffered, value = "ttlproxy_buffered_bytes", b"x" * (1 << 20)
    with Connection(watched.port) as reads_nothing, Connection(watched.port) as writes:
        assert writes.ask("SET", "k", value) == b"+OK\r\n"
        reads_nothing.send(command("GET", "k") * 50)
        wait_until(lambda: metric(admin, buffered, to="clients") > 0, "replies that wait")
        assert metric(admin, buffered, to="redis") == 0
        assert 0 < metric(admin, "ttlproxy_buffers_used_ratio") < 1
        os.kill(redis_server.pid, signal.SIGSTOP)
        try:
            # A request that goes on for as long as somebody takes it: the sockets' own buffers
            # grow, so that nobody knows how much fits in.
            writes.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (500 << 20))
            writes.socket.setblocking(False)

            def waits() -> bool:
                with suppress(BlockingIOError):
                    while True:
                        writes.socket.send(value)
                return metric(admin, buffered, to="redis") > 0

            wait_until(waits, "requests that wait")
        finally:
            os.kill(redis_server.pid, signal.SIGCONT)
    for to in ("clients", "redis"):
        becomes(admin, 0, buffered, to=to)
    assert metric(admin, "ttlproxy_buffers_used_ratio") == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_limits_are_shown(start_proxy: StartProxy, workers: str) -> None:
    """That of clients is for all workers, that of buffers for each."""
    flags = ("--workers", workers, "--max-clients", "50", "--max-buffer-bytes", "1000")
    admin = pages(start_proxy("redis://127.0.0.1:1", *flags, *FLAGS))
    becomes(admin, 1000 * int(workers), "ttlproxy_buffer_limit_bytes")
    assert metric(admin, "ttlproxy_max_clients") == 50


def test_without_a_limit_for_buffers_it_is_infinite(start_proxy: StartProxy) -> None:
    admin = pages(start_proxy("redis://127.0.0.1:1", "--max-buffer-bytes", "0", *FLAGS))
    assert metric(admin, "ttlproxy_buffer_limit_bytes") == math.inf
    assert metric(admin, "ttlproxy_buffers_used_ratio") == 0


def test_who_waits_for_redis_is_held(
    admin: Pages, talker: Connection, redis_server: Server
) -> None:
    with Connection(redis_server.port) as direct:
        direct.ask("SET", LEASE, "a test", "PX", 60_000)
        talker.ask("HSET", "h", "f", "v", "g", "v")
        talker.ask("HPEXPIREFIELD", "h", "f", 1)
        becomes(admin, 1, "ttlproxy_overdue_keys")
        os.kill(redis_server.pid, signal.SIGSTOP)
        try:
            talker.send(command("HLEN", "h"))
            becomes(admin, 1, "ttlproxy_held_connections")
        finally:
            os.kill(redis_server.pid, signal.SIGCONT)
        assert talker.read() == b":1\r\n"
        becomes(admin, 0, "ttlproxy_held_connections")
        assert metric(admin, "ttlproxy_holds_total") == 1
        assert metric(admin, "ttlproxy_hold_seconds_count", reason="reap") == 1
        assert metric(admin, "ttlproxy_hold_seconds_sum", reason="reap") > 0
        direct.ask("DEL", LEASE)


def test_writes_by_rule_are_counted(admin: Pages, talker: Connection, redis_server: Server) -> None:
    talker.ask("SADD", "old", "a", "b")
    talker.ask("ONWRITE", "k*", "EX", 100, "MAXLEN", 2)
    talker.send(command("SADD", "k1", "a") + command("HSET", "k2", "f", "v"))
    assert talker.read_many(2) == [b":1\r\n", b":1\r\n"]
    talker.send(command("MULTI") + command("SADD", "k1", "b") + command("EXEC"))
    assert talker.read_many(3)[2] == b"*1\r\n:1\r\n"
    assert talker.ask("SADD", "k1", "c").startswith(b"-TTLMAXLEN")
    talker.ask("SADD", "other", "a")
    talker.ask("DBSIZE")
    becomes(admin, 4, "ttlproxy_writes_by_rule_total")
    talker.ask("RENAME", "old", "k3")
    becomes(admin, 2, "ttlproxy_dated_elements_total")
    here = f"127.0.0.1:{redis_server.port}"
    becomes(admin, 1, "ttlproxy_node_maxlen_refusals_total", node=here)
    info = talker.ask("TTLPROXY", "INFO")
    for line in (b"writes_by_rule:4", b"dated_elements:2", b"maxlen_refusals:1"):
        assert line in info.splitlines()
