"""The table of routes, a row for each page, and the pages that ask no Redis: probes, and the end of
the proxy.

The table in docs/observing.md is made from it. Probes, for supervisors such as Kubernetes, answer
200, or 503 and the reason in words. POST /quitquitquit is off unless it was set up: a client's
address proves nothing, because another process on the same machine or in the same pod may forward
requests of others from a loopback address. So it needs a token, or a unix socket, whose permissions
say who may use it.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from ttlproxy.addresses import Listen, SecretFile
from ttlproxy.admin import prometheus, status
from ttlproxy.telemetry.worker_totals import Subject

SUBJECT: Final = web.AppKey[Subject]("subject")


def guard(listen: Listen) -> Middleware:
    """Returns a middleware that refuses, on a loopback address, a Host that is neither an IP
    address nor localhost (DNS rebinding)."""
    is_open = not listen.is_loopback or bool(listen.path)

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if is_open or _is_known(request.host, listen.host):
            return await handler(request)
        raise web.HTTPMisdirectedRequest(text="use an IP address or localhost in the URL\n")

    return guarded


_NAMES: Final = ("localhost", "localhost.", "")
# Only a port may follow the host.
_HEADER: Final = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]*))(?::[0-9]*)?")


def _is_known(header: str, own: str) -> bool:
    """Whether a Host header has an IP address, or a name of this machine: localhost, or `own`."""
    found = _HEADER.fullmatch(header)
    if found is None:
        return False
    name = (found["name"] or "").lower()
    try:
        IPv6Address(found["v6"]) if found["v6"] else IPv4Address(name)
    except ValueError:
        return not found["v6"] and name in (*_NAMES, own.lower())
    return True


async def startup(request: web.Request) -> web.Response:
    return _answer("started", request.app[SUBJECT].why_not_started())


async def livez(request: web.Request) -> web.Response:
    return _answer("live", request.app[SUBJECT].why_not_live())


async def readyz(request: web.Request) -> web.Response:
    """Tells whether the proxy, or with `?node=` its part for one server, is ready."""
    subject, node = request.app[SUBJECT], request.query.get("node", "")
    why_not, nodes = subject.why_not_ready(), subject.nodes()
    if not node:
        lacking = [f"not served: {name}: {why}" for name, why in nodes.items() if why]
        lacking = lacking or list(filter(None, [subject.trouble()]))
        return _answer("\n".join(["ready", *lacking]), why_not)
    if node not in nodes:
        known = ", ".join(sorted(nodes)) or "none yet"
        raise web.HTTPNotFound(text=f"no such node; there are: {known}\n")
    return _answer("ready", why_not or nodes[node])


def _answer(word: str, why_not: str) -> web.Response:
    return web.Response(status=503 if why_not else 200, text=f"{why_not or word}\n")


_HOW: Final = (
    "POST /quitquitquit is off: set quit_token_file and send its token as 'Authorization: Bearer"
    " ...', or set admin to a unix socket\n"
)
_WRONG: Final = "send the token of quit_token_file as 'Authorization: Bearer ...'\n"
_BROWSER: Final = "requests from a browser cannot stop the proxy\n"


@dataclass(frozen=True)
class End:
    """stop: ends the proxy as SIGTERM does, from any thread; token: what a request must send;
    by_socket: whether admin is a unix socket, which needs a token only if one is set"""

    stop: Callable[[], None]
    token: SecretFile | None
    by_socket: bool

    def why_not(self, request: web.Request) -> str:
        """Returns why this request may not end the proxy; empty if it may."""
        if "Origin" in request.headers or "Sec-Fetch-Site" in request.headers:
            return _BROWSER
        if self.token is None:
            return "" if self.by_socket else _HOW
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        # It compares in constant time, so that the time of a refusal reveals no byte of the token.
        is_right = hmac.compare_digest(_bytes(shown), _bytes(self.token.read()))
        return "" if is_right and scheme.lower() == "bearer" else _WRONG


END: Final = web.AppKey("end", End)


async def quitquitquit(request: web.Request) -> web.Response:
    end = request.app[END]
    if why_not := end.why_not(request):
        raise web.HTTPForbidden(text=why_not)
    end.stop()
    return web.Response(text="draining\n")


def _bytes(text: str) -> bytes:
    """Encodes a header as it came: aiohttp decodes bytes that are not UTF-8 as surrogates."""
    return text.encode("utf-8", "surrogateescape")


class PageRoute(NamedTuple):
    """method: GET includes HEAD; tells: the description in that table"""

    method: str
    path: str
    page: Callable[[web.Request], Awaitable[web.StreamResponse]]
    tells: str


ROUTES: Final = (
    PageRoute("GET", "/", status.page, "the status page, for a browser"),
    PageRoute("GET", "/status.json", status.status, "what the status page shows"),
    PageRoute(
        "GET",
        "/inspect.json",
        status.inspect,
        "the deadlines of `?key=` in `?db=`, or without `?key=` the keys that are due next, those"
        " that match `?match=` if it is given; starting at `?offset=`",
    ),
    PageRoute("GET", "/startup", startup, "200 once clients are accepted"),
    PageRoute("GET", "/livez", livez, "200 while the event loop runs"),
    PageRoute(
        "GET",
        "/readyz",
        readyz,
        "200 while clients are served: started, Redis there, scripts loaded, not draining; of"
        " several masters one is enough, and the text names the others; with `?node=host:port` 200"
        " while that one is served",
    ),
    PageRoute("GET", "/metrics", prometheus.metrics, "the [metrics](metrics.md), for Prometheus"),
    PageRoute(
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
        add = app.router.add_get if route.method == "GET" else app.router.add_post
        add(route.path, route.page)
    app.on_response_prepare.append(_head)
    return app


async def _head(request: web.Request, response: web.StreamResponse) -> None:
    """Hides the server's version, and forbids caching unless the page allows it."""
    response.headers["Server"] = "ttlproxy"
    response.headers.setdefault("Cache-Control", "no-store")
