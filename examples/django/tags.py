"""Django's Redis cache with tags. An entry leaves its tags when it expires.

In the settings, if this file is in the package `shop`:
CACHES = {"default": {"BACKEND": "shop.tags.TaggedCache", "LOCATION": "redis://127.0.0.1:6380"}}
"""

import os

from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.redis import RedisCache


class TaggedCache(RedisCache):
    def set(self, key, value, timeout=DEFAULT_TIMEOUT, version=None, tags=()):
        """As Django's. `tags`: names for delete_tag."""
        seconds = self.get_backend_timeout(timeout)  # None: for ever, 0: not at all
        if not tags or seconds == 0:
            super().set(key, value, timeout, version)
            return
        name = self.make_and_validate_key(key, version=version)
        with self._cache.get_client(name, write=True).pipeline(transaction=True) as together:
            together.set(name, self._cache._serializer.dumps(value), ex=seconds)
            for tag in map(self._tag, tags):
                words = ("SADD", tag) if seconds is None else ("SADDEX", tag, seconds)
                together.execute_command(*words, name)
            together.execute()

    def delete_tag(self, tag):
        """Deletes the entries with this tag, and says how many there were."""
        tag = self._tag(tag)
        client = self._cache.get_client(tag, write=True)
        names = client.smembers(tag)
        if not names:
            return 0
        with client.pipeline(transaction=True) as together:
            together.delete(*names).srem(tag, *names)
            return together.execute()[0]

    def _tag(self, tag):
        return self.make_and_validate_key(f"_tag:{tag}")


if __name__ == "__main__":
    from django.conf import settings

    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6380")
    settings.configure(CACHES={"default": {"BACKEND": "__main__.TaggedCache", "LOCATION": url}})
    from django.core.cache import cache

    cache.set("front", {"products": [7, 8]}, 60, tags=["product:7", "product:8"])
    cache.set("page", "of product 7", 60, tags=["product:7"])
    cache.set("about", "us", 60)
    print(cache.delete_tag("product:7"), cache.delete_tag("product:7"))  # 2 0
    print(cache.get("front"), cache.get("page"), cache.get("about"))  # None None us
    cache.set("front", [8], timeout=None, tags=["product:8"])
    print(cache.get("front"), cache.delete_tag("product:8"))  # [8] 1
