"""A leaderboard: of equal scores, the one that was reached first is ahead. It ends after a week."""

import os

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

r = redis.Redis.from_url(
    os.environ.get("REDIS_URL", "redis://127.0.0.1:6380"),
    decode_responses=True,
    retry=Retry(NoBackoff(), 0),  # else it may send a request twice
)
WEEK_S = 7 * 24 * 3600


def won(board, player, points):
    """The new score. Scores are integers of 64 bits, which replies give as strings."""
    with r.pipeline(transaction=True) as together:
        together.execute_command("LBINCRBY", board, points, player)
        together.expire(board, WEEK_S, nx=True)
        return int(together.execute()[0])


def rows(command, board, *words):
    """[(place, player, score)], the best first; the best has place 1."""
    found = r.execute_command(command, board, *words)
    return [(rank + 1, player, int(score)) for rank, player, score in found]


def best(board, count):
    return rows("LBTOP", board, 0, count - 1)


def around(board, player, count):
    """The player's row, with `count` rows above and below."""
    return rows("LBAROUND", board, player, count)


if __name__ == "__main__":
    for player in ("ada", "bob", "cy"):
        won("week:1", player, 100)
    print(won("week:1", "cy", 50))  # 150
    print(best("week:1", 2))  # [(1, 'cy', 150), (2, 'ada', 100)]
    print(around("week:1", "bob", 1))  # [(2, 'ada', 100), (3, 'bob', 100)]
    print(r.execute_command("LBRANK", "week:1", "nobody"))  # None
