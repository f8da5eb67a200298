"""The proxy's section of INFO: each figure under its name."""

from __future__ import annotations

import os

from tests.support.session_world import NOW_MS
from ttlproxy.core.counters import Counters, NodeCounts
from ttlproxy.link.connecting.known_server import ServerClock
from ttlproxy.link.shared.info_section import info_section
from ttlproxy.link.shared.schedule_queries import Overdue, whole_ms


class Clock(ServerClock):
    """Stands at NOW_MS by Redis, and `passed_ms` after the start here."""

    passed_ms = 0.0

    @staticmethod
    def reading() -> float:
        return 5000 + Clock.passed_ms

    def now_ms(self) -> int:
        return NOW_MS


class Late(Overdue):
    def oldest_s(self, now_ms: int) -> float:
        assert now_ms == NOW_MS
        return 1.234


def test_every_figure_has_its_line() -> None:
    counters, overdue = Counters(), Late()
    Clock.passed_ms = 0
    began_ms = Clock.reading()
    counters.clients, counters.accepted, counters.refused = 11, 12, 13
    counters.held, counters.swept_entries, counters.refusals = 14, 15, 16
    counters.requests.by_rule, counters.dated_elements, counters.lost_indexes = 17, 18, 20
    for count, late_ms in ((50, 8), (49, 90), (1, 400)):
        counters.count_reaped("set", count, late_ms)
        counters.reap_call_ms.observe(late_ms, count)
    counters.count_fired("RPUSH", 20, 2)
    counters.count_fired("KEEP", 1, 1)
    node = NodeCounts()
    node.parked.update(oom=3, noperm=4)
    counters.nodes.add(node)
    counters.carried_entries, counters.waiting_entries = 17, 18
    counters.gone.update(redis=5, client=6)
    overdue.keys = 21
    Clock.passed_ms = 62_000
    head, *lines = (
        info_section(began_ms, Clock(), 2, counters, overdue)
        .decode()
        .removesuffix("\r\n")
        .split("\r\n")
    )
    assert head == "# Ttlproxy"
    assert all(":" in line for line in lines)
    found = dict(line.split(":", 1) for line in lines)
    assert found.pop("ttlproxy_version")
    assert found == {
        "process_id": str(os.getpid()),
        "uptime_in_seconds": "62",
        "connected_clients": "11",
        "total_connections_received": "12",
        "rejected_connections": "13",
        "managed_keys": "2",
        "overdue_keys": "21",
        "oldest_overdue_ms": "1234",
        "held_chunks": "14",
        "reaped_elements": "100",
        "fired_elements": "21",
        "carried_entries": "17",
        "waiting_entries": "18",
        "dead_letters": "3",
        "parked_keys": "7",
        "swept_entries": "15",
        "lost_indexes": "20",
        "writes_by_rule": "17",
        "dated_elements": "18",
        "maxlen_refusals": "0",
        "refusals": "16",
        "gone_clients_client": "6",
        "gone_clients_redis": "5",
        "reap_lag_ms": "p50=10,p99=100,max=400",
        "reap_call_ms": "p50=10,p99=100,max=400",
        "reaped_set": "elements=100",
        "fired_keep": "elements=1",
        "fired_rpush": "elements=20",
        "parked_noperm": "keys=4",
        "parked_oom": "keys=3",
    }
    ordered = [line.split(":")[0] for line in lines]
    assert ordered.index("gone_clients_client") < ordered.index("gone_clients_redis")


def test_a_score_that_somebody_wrote_by_hand_is_a_whole_ms() -> None:
    scores = (b"7", b"7.9", b"-3", b"inf", b"-inf", b"1e300")
    found = [whole_ms(score) for score in scores]
    assert found == [7, 7, 0, 1 << 62, 0, 1 << 62]
