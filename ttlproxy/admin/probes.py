"""Probes for supervisors (Kubernetes and others): 200, or 503 and the reason in words."""

from __future__ import annotations

from aiohttp import web

from ttlproxy.admin.process_state import SUBJECT


async def startup(request: web.Request) -> web.Response:
    return _answer("started", request.app[SUBJECT].why_not_started())


async def livez(request: web.Request) -> web.Response:
    return _answer("live", request.app[SUBJECT].why_not_live())


async def readyz(request: web.Request) -> web.Response:
    return _answer("ready", request.app[SUBJECT].why_not_ready())


def _answer(word: str, why_not: str) -> web.Response:
    return web.Response(status=503 if why_not else 200, text=f"{why_not or word}\n")
