"""HTTP for those who operate the proxy: a table of `routes`, served by a `thread` of its own.

With a loop of its own it answers when the proxy's is stuck, and says so. What it tells it is asked
of a `subject`, whose answers are ready at any time: no page waits for the proxy, and none calls
Redis where it can tell without. To add a page, add a row to the table.
"""

from ttlproxy.admin.subject import Subject
from ttlproxy.admin.thread import Admin

__all__ = ["Admin", "Subject"]
