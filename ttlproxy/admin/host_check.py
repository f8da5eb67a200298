"""Checks the Host header, so that another site cannot read these pages by DNS rebinding."""

from __future__ import annotations

import ipaddress
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from ttlproxy.addresses import Listen


def guard(listen: Listen) -> Middleware:
    """On a loopback address, refuses a Host that is neither an IP address nor localhost (DNS
    rebinding)."""
    is_open = not listen.is_loopback or bool(listen.path)

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if is_open or _host(request.host) in _NAMES | {listen.host} or _is_ip(_host(request.host)):
            return await handler(request)
        raise web.HTTPMisdirectedRequest(text="use an IP address or localhost in the URL\n")

    return guarded


_NAMES: Final = {"localhost", ""}


def _host(name_and_port: str) -> str:
    """The name or address in a Host header."""
    if name_and_port.startswith("["):
        return name_and_port[1:].partition("]")[0]
    return name_and_port.partition(":")[0]


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
