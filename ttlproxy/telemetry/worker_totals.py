"""Metrics and health of all workers together, from the reports that each sends regularly.

The counters of a worker stay in the sum when it has ended, so that no counter goes down.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from ttlproxy.telemetry.health import STUCK_S, Health, Worker
from ttlproxy.telemetry.loop_heartbeat import LoopHeartbeat
from ttlproxy.telemetry.metrics_catalogue import Report, lasting, total

# How often each worker sends a report.
EVERY_S: Final = 0.5
# The key of all workers that have ended; the others' keys are their pids.
_ENDED: Final = 0


class _Report(NamedTuple):
    """The last report of a worker, and when it came, in s of time.monotonic()."""

    at_s: float
    why_not_ready: str
    report: Report

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.at_s


def report_of(health: Health) -> bytes:
    """A worker's report on itself, for `WorkerTotals.heard`."""
    return json.dumps([health.why_not_ready(), health.report()]).encode()


class WorkerTotals:
    """Metrics and health of all workers, and of the process that listens.

    heartbeat: of the listening process; accepts: clients may connect; drains: the proxy is ending;
    refused: clients beyond max_clients; replaced: workers that have ended by themselves
    """

    def __init__(self) -> None:
        self.heartbeat = LoopHeartbeat()
        self.accepts = False
        self.drains = False
        self.refused = 0
        self.replaced = 0
        self._reports: dict[int, _Report] = {}  # replaced, never changed: other threads read it

    def heard(self, pid: int, message: bytes) -> None:
        """A worker has sent a report."""
        self._reports = {**self._reports, pid: _Report(time.monotonic(), *json.loads(message))}

    def lost(self, pid: int) -> None:
        """A worker has ended."""
        now = dict(self._reports)
        if last := now.pop(pid, None):
            before = now.get(_ENDED, last._replace(report={})).report
            now[_ENDED] = last._replace(report=total([before, lasting(last.report)]))
            self._reports = now

    def why_not_live(self) -> str:
        """A single stuck worker is enough, because its clients wait."""
        if why_not := self.heartbeat.why_not_live(STUCK_S):
            return why_not
        for pid, last in self._working().items():
            if last.age_s > STUCK_S:
                return f"worker {pid} has been stuck for {last.age_s:.1f} s"
        return ""

    def why_not_started(self) -> str:
        return "" if self.accepts else "starting: clients are not accepted yet"

    def why_not_ready(self) -> str:
        """Ready while one worker is ready."""
        if self.drains:
            return "draining: the proxy is shutting down"
        reasons = [last.why_not_ready for last in self._working().values()]
        if not all(reasons):
            return self.why_not_started()
        return f"no worker is ready: {reasons[0]}" if reasons else "no worker is running"

    def report(self) -> Report:
        ours: Report = {
            "ttlproxy_connections_refused_total": self.refused,
            "ttlproxy_workers_replaced_total": self.replaced,
        }
        found = total([ours, *(last.report for last in self._reports.values())])
        ages = [last.age_s for last in self._working().values()]
        found["ttlproxy_heartbeat_age_seconds"] = max(self.heartbeat.age_s(), *ages, 0)
        return found

    def script_names(self) -> Mapping[bytes, str]:
        """The process that listens has no scripts."""
        return {}

    def address(self) -> str:
        info = self.report().get("ttlproxy_upstream_info")
        return str(info["address"]) if isinstance(info, dict) else ""

    def workers(self) -> list[Worker]:
        return [
            Worker(pid, _clients(last.report), last.why_not_ready)
            for pid, last in sorted(self._working().items())
        ]

    def _working(self) -> dict[int, _Report]:
        return {pid: last for pid, last in self._reports.items() if pid != _ENDED}


def _clients(report: Report) -> float:
    clients = report.get("ttlproxy_connections", 0)
    return clients if isinstance(clients, int | float) else 0
