"""POST /quitquitquit ends the proxy over HTTP. It is off unless it was set up.

The client's address proves nothing: another process on the same machine or in the same pod may
forward requests of others from a loopback address. So the request needs a token, or a unix socket,
whose permissions say who may use it.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from ttlproxy.addresses import SecretFile
from ttlproxy.admin.process_state import Stop

_HOW: Final = (
    "POST /quitquitquit is off: set quit_token_file and send its token as 'Authorization: Bearer"
    " ...', or set admin to a unix socket\n"
)
_WRONG: Final = "send the token of quit_token_file as 'Authorization: Bearer ...'\n"
_BROWSER: Final = "requests from a browser cannot stop the proxy\n"
_SCHEME: Final = "bearer"


@dataclass(frozen=True)
class End:
    """stop: ends the proxy; token: what a request must send; by_socket: admin is a unix socket,
    which needs a token only if one is set."""

    stop: Stop
    token: SecretFile | None
    by_socket: bool

    def why_not(self, request: web.Request) -> str:
        """Why this request may not end the proxy; empty if it may."""
        if "Origin" in request.headers or "Sec-Fetch-Site" in request.headers:
            return _BROWSER
        if self.token is None:
            return "" if self.by_socket else _HOW
        return "" if _shows(request, self.token.read()) else _WRONG


END: Final = web.AppKey("end", End)


async def quitquitquit(request: web.Request) -> web.Response:
    end = request.app[END]
    if why_not := end.why_not(request):
        raise web.HTTPForbidden(text=why_not)
    end.stop()
    return web.Response(text="draining\n")


def _shows(request: web.Request, token: str) -> bool:
    scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
    # In constant time, so that the time of a refusal reveals no byte of the token.
    is_right = hmac.compare_digest(_bytes(shown), _bytes(token))
    return scheme.lower() == _SCHEME and is_right


def _bytes(text: str) -> bytes:
    """aiohttp decodes bytes of a header that are not UTF-8 as surrogates."""
    return text.encode("utf-8", "surrogateescape")
