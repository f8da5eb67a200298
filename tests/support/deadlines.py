"""Deadlines in Redis: read past the proxy, and waited for by Redis's clock."""

from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client, milliseconds
from ttlproxy.core.keys import Keys

# Words of HSETEX behind its key. No server's own HSETEX has them, so the deadline is ttlproxy's.
BOUNDED = ("MAXLEN", 1000)


def deadline_ms_of(direct: Connection, key: str, element: str) -> int:
    """The deadline of an element, read from the key's index."""
    (index,) = [
        name
        for name in direct.ask("KEYS", f"__ttl:*:{key}").split(b"\r\n")[2::2]
        if not name.startswith(b"__ttl:!")
    ]
    return int(direct.ask("ZSCORE", index, element).split(b"\r\n")[1])


def give_one_of_all(direct: Client) -> None:
    """A member gets a deadline, past the proxies. Its key begins with a digit, so it is of the
    family of all keys, which proxies know from their start on: each key may have deadlines."""
    keys, far_ms = Keys(), 4_000_000_000_000
    direct.ask("SADD", "1", "member")
    direct.ask("ZADD", keys.index(b"1"), far_ms, "member")
    direct.ask("ZADD", keys.schedule, far_ms, "1")


def has_ttl(reply: bytes | int, seconds: int) -> bool:
    """Whether a reply to a TTL command is that of a deadline that this test set: a slow machine may
    have taken some of the seconds."""
    left = reply if isinstance(reply, int) else int(reply.removeprefix(b":"))
    return seconds - 30 < left <= seconds


def until_past(direct: Connection, deadline_ms: int) -> None:
    """Returns when Redis's clock is past the deadline."""

    def now_ms() -> int:
        _, _, seconds, _, microseconds, _ = direct.ask("TIME").split(b"\r\n")
        return milliseconds(seconds, microseconds)

    wait_until(lambda: now_ms() > deadline_ms, "the deadline")
