"""One measurement: redis-benchmark's requests per second."""

from __future__ import annotations

import csv
import subprocess

CLIENTS = 50
VALUE_BYTES = 64


def requests_per_second(port: int, test: str, pipeline: int, requests: int) -> float:
    """What redis-benchmark counts with 50 clients. Raises RuntimeError with what it printed."""
    command = [
        *("redis-benchmark", "-h", "127.0.0.1", "-p", str(port), "--csv"),
        *("-t", test, "-c", str(CLIENTS), "-d", str(VALUE_BYTES), "-P", str(pipeline)),
        *("-n", str(requests), "-r", "10000"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    for row in csv.reader(done.stdout.splitlines()):
        if row and row[0].upper() == test.upper():
            return float(row[1])
    raise RuntimeError(f"{' '.join(command)} printed no figure:\n{done.stdout}{done.stderr}")
