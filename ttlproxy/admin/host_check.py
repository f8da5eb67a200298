"""Checks the Host header, so that another site cannot read these pages by DNS rebinding."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
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
        if is_open or _is_known(request.host, listen.host):
            return await handler(request)
        raise web.HTTPMisdirectedRequest(text="use an IP address or localhost in the URL\n")

    return guarded


_NAMES: Final = ("localhost", "localhost.", "")
# Nothing may follow the host but a port.
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
