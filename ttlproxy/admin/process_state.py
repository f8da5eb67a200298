"""The proxy that the pages show: one process, or several. Any thread may call its methods."""

from __future__ import annotations

from typing import Final, TypeAlias

from aiohttp import web

from ttlproxy.telemetry.health import Health
from ttlproxy.telemetry.worker_totals import WorkerTotals

Subject: TypeAlias = Health | WorkerTotals
SUBJECT: Final = web.AppKey[Subject]("subject")
