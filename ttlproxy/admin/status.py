"""The status page, its data, and the inspector, as sent to a browser."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Final
from uuid import uuid4

from aiohttp import web

from ttlproxy import __version__
from ttlproxy.addresses import Upstream
from ttlproxy.admin import inspector
from ttlproxy.admin.connected import connected
from ttlproxy.admin.due_survey import survey
from ttlproxy.admin.history import HOUR_LENGTH, HOUR_STEP, SERIES, Growth, History
from ttlproxy.admin.page import HEADERS, document
from ttlproxy.admin.page_parts import clients, findings, masters, parked, rules
from ttlproxy.admin.redis_queries import CachedAnswer, Inquiry
from ttlproxy.admin.slowlog import reaps, scripts, slowest
from ttlproxy.admin.waiting import waiting
from ttlproxy.config import Settings
from ttlproxy.core.text import typed
from ttlproxy.errors import Unanswered
from ttlproxy.net.tasks import report
from ttlproxy.operations import redis_cli
from ttlproxy.telemetry.worker_totals import Subject

_EVERY_S: Final = 1.0
_QUERIES_S: Final = 5.0
# 10,000 clients take the event loop 12 ms, in slices of 0.1 ms.
_LOOK_S: Final = 2.0
_FINDINGS_S: Final = 60.0
_CONNECTED_S: Final = 10.0
_MOST_DATABASES: Final = 10_000
_MOST_OFFSET: Final = 10**9


class Watch:
    """The data of the status page, gathered only while somebody looks; the history is always
    gathered."""

    def __init__(self, settings: Settings, upstream: Upstream, subject: Subject) -> None:
        self.inquiry = Inquiry(settings, upstream, subject.address)
        self.has_inspector = names = _has_inspector(settings)
        self.has_values = names and settings.inspector_values == "yes"
        self._subject = subject
        self._upstream = upstream
        self._listens = _listens(settings)
        self._admin_port = _admin_port(settings)
        ask, prefix = self.inquiry, settings.prefix
        self._cached = {
            "survey": CachedAnswer(_QUERIES_S, lambda: survey(ask)),
            "slow": CachedAnswer(_QUERIES_S, lambda: slowest(ask, subject.script_names())),
            "findings": CachedAnswer(
                _FINDINGS_S, lambda: findings(settings, upstream, names=names)
            ),
            "waiting": CachedAnswer(_QUERIES_S, lambda: waiting(ask, names=names)),
            "connected": CachedAnswer(_CONNECTED_S, lambda: connected(ask, prefix, names=names)),
        }
        if names:
            self._cached["rules"] = CachedAnswer(_QUERIES_S, lambda: rules(ask))
        self._history = History()
        self._hour = History(SERIES, HOUR_STEP, HOUR_LENGTH)
        self._ended = Growth("ttlproxy_connections_closed_total")
        self._looked_s = -_LOOK_S
        self._life = uuid4().hex
        self._began_s = self._well_s = time.monotonic()

    async def run(self) -> None:
        """Takes a sample every second, once the proxy has started, until cancelled."""
        while True:
            self._why_not()
            if not self._subject.why_not_started():
                report, now_s = self._subject.report(), time.monotonic()
                self._history.take(report, now_s)
                self._hour.take(report, now_s)
                self._ended.take(report)
            await asyncio.sleep(_EVERY_S)

    def status(self, life: str, since: int, since_hour: int) -> dict[str, object]:
        """Returns all that the page shows, with the samples after the numbers `since` and, of the
        last hour, `since_hour`; with all samples, if `life` is another process's."""
        subject, names, is_same = self._subject, self.has_inspector, life == self._life
        if (now_s := time.monotonic()) - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            subject.look()  # details are gathered for the next answers
        found, report, why_not = subject.details(), subject.report(), self._why_not()
        return {
            "life": self._life,
            "version": __version__,
            "upstream": self._shown(),
            "uptime_s": round(time.monotonic() - self._began_s),
            "listens": self._listens,
            "why_not": why_not,
            "why_not_s": round(time.monotonic() - self._well_s),
            "inspector": self.has_inspector,
            "values": self.has_values,
            "admin_port": self._admin_port,
            "rules": {},
            **{name: cached.answer for name, cached in self._cached.items()},
            "findings_age_s": self._cached["findings"].age_s,
            "parked": parked(found, names=names),
            "clients": clients(found, names=names),
            "ended": self._ended.rows(),
            "reaps": reaps(report),
            "scripts": scripts(report),
            "reaped": report.get("ttlproxy_reaped_elements_total", {}),
            "masters": masters(subject),
            "workers": [worker._asdict() for worker in subject.workers()],
            "hour": self._hour.since(since_hour if is_same else -1),
            **self._history.since(since if is_same else -1),
        }

    def _why_not(self) -> str:
        """Returns why no client is served now; empty if clients are served, and then notes the
        time."""
        why_not = self._subject.why_not_live() or self._subject.why_not_ready()
        if not why_not:
            self._well_s = time.monotonic()
        return why_not

    def _shown(self) -> str:
        """Returns the URL, and where it leads if it does not say that itself."""
        upstream, address = self._upstream, self._subject.address()
        is_found = upstream.wants_master and address
        return f"{upstream.shown} ({address})" if is_found else upstream.shown


