"""The table of routes: a row for each page. The table in docs/observing.md is made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from aiohttp import web

from ttlproxy.addresses import Listen
from ttlproxy.admin import probes, prometheus, status
from ttlproxy.admin.host_check import guard
from ttlproxy.admin.process_state import SUBJECT, Subject
from ttlproxy.admin.quit import END, End, quitquitquit


class Route(NamedTuple):
    """method: GET includes HEAD; tells: the description in that table"""

    method: str
    path: str
    page: Callable[[web.Request], Awaitable[web.StreamResponse]]
    tells: str


ROUTES: Final = (
    Route("GET", "/", status.page, "the status page, for a browser"),
    Route("GET", "/status.json", status.status, "what the status page shows"),
    Route(
        "GET",
        "/inspect.json",
        status.inspect,
        "the deadlines of `?key=` in `?db=`, or without `?key=` the keys that are due next, those"
        " that match `?match=` if it is given; starting at `?offset=`",
    ),
    Route("GET", "/startup", probes.startup, "200 once clients are accepted"),
    Route("GET", "/livez", probes.livez, "200 while the event loop runs"),
    Route(
        "GET",
        "/readyz",
        probes.readyz,
        "200 while clients are served: started, Redis there, scripts loaded, not draining; of"
        " several masters one is enough, and the text names the others; with `?node=host:port` 200"
        " while that one is served",
    ),
    Route("GET", "/metrics", prometheus.metrics, "the [metrics](metrics.md), for Prometheus"),
    Route(
        "POST",
        "/quitquitquit",
        quitquitquit,
        "drains and stops the proxy, as SIGTERM does; off unless `--quit-token-file` is set, or"
        " `--admin` is a unix socket",
    ),
)


def application(listen: Listen, subject: Subject, end: End, watch: status.Watch) -> web.Application:
    app = web.Application(middlewares=[guard(listen)])
    app[SUBJECT] = subject
    app[status.WATCH] = watch
    app.cleanup_ctx.append(status.watching)
    app[END] = end
    app[prometheus.COLLECTED] = prometheus.collected(subject)
    for route in ROUTES:
        if route.method == "GET":
            app.router.add_get(route.path, route.page)
        else:
            app.router.add_route(route.method, route.path, route.page)
    app.on_response_prepare.append(_head)
    return app


async def _head(request: web.Request, response: web.StreamResponse) -> None:
    """Hides the server's version, and forbids caching unless the page allows it."""
    response.headers["Server"] = "ttlproxy"
    response.headers.setdefault("Cache-Control", "no-store")
