"""All sessions of a user in one hash. Each ends half an hour after its last use."""

import json
import os
import secrets

import redis

r = redis.Redis.from_url(
    os.environ.get("REDIS_URL", "redis://127.0.0.1:6380"), decode_responses=True
)
SECONDS = 1800


def log_in(user, content):
    """Returns the token. A user has five sessions: a sixth ends the one that would end first."""
    token = secrets.token_urlsafe()
    words = ("MAXLEN", 5, "EVICT", "EX", SECONDS, "FIELDS", 1, token, json.dumps(content))
    r.execute_command("HSETEX", f"sessions:{user}", *words)
    return token


def use(user, token):
    """The content of the session, which gets its full time again; None if it has ended."""
    words = ("EX", SECONDS, "FIELDS", 1, token)
    (found,) = r.execute_command("HGETEX", f"sessions:{user}", *words)
    return found and json.loads(found)


def log_out(user, *tokens):
    return r.hdel(f"sessions:{user}", *tokens)


def log_out_everywhere(user):
    r.delete(f"sessions:{user}")


if __name__ == "__main__":
    phone, tablet = (log_in(42, {"device": device}) for device in ("phone", "tablet"))
    print(use(42, phone))  # {'device': 'phone'}
    print(r.execute_command("HTTLFIELD", "sessions:42", phone) > 1700)  # True
    print(log_out(42, tablet), use(42, tablet))  # 1 None
    for _ in range(5):
        log_in(42, {"device": "another"})
    print(r.hlen("sessions:42"), use(42, phone))  # 5 None
    log_out_everywhere(42)
    print(r.exists("sessions:42"))  # 0
