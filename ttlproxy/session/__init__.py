"""One client's conversation, without I/O: bytes in, bytes out, or "reap these first".

`session` takes chunks; `passing` passes the common ones on unchanged, and `sharing` says what may
go over a shared connection. `rewrite` says what goes to Redis in place of one request.
`connection_commands` handles the commands that change what later ones mean; they change the
`state`. `effects` are what must be done besides sending the requests: a transaction keeps them
until EXEC, and a step returns them with the bytes for Redis. `replies` reads the replies that
change the state.

Knows commands and script calls. Knows no socket, no clock and no Redis connection.
"""

from ttlproxy.session.effects import Step, Wait
from ttlproxy.session.session import QUIT, Session

__all__ = ["QUIT", "Session", "Step", "Wait"]
