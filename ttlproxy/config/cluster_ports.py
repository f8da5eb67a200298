"""The ports of the nodes that clients of a Cluster find, if these are several: those after the port
of an address, `listen` or the announced one.
"""

from ttlproxy.addresses import Listen

# So many masters has the smallest Cluster that can elect one.
_NODES = 3
_HIGHEST_PORT = 65535


def ports_after(address: Listen, count: int | None) -> range:
    """`count`: how many, if that is set. Raises ValueError if there are not so many."""
    ports = range(address.port + 1, address.port + 1 + (count or _NODES))
    if ports[-1] > _HIGHEST_PORT:
        raise ValueError(f"there are no {len(ports)} ports after {address.port}")
    return ports
