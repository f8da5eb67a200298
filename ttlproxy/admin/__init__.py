"""HTTP for operators of the proxy: a table of `routes`, served by a separate `thread`.

The status page, the metrics and the probes show a subject of `telemetry`, which answers at once: no
page waits for the proxy or calls into its event loop. Queries to Redis use a separate connection
(`redis_queries`).
"""

from ttlproxy.admin.thread import Admin

__all__ = ["Admin"]
