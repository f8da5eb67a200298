"""HTTP for those who operate the proxy: a table of `routes`, served by a `thread` of its own.

The page, the metrics and the probes are about a process, whose answers (`process_state`) are ready
at any time: no page waits for the proxy, and none calls into its event loop. What is asked of Redis
goes over a connection of the pages' own (`redis_queries`).
"""

from ttlproxy.admin.process_state import Subject
from ttlproxy.admin.thread import Admin

__all__ = ["Admin", "Subject"]
