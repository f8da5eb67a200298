"""Names of servers to numeric addresses. Every connection of ours goes to a numeric one."""

from __future__ import annotations

from ttlproxy.addresses import Address, Upstream
from ttlproxy.link.connecting.reachability import accepts
from ttlproxy.net.names import is_number, numbers
from ttlproxy.net.time_limit import time_limit


async def resolved(upstream: Upstream, timeout_s: float) -> Upstream:
    """The same server with a numeric address: of several, the first that accepts connections.

    Raises OSError if the name is not found.
    """
    if upstream.path or is_number(upstream.host):
        return upstream
    address = Address(upstream.host, upstream.port)
    found = await numbers_in_time(address, timeout_s)
    for number in found[:-1]:
        server = upstream.at(address, number)
        if await accepts(server, timeout_s):
            return server
    return upstream.at(address, found[-1])


async def numbers_in_time(address: Address, timeout_s: float) -> list[str]:
    """The numeric addresses of a host now. Raises OSError."""
    try:
        async with time_limit(timeout_s):
            return await numbers(*address)
    except TimeoutError:
        raise OSError(f"the name {address.host} is not found in time") from None
