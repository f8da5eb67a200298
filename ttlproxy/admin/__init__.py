"""HTTP for operators of the proxy: a table of `routes`, served by a separate `thread`.

The status page, the metrics and the probes show a process through `process_state`, which answers at
once: no page waits for the proxy or calls into its event loop. Queries to Redis use a separate
connection (`redis_queries`).
"""

from ttlproxy.admin.process_state import Subject
from ttlproxy.admin.thread import Admin

__all__ = ["Admin", "Subject"]
