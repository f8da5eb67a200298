"""A flash sale: a hash has as many fields as there are items. An unpaid field expires."""

import os

import redis

r = redis.Redis.from_url(
    os.environ.get("REDIS_URL", "redis://127.0.0.1:6380"), decode_responses=True
)


def reserve(sale, buyer, items=3, ttl_ms=900_000):
    """1: reserved, 0: the buyer has one, -1: sold out, for now."""
    words = ("FNX", "MAXLEN", items, "PX", ttl_ms, "FIELDS", 1, buyer, "")
    return r.execute_command("HSETEX", sale, *words)


def pay(sale, buyer):
    """Before the money is taken. 1: sold, -1: sold before, -2: too late."""
    return r.execute_command("HPERSISTFIELD", sale, buyer)


def give_back(sale, buyer):
    return r.hdel(sale, buyer) == 1


if __name__ == "__main__":
    sale = "sale:7"
    buyers = ("ann", "bob", "bob", "cy", "dan")
    print([reserve(sale, buyer) for buyer in buyers])  # [1, 1, 0, 1, -1]
    print(pay(sale, "ann"), pay(sale, "ann"), pay(sale, "dan"))  # 1 -1 -2
    print(give_back(sale, "bob"), reserve(sale, "dan"))  # True 1
    r.execute_command("HEXPIREFIELD", sale, "dan", 0)  # his time is over
    print(pay(sale, "dan"), reserve(sale, "eve"))  # -2 1
    print(sorted(r.hkeys(sale)))  # ['ann', 'cy', 'eve']
