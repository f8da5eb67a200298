"""Metrics and health of all workers together, from the reports that each sends regularly.

The counters of a worker stay in the sum when it has ended, so that no counter goes down.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple, TypeAlias, cast

from ttlproxy.telemetry.health import STUCK_S, Details, Health, WorkerHealth
from ttlproxy.telemetry.memory import MEMORY, ONE
from ttlproxy.telemetry.metric_spec import LoopHeartbeat, Report
from ttlproxy.telemetry.metrics_catalogue import (
    by_label,
    lasting,
    total,
    without_nodes,
)

# Seconds between two reports of a worker.
EVERY_S: Final = 0.5
# The key of all workers that have ended; the others' keys are their pids.
_ENDED: Final = 0
# A counter whose labels are all servers.
_OF_NODES: Final = "ttlproxy_node_refusals_total"


class _Report(NamedTuple):
    """The last report of a worker, and when it came, in s of time.monotonic()."""

    at_s: float
    why_not_ready: str
    report: Report
    nodes: dict[str, str]
    trouble: str

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.at_s


def report_of(health: Health) -> bytes:
    """Returns a worker's report on itself, for `WorkerTotals.heard`."""
    message = [health.why_not_ready(), health.report(), health.nodes(), health.trouble()]
    return json.dumps(message).encode()


class WorkerTotals:
    """Metrics and health of all workers, and of the process that listens.

    heartbeat: of the listening process; accepts: whether clients may connect; drains: whether the
    proxy is ending
    refused: clients beyond max_clients; replaced: workers that have ended by themselves
    on_look: makes all workers gather their details; any thread may call it
    """

    def __init__(self) -> None:
        self.heartbeat = LoopHeartbeat()
        self.accepts = False
        self.drains = False
        self.refused = 0
        self.replaced = 0
        self.on_look: Callable[[], object] = lambda: None
        # These are replaced, never changed: other threads read them.
        self._reports: dict[int, _Report] = {}
        self._details: dict[int, Details] = {}
        # Workers are numbered from 1 on: one that takes the place of another gets its number.
        self._numbers: dict[int, int] = {}

    def heard(self, pid: int, message: bytes) -> None:
        """Takes a worker's report."""
        if pid not in self._numbers:
            taken = set(self._numbers.values())
            number = next(each for each in count(1) if each not in taken)
            self._numbers = {**self._numbers, pid: number}
        self._reports = {**self._reports, pid: _Report(time.monotonic(), *json.loads(message))}

    def looked(self, pid: int, message: bytes) -> None:
        """Takes the details that a worker has gathered."""
        self._details = {**self._details, pid: {"worker": pid, **json.loads(message)}}

    def lost(self, pid: int) -> None:
        """Forgets a worker that has ended, and keeps its counts."""
        self._numbers = {key: number for key, number in self._numbers.items() if key != pid}
        self._details = {key: found for key, found in self._details.items() if key != pid}
        now = dict(self._reports)
        if last := now.pop(pid, None):
            before = now.get(_ENDED, last._replace(report={})).report
            counted = total([before, lasting(last.report)])
            there = last.nodes.keys() | _nodes(now)
            counted = without_nodes(counted, by_label(counted, _OF_NODES).keys() - there)
            now[_ENDED] = last._replace(report=counted, nodes={}, trouble="")
            self._reports = now

    def why_not_live(self) -> str:
        """Returns why it is not live: a single stuck worker is enough, because its clients wait."""
        if why_not := self.heartbeat.why_not_live(STUCK_S):
            return why_not
        for pid, last in self._working().items():
            if last.age_s > STUCK_S:
                return f"worker {pid} has been stuck for {last.age_s:.1f} s"
        return ""

    def why_not_started(self) -> str:
        return "" if self.accepts else "starting: clients are not accepted yet"

    def why_not_ready(self) -> str:
        """Returns why it is not ready; it is while one worker is."""
        if self.drains:
            return "draining: the proxy is shutting down"
        reasons = [last.why_not_ready for last in self._working().values()]
        if not all(reasons):
            return self.why_not_started()
        return f"no worker is ready: {reasons[0]}" if reasons else "no worker is running"

    def nodes(self) -> Mapping[str, str]:
        """Returns why a server is not served by a worker, by address; empty if all serve it."""
        found = dict.fromkeys(_nodes(self._reports), "")
        for last in self._working().values():
            found.update({name: why_not for name, why_not in last.nodes.items() if why_not})
        return dict(sorted(found.items()))

    def trouble(self) -> str:
        return next(filter(None, (last.trouble for last in self._working().values())), "")

    def report(self) -> Report:
        ours: Report = {
            "ttlproxy_connections_refused_total": self.refused,
            "ttlproxy_workers_replaced_total": self.replaced,
        }
        reports = self._reports
        found = total([ours, *(last.report for last in reports.values())])
        # A worker that has ended may have counted for servers that are gone.
        found = without_nodes(found, by_label(found, _OF_NODES).keys() - _nodes(reports))
        ages = [last.age_s for last in self._working().values()]
        memory = {pid: by_label(last.report, MEMORY) for pid, last in reports.items()}
        numbers = sorted((number, memory.get(pid, {})) for pid, number in self._numbers.items())
        found[MEMORY] = {str(number): said[ONE] for number, said in numbers if ONE in said}
        found["ttlproxy_heartbeat_age_seconds"] = max(self.heartbeat.age_s(), *ages, 0)
        return found

    def look(self) -> None:
        self.on_look()

    def details(self) -> Sequence[Details]:
        return [found for _, found in sorted(self._details.items())]

    def script_names(self) -> Mapping[bytes, str]:
        """Returns nothing, because the process that listens has no scripts."""
        return {}

    def address(self) -> str:
        info = self.report().get("ttlproxy_upstream_info")
        return str(info["address"]) if isinstance(info, dict) else ""

    def workers(self) -> list[WorkerHealth]:
        return [
            WorkerHealth(
                pid, cast(float, last.report.get("ttlproxy_connections", 0)), last.why_not_ready
            )
            for pid, last in sorted(self._working().items())
        ]

    def _working(self) -> dict[int, _Report]:
        return {pid: last for pid, last in self._reports.items() if pid != _ENDED}


def _nodes(reports: Mapping[int, _Report]) -> set[str]:
    """Returns the servers that workers have."""
    return {name for last in reports.values() for name in last.nodes}


Subject: TypeAlias = Health | WorkerTotals
"""What is shown: one process that serves, or several. Any thread may call its methods."""
