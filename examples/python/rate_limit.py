"""Three limits: a steady rate with bursts, so many in a second, so many at a time."""

import os

import redis

r = redis.Redis.from_url(
    os.environ.get("REDIS_URL", "redis://127.0.0.1:6380"), decode_responses=True
)


def wait_s(key, burst, count, period_s):
    """0: go on; else in how many seconds to try again. `burst`: so many at once, after a rest.

    CL.THROTTLE takes the number beyond the first: with 15 it allows 16.
    """
    limited, _, _, retry_s, _ = r.execute_command("CL.THROTTLE", key, burst - 1, count, period_s)
    return retry_s if limited else 0


def allowed(key, most, period_s):
    """Whether it is one of the first `most` of a period, which begins with its first."""
    words = ("BYINT", 1, "UBOUND", most, "EX", period_s, "ENX")
    _, added = r.execute_command("INCREX", key, *words)
    return added == 1


def begin(key, name, most, ttl_s):
    """True: `name` may work, until it calls `end` or `ttl_s` are over. False: `most` others do."""
    words = ("MAXLEN", most, "EX", ttl_s, "MEMBERS", 1, name)
    return r.execute_command("SADDEX", key, *words) != -1


def end(key, name):
    """False: it took longer than its time, so there may have been too many."""
    return r.srem(key, name) == 1


if __name__ == "__main__":
    waits = [wait_s("pay:ann", 15, 30, 3600) for _ in range(16)]
    print(waits.count(0), 0 < waits[15] <= 120)  # 15 True
    print([allowed("login", 3, 60) for _ in range(4)])  # [True, True, True, False]
    print([begin("export", name, 2, 60) for name in ("a", "b", "c")])  # [True, True, False]
    print(end("export", "a"), end("export", "a"), begin("export", "c", 2, 60))  # True False True
