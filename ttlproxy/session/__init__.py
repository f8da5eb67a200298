"""One client's conversation, without I/O: bytes in, bytes out, or "reap these first".

`session` takes chunks and passes the common ones on unread. `rewrite` says what goes to Redis in
place of one request. `connection_commands` has the commands that change what later ones mean; they
change the `state`. `effects` are what must be done besides sending the requests: `transaction`
keeps them until EXEC, and a `step` returns them with the bytes for Redis.

Knows commands and script calls. Knows no socket, no clock and no Redis connection.
"""

from ttlproxy.session.session import QUIT, Session
from ttlproxy.session.state import Wait
from ttlproxy.session.step import Step

__all__ = ["QUIT", "Session", "Step", "Wait"]
