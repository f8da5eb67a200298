"""Flask: pages are cached with tags, and a page leaves its tags when it expires."""

import functools
import os

import redis
from flask import Flask, request

app = Flask(__name__)
r = redis.Redis.from_url(
    os.environ.get("REDIS_URL", "redis://127.0.0.1:6380"), decode_responses=True
)


def cached(ttl_s, *tags):
    """Caches what a view returns, by its path. `{name}` in a tag is an argument of the view."""

    def decorate(view):
        @functools.wraps(view)
        def look(**arguments):
            page = r.get(f"page:{request.path}")
            if page is None:
                page = view(**arguments)
                with r.pipeline(transaction=True) as together:
                    together.set(f"page:{request.path}", page, ex=ttl_s)
                    for tag in tags:
                        name = f"tag:{tag.format(**arguments)}"
                        together.execute_command("SADDEX", name, ttl_s, request.path)
                    together.execute()
            return page

        return look

    return decorate


def invalidate(tag):
    """Deletes the pages with this tag."""
    paths = r.smembers(f"tag:{tag}")
    if paths:
        with r.pipeline(transaction=True) as together:
            together.delete(*(f"page:{path}" for path in paths)).srem(f"tag:{tag}", *paths)
            together.execute()


@app.get("/products/<name>")
@cached(60, "product:{name}")
def product(name):
    return f"{name} costs {r.hget('prices', name)}"


@app.get("/prices")
@cached(60, "prices")
def prices():
    return str(r.hgetall("prices"))


@app.post("/prices/<name>/<price>")
def set_price(name, price):
    r.hset("prices", name, price)
    invalidate(f"product:{name}")
    invalidate("prices")
    return "", 204


if __name__ == "__main__":
    client = app.test_client()
    client.post("/prices/pear/1")
    print(client.get("/products/pear").text)  # pear costs 1
    print(client.get("/prices").text)  # {'pear': '1'}
    r.hset("prices", "pear", 2)  # without the cache's knowledge
    print(client.get("/products/pear").text)  # pear costs 1
    client.post("/prices/pear/3")
    print(client.get("/products/pear").text)  # pear costs 3
    print(client.get("/prices").text)  # {'pear': '3'}
