"""How late delayed tasks are delivered: DEFER, BullMQ, and a sorted set that is polled each second.

The same client, ioredis, writes the tasks and takes them, and reports how late each one came.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.bench.loads import Run
from tests.bench.measures import percentile
from tests.bench.scenarios import Case, Scenario
from tests.bench.targets import Stage, Target
from tests.support.npm import NoPackagesError, install

_TASKS, _PER_SECOND = 5000, 500
_MEASURES = [percentile(percent) for percent in (50, 99)]
_LEAD_S = 300.0


@dataclass(frozen=True)
class Delayed:
    """So many tasks, which fall due evenly and are delivered in the given way."""

    folder: Path
    way: str
    tasks: int

    def __call__(self, target: Target) -> Run:
        """Raises subprocess.SubprocessError if not all are delivered."""
        arguments = (self.way, str(target.port), str(self.tasks), str(_PER_SECOND))
        done = subprocess.run(
            ["node", "delayed.mjs", *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=self.tasks / _PER_SECOND + _LEAD_S,
        )
        lags_ms = sorted(json.loads(done.stdout))
        return Run(len(lags_ms), self.tasks / _PER_SECOND, [lag * 1000 for lag in lags_ms])


def scenarios(stage: Stage) -> list[Scenario]:
    folder = stage.folder()
    try:
        install(folder)
    except NoPackagesError as reason:
        stage.absent.append(str(reason))
        return []
    tasks = stage.scaled(_TASKS, least=2)
    return [
        Scenario(
            f"delayed tasks, {_PER_SECOND} a second",
            [Case(name, target, Delayed(folder, way, tasks)) for name, way, target in _ways(stage)],
            _MEASURES,
        )
    ]


def _ways(stage: Stage) -> list[tuple[str, str, Target]]:
    """(name in the table, way, target), each with its own Redis."""
    return [
        ("DEFER", "defer", stage.ttlproxy(stage.redis())),
        ("BullMQ", "bullmq", stage.redis("--maxmemory-policy", "noeviction")),
        ("a look each second", "poll", stage.redis()),
    ]
