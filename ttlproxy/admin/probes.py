"""Probes for supervisors (Kubernetes and others): 200, or 503 and the reason in words."""

from __future__ import annotations

from aiohttp import web

from ttlproxy.admin.process_state import SUBJECT, Subject


async def startup(request: web.Request) -> web.Response:
    return _answer("started", request.app[SUBJECT].why_not_started())


async def livez(request: web.Request) -> web.Response:
    return _answer("live", request.app[SUBJECT].why_not_live())


async def readyz(request: web.Request) -> web.Response:
    """Of the proxy, or with `?node=` of what it has for one server."""
    subject, node = request.app[SUBJECT], request.query.get("node", "")
    why_not = subject.why_not_ready()
    if not node:
        return _answer("\n".join(["ready", *_lacking(subject)]), why_not)
    nodes = subject.nodes()
    if node not in nodes:
        known = ", ".join(sorted(nodes)) or "none yet"
        raise web.HTTPNotFound(text=f"no such node; there are: {known}\n")
    return _answer("ready", why_not or nodes[node])


def _lacking(subject: Subject) -> list[str]:
    """What a proxy that is ready does not serve, in words."""
    troubles = [f"not served: {name}: {why}" for name, why in subject.nodes().items() if why]
    return troubles or list(filter(None, [subject.trouble()]))


def _answer(word: str, why_not: str) -> web.Response:
    return web.Response(status=503 if why_not else 200, text=f"{why_not or word}\n")
