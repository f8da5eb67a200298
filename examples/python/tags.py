"""A cache with tags. An entry leaves its tags when it expires, so tags do not grow for ever."""

import os

import redis

r = redis.Redis.from_url(
    os.environ.get("REDIS_URL", "redis://127.0.0.1:6380"), decode_responses=True
)


def put(entry, value, ttl_s, *tags):
    with r.pipeline(transaction=True) as together:
        together.set(f"cache:{entry}", value, ex=ttl_s)
        for tag in tags:
            together.execute_command("SADDEX", f"tag:{tag}", ttl_s, entry)
        together.execute()


def get(entry):
    return r.get(f"cache:{entry}")


def with_tags(*tags):
    """The entries that have all these tags."""
    return r.sinter(f"tag:{tag}" for tag in tags)


def invalidate(tag):
    """Deletes the entries with this tag, and says how many there were."""
    entries = r.smembers(f"tag:{tag}")
    if not entries:
        return 0
    with r.pipeline(transaction=True) as together:
        together.delete(*(f"cache:{entry}" for entry in entries))
        together.srem(f"tag:{tag}", *entries)
        return together.execute()[0]


if __name__ == "__main__":
    put("1", "Ruby for all", 3600, "ruby")
    put("2", "Ruby on the web", 60, "ruby", "web")
    print(with_tags("ruby", "web"))  # {'2'}
    print(r.execute_command("STTLMEMBER", "tag:web", "2") <= 60)  # True
    print(invalidate("web"), get("2"), get("1"))  # 1 None Ruby for all
    print(with_tags("web"))  # set()
