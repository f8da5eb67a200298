"""redis-py for tests/faults/test_client_retries.py: retries.py <client> <usual or safe> <port>.

Sends each line of its input over a client of its own, and prints the reply, or `error`.
"""

import sys

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

_, _, settings, port = sys.argv
for line in sys.stdin:
    words = line.split()
    safe = {"retry": Retry(NoBackoff(), 0)} if settings == "safe" else {}
    with Redis(port=int(port), **safe) as client:  # type: ignore[arg-type]
        try:
            if words[0] == "MULTI":
                with client.pipeline() as together:
                    print(together.execute_command(*words[1:]).execute(), flush=True)
            else:
                print(client.execute_command(*words), flush=True)
        except RedisError:
            print("error", flush=True)
