"""The proxy's own connections to Redis: load scripts, run one, receive pushes, reconnect.

`connections` opens them, `pushes` receives announcements, `reaps` asks for reaps on behalf of
sessions, `link` holds it all together and starts anew when any of it is lost.
"""

from ttlproxy.link.clock import ServerClock
from ttlproxy.link.connections import client
from ttlproxy.link.link import LAYOUT, Link
from ttlproxy.link.pipeline import Words, run, valid

__all__ = ["LAYOUT", "Link", "ServerClock", "Words", "client", "run", "valid"]