def _has_inspector(settings: Settings) -> bool:
    if settings.inspector == "loopback":
        return settings.admin is not None and settings.admin.is_loopback
    return settings.inspector == "yes"


def _listens(settings: Settings) -> dict[str, str]:
    """Returns the address at which clients connect, in words, empty if it is any free port; and
    redis-cli for it on this machine."""
    listen = settings.listen
    words = redis_cli.to_proxy(listen, tls=settings.tls_cert is not None)
    where = str(listen) if listen.local == listen else f"port {listen.port} of any address"
    is_known = listen.port or listen.path
    return {"address": where if is_known else "", "redis_cli": redis_cli.typed(words, 0, [])}


def _admin_port(settings: Settings) -> int | None:
    """Returns the port of the pages, which other proxies may have as well; None if only this
    machine reaches it."""
    admin = settings.admin
    return None if admin is None or admin.is_loopback else admin.port


WATCH: Final = web.AppKey("watch", Watch)


async def watching(app: web.Application) -> AsyncIterator[None]:
    """Runs the watch while the pages are served."""
    watch = app[WATCH]
    sampling = asyncio.create_task(watch.run(), name="admin: samples")
    sampling.add_done_callback(report)
    yield
    sampling.cancel()
    await watch.inquiry.close()


async def page(request: web.Request) -> web.Response:
    text, policy = document()
    headers = {**HEADERS, "Content-Security-Policy": policy}
    return web.Response(text=text, content_type="text/html", headers=headers)


async def status(request: web.Request) -> web.Response:
    life = request.query.get("life", "")
    since, since_hour = (_number(request, name, 2**53) for name in ("since", "since_hour"))
    return _json(request.app[WATCH].status(life, since, since_hour))


async def inspect(request: web.Request) -> web.Response:
    watch = request.app[WATCH]
    if not watch.has_inspector:
        raise web.HTTPForbidden(text="the inspector is off: see --inspector\n")
    db, offset = _number(request, "db", _MOST_DATABASES), _number(request, "offset", _MOST_OFFSET)
    key, pattern = (typed(request.query.get(name, "")) for name in ("key", "match"))
    inquiry, values = watch.inquiry, watch.has_values
    try:
        if key:
            return _json(await inspector.elements(inquiry, db, key, offset, values=values))
        return _json(await inspector.due_keys(inquiry, db, offset, pattern or None))
    except Unanswered as trouble:
        return _json({"error": str(trouble)})


def _number(request: web.Request, name: str, most: int) -> int:
    """Returns a number of the query; 0 if there is none."""
    word = request.query.get(name, "") or "0"
    if not (word.isascii() and word.isdigit() and len(word) < 20 and int(word) <= most):
        raise web.HTTPBadRequest(text=f"{name} must be a number from 0 to {most}\n")
    return int(word)


def _json(content: dict[str, Any]) -> web.Response:
    return web.json_response(content, headers=HEADERS)
