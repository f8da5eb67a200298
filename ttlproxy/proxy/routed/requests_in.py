"""Cuts what a client sends into requests, and keeps those whose turn has not come."""

from __future__ import annotations

from collections import deque

from ttlproxy.session import rewrite
from ttlproxy.wire import Requests

Request = tuple[list[bytes], bytes]
"""The words of a request, and its bytes as they were sent."""


class RequestsIn:
    """
    waiting: whole requests, the oldest first
    ending: bytes that are no request: Redis answers an error, and closes
    """

    def __init__(self, limit: int) -> None:
        """`limit`: the most bytes of one request."""
        self.waiting: deque[Request] = deque()
        self.ending = b""
        self._requests = Requests(limit)
        self._kept = 0  # bytes of those that wait

    def take(self, data: bytes) -> None:
        """Takes bytes from the client."""
        requests = self._requests
        if requests.relay:
            return
        found = requests.exact(requests.feed(data))
        raw, end = requests.raw, 0
        for args, begin, end in found:
            self.waiting.append((args, raw[begin:end]))
        self._kept += end
        if requests.relay:
            self.ending = raw[end:]
        requests.let_go()

    def next(self) -> Request:
        request = self.waiting.popleft()
        self._kept -= len(request[1])
        return request

    def have_gone(self, count: int) -> None:
        """Removes those that have gone from those that wait."""
        for _ in range(count):
            self.next()

    @property
    def is_too_large(self) -> bool:
        """Whether the incomplete request is larger than the limit."""
        return self._requests.excessive

    def skip(self) -> None:
        """Drops the incomplete request, and the rest of it as it comes."""
        self._requests.skip()

    def exceeds_login(self) -> bool:
        """Whether Redis refuses the incomplete request of a client that has not logged in."""
        return self._requests.exceeds(rewrite.WORDS_BEFORE_LOGIN, rewrite.LARGEST_BEFORE_LOGIN)

    def give_up(self) -> None:
        """Redis gets the incomplete request as it is, and refuses it: no more is read."""
        self.ending = self._requests.stream()

    @property
    def is_cut(self) -> bool:
        """Whether a request has begun and not ended."""
        return self._requests.pending

    @property
    def kept(self) -> int:
        """Bytes that are kept."""
        return self._requests.kept + self._kept

    def drop(self) -> None:
        """Forgets all."""
        self._requests.drop()
        self.waiting.clear()
        self._kept = 0
