"""One client's conversation, without I/O: bytes in, bytes out, or "reap these first".

`session` takes chunks and lets the common ones pass, `decisions` says what goes to Redis in place
of one request, `changes` has the commands that change what later ones mean. `state` is what those
change; `errands` are what has to be done beside requests, `transaction` keeps them for EXEC, and a
`step` hands them over, with the bytes that go to Redis.

Knows what each request may do to deadlines. Knows no socket, and of time only what a function says
that it is given: ms of the Redis server's clock. It never sees a reply, so nothing here depends on
whether a request succeeded.
"""

from ttlproxy.session.session import QUIT, Session
from ttlproxy.session.state import Wait
from ttlproxy.session.step import Step

__all__ = ["QUIT", "Session", "Step", "Wait"]
