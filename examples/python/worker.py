"""A worker: takes tasks from a list, one at a time. Start as many as you like, where you like.

`LPUSH tasks mail:1` gives them a task. The name of a task must be its own.
"""

import os
import signal
import threading
import time
from contextlib import contextmanager, suppress

import redis

TASKS, BUSY, RESULTS = "tasks", "tasks:busy", "tasks:results"
LEASE_S, RENEW_S, RETRY_S, DAY_S = 10, 1, 1, 86400
r = redis.Redis.from_url(
    os.environ.get("REDIS_URL", "redis://127.0.0.1:6380"), decode_responses=True
)


def work(task):
    """Yours. It may take as long as it likes, and raises if it fails."""
    if not task.startswith("mail:"):
        raise ValueError("no such task")
    time.sleep(2)
    return "sent"


def set_up():
    """A task whose lease ends goes back to the list, the fourth time to the dead letters."""
    r.execute_command("ONEXPIRE", BUSY, "RPUSH", TASKS, "MAX", 3, "ELSE", "tasks:dead")


class Lease:
    """Of a task. The token is that of this lease: nobody else's is renewed or ended with it."""

    def __init__(self, task, token):
        self.task, self.token = task, token

    def renew(self, seconds=LEASE_S):
        """False: the lease is over, so another worker has the task, or will have it."""
        token = r.execute_command("RENEW", BUSY, self.token, self.task, "EX", seconds)
        self.token = token or self.token
        return token is not None

    def end(self):
        r.execute_command("UNLEASE", BUSY, self.token, self.task)


def lease():
    """Of the next task; None if there was none for two seconds."""
    leased = r.execute_command("LEASE", TASKS, BUSY, "EX", LEASE_S, "BLOCK", 2000, "TOKEN")
    return leased and Lease(*leased)


@contextmanager
def renewing(leased):
    """Renews the lease in a thread."""
    ended = threading.Event()

    def loop():
        while not ended.wait(RENEW_S):
            with suppress(redis.RedisError):
                if not leased.renew():
                    return

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def finish(leased, result):
    """The fence: if several workers had the task, the first result counts. True: it is this one."""
    words = ("FNX", "EX", DAY_S, "FIELDS", 1, leased.task, result)
    first = r.execute_command("HSETEX", RESULTS, *words)
    leased.end()
    return first == 1


def run(leased):
    task = leased.task
    try:
        with renewing(leased):
            result = r.hget(RESULTS, task) or work(task)
    except Exception as error:
        leased.renew(RETRY_S)  # it goes back to the list then
        print(f"{task} failed: {error}", flush=True)
    else:
        print(f"{task} is done" if finish(leased, result) else f"{task} was done", flush=True)


if __name__ == "__main__":
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    set_up()
    while not stop.is_set():
        try:
            if leased := lease():
                run(leased)
        except redis.RedisError as error:  # the lease of a task ends by itself
            print(error, flush=True)
            stop.wait(1)
