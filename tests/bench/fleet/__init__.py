"""A fleet: many proxies attached to one Redis, without clients, on a machine that has room for few.

Some of its members are real: a Link and a Reaper each, many in one process. The others replay what
a real one has sent to Redis when it started, on as many connections, and are silent afterwards:
Redis sees the same requests, sends the same replies, and pushes what it pushes to any proxy.
What the settings of a proxy change in its start is in the recording, so the others follow.
"""

from tests.bench.fleet.fleet import Fleet, Size
from tests.bench.fleet.pings import pinged

__all__ = ["Fleet", "Size", "pinged"]
