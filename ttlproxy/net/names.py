"""Names to numeric addresses. Knows no Redis."""

from __future__ import annotations

import asyncio
import ipaddress
import socket


def is_number(host: str) -> bool:
    """Whether it is an address itself, and no name."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


async def numbers(host: str, port: int) -> list[str]:
    """The numeric addresses of a host now, in the order to try them. Raises OSError."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as trouble:
        raise OSError(f"the name {host} is not found: {trouble.strerror}") from trouble
    return list(dict.fromkeys(str(where[0]) for *_, where in found))
