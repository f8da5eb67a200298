"""TLS, to clients and to Redis: `contexts` reads the files, `transport` carries the bytes."""

from ttlproxy.net.tls.contexts import Contexts, for_clients, for_redis, of_clients, of_redis
from ttlproxy.net.tls.transport import Tls, establish

__all__ = [
    "Contexts",
    "Tls",
    "establish",
    "for_clients",
    "for_redis",
    "of_clients",
    "of_redis",
]
