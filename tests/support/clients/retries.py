"""redis-py and Celery for tests/faults/test_client_retries.py.

retries.py <client> <usual or safe> <port> sends each line of its input over a client of its own,
and prints the reply, or `error`.
"""

import sys

from celery import Celery
from kombu.exceptions import OperationalError
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

_, client, settings, port = sys.argv
SAFE = settings == "safe"


def redis_py(words: list[str]) -> object:
    options = {"retry": Retry(NoBackoff(), 0)} if SAFE else {}
    with Redis(port=int(port), **options) as redis:  # type: ignore[arg-type]
        if words[0] != "MULTI":
            return redis.execute_command(*words)
        with redis.pipeline() as together:
            return together.execute_command(*words[1:]).execute()


def celery(words: list[str]) -> object:
    """Sends a task to the queue that the line names."""
    app = Celery(broker=f"redis://127.0.0.1:{port}/0", set_as_current=False)
    app.conf.task_publish_retry = not SAFE
    return app.send_task("task", queue=words[0]).id


for line in sys.stdin:
    try:
        print({"redis-py": redis_py, "Celery": celery}[client](line.split()), flush=True)
    except (RedisError, OperationalError):
        print("error", flush=True)
