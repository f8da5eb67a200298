"""At most three unpaid orders a user, for half an hour each. Late ones go to a stream."""

import json
import os

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

LATE = "orders:late"
r = redis.Redis.from_url(
    os.environ.get("REDIS_URL", "redis://127.0.0.1:6380"),
    decode_responses=True,
    retry=Retry(NoBackoff(), 0),  # else it may send a request twice
)


def set_up():
    """Rule and consumer group are stored in Redis: once is enough, and more does no harm."""
    r.execute_command("ONEXPIRE", "unpaid:*", "XADD", LATE, "MAXLEN", "~", 1_000_000)
    try:
        r.xgroup_create(LATE, "cancel", id="0", mkstream=True)
    except redis.ResponseError as refused:
        if not str(refused).startswith("BUSYGROUP"):  # it is there already
            raise


def place(user, order, content, ttl_ms=1_800_000):
    """1: placed, 0: there is an order of that name, -1: the user has three."""
    words = ("FNX", "MAXLEN", 3, "PX", ttl_ms, "FIELDS", 1, order, json.dumps(content))
    return r.execute_command("HSETEX", f"unpaid:{user}", *words)


def pay(user, order):
    """False: it was too late, and the order is in the stream, or it was paid before."""
    return r.hdel(f"unpaid:{user}", order) == 1


def late_orders(consumer):
    """Yields (user, order, content) for ever; first what this consumer had when it was killed.

    An order is acknowledged when the next one is asked for.
    """
    start = "0"
    while True:
        for _, entries in r.xreadgroup("cancel", consumer, {LATE: start}, block=4000) or ():
            start = start if entries else ">"
            for entry, late in entries:
                user = late["key"].removeprefix("unpaid:")
                yield user, late["element"], json.loads(late["value"])
                r.xack(LATE, "cancel", entry)


if __name__ == "__main__":
    set_up()
    print([place(42, f"order{n}", {"sku": n}) for n in range(1, 5)])  # [1, 1, 1, -1]
    print(pay(42, "order1"), pay(42, "order1"))  # True False
    print(place(42, "order4", {"sku": 4}, ttl_ms=50))  # 1
    print(next(late_orders("consumer-1")))  # ('42', 'order4', {'sku': 4})
    print(pay(42, "order4"))  # False
