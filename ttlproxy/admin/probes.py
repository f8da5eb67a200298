"""Probes, for whoever starts, stops and watches processes: 200, or 503 and the reason in words."""

from __future__ import annotations

import ipaddress

from aiohttp import web

from ttlproxy.admin.subject import STOP, SUBJECT


async def startup(request: web.Request) -> web.Response:
    return _answer("started", request.app[SUBJECT].why_not_started())


async def livez(request: web.Request) -> web.Response:
    return _answer("live", request.app[SUBJECT].why_not_live())


async def readyz(request: web.Request) -> web.Response:
    return _answer("ready", request.app[SUBJECT].why_not_ready())


async def quitquitquit(request: web.Request) -> web.Response:
    if not _is_local(request):
        raise web.HTTPForbidden(text="only from this machine\n")
    request.app[STOP]()
    return web.Response(text="draining\n")


def _answer(word: str, why_not: str) -> web.Response:
    return web.Response(status=503 if why_not else 200, text=f"{why_not or word}\n")


def _is_local(request: web.Request) -> bool:
    """Whether it comes from this machine, and from no page in a browser that runs there."""
    if "Origin" in request.headers or "Sec-Fetch-Site" in request.headers:
        return False
    peer = request.transport.get_extra_info("peername") if request.transport else None
    if not isinstance(peer, tuple):
        return request.transport is not None  # a unix socket
    address = ipaddress.ip_address(peer[0].partition("%")[0])
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
