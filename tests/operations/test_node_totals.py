"""Metrics by server of several workers: what is summed up, and what goes with a server."""

from __future__ import annotations

import json

from ttlproxy.telemetry.metrics_catalogue import by_label
from ttlproxy.telemetry.worker_totals import WorkerTotals

REAPED, REFUSALS = "ttlproxy_node_reaped_elements_total", "ttlproxy_node_refusals_total"
UP, KEYS = "ttlproxy_node_up", "ttlproxy_node_managed_keys"


def _heard(totals: WorkerTotals, pid: int, **why_not: str) -> None:
    """A worker has reaped 5 elements at each server that it has; it knows as many keys as its pid
    says of those that it serves."""
    report = {
        REAPED: dict.fromkeys(why_not, 5),
        REFUSALS: dict.fromkeys(why_not, 0),
        UP: {name: int(not why) for name, why in why_not.items()},
        KEYS: dict.fromkeys(why_not, pid),
    }
    totals.heard(pid, json.dumps(["", report, why_not, ""]).encode())


def test_a_server_is_served_if_all_workers_serve_it() -> None:
    totals = WorkerTotals()
    _heard(totals, 1, a="", b="")
    _heard(totals, 2, a="", b="it is away", c="")
    assert totals.nodes() == {"a": "", "b": "it is away", "c": ""}
    report = totals.report()
    assert by_label(report, UP) == {"a": 1, "b": 0, "c": 1}
    assert by_label(report, REAPED) == {"a": 10, "b": 10, "c": 5}
    assert by_label(report, KEYS) == {"a": 2, "b": 2, "c": 2}


def test_histograms_are_summed_up_by_label() -> None:
    totals, held = WorkerTotals(), "ttlproxy_hold_seconds"
    reaps = ([1, 2], [1, 0, 2], 9.5), ([1, 2], [1, 1, 0], 2)
    for pid, reap in enumerate(reaps):
        found = {"reap": reap, "claim": ([1], [pid, 0], pid)}
        totals.heard(pid, json.dumps(["", {held: found}, {}, ""]).encode())
    assert totals.report()[held] == {"reap": ([1, 2], [2, 1, 2], 11.5), "claim": ([1], [1, 0], 1)}


def test_what_a_worker_has_counted_stays_until_its_server_is_gone() -> None:
    totals = WorkerTotals()
    _heard(totals, 1, a="", b="")
    _heard(totals, 2, a="", b="")
    totals.lost(1)
    assert by_label(totals.report(), REAPED) == {"a": 10, "b": 10}
    _heard(totals, 2, a="", c="")  # another master has taken over from b
    assert by_label(totals.report(), REAPED) == {"a": 10, "c": 5}
    _heard(totals, 3, a="")
    totals.lost(2)
    assert by_label(totals.report(), REAPED) == {"a": 15}
    assert totals.nodes() == {"a": ""}
