"""Users seen within the last minute, with a message when one has left."""

import os

import redis

r = redis.Redis.from_url(
    os.environ.get("REDIS_URL", "redis://127.0.0.1:6380"), decode_responses=True
)


def set_up():
    """Once: the rule is stored in Redis."""
    r.execute_command("ONEXPIRE", "online", "PUBLISH", "presence:left")


def seen(user, ttl_ms=60_000):
    """True if the user has just come."""
    return r.execute_command("SADDEX", "online", "PX", ttl_ms, "MEMBERS", 1, user) == 1


def left():
    """An iterator over the users who leave from now on."""
    messages = r.pubsub(ignore_subscribe_messages=True)
    messages.subscribe("presence:left")
    messages.get_message(timeout=10)  # returns when it is subscribed
    return (message["data"] for message in messages.listen())


if __name__ == "__main__":
    set_up()
    leaving = left()
    print(seen("ann"), seen("ann"), seen("bob", ttl_ms=50))  # True False True
    print(next(leaving))  # bob
    print(r.smembers("online"))  # {'ann'}
