"""Rules on servers that keep deadlines of fields themselves: such a server must not remove a field
that a rule must hand on. On other servers these commands are ours anyway."""

from __future__ import annotations

import itertools

import pytest

from tests.support.containers import AnyServer
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.server_queries import received


@pytest.mark.usefixtures("redis_8s_words")
def test_deadlines_that_were_there_before_the_rule_become_ours(
    app: Connection, direct: Client
) -> None:
    fields = [b"%d" % number for number in range(1200)]
    for key in ("h:1", "h:2"):
        app.ask("HSET", key, *(word for field in fields for word in (field, "v")))
        app.ask("HPEXPIRE", key, 1_000_000, "FIELDS", len(fields), *fields)
        app.ask("HSET", key, "stays", 1)
    app.ask("ONEXPIRE", "h:*", "RPUSH", "late:%1")

    def is_ours(key: str) -> bool:
        return not _has(direct) or direct.ask("HTTL", key, "FIELDS", 1, "1199") == [-1]

    wait_until(lambda: is_ours("h:1") and is_ours("h:2"), "them ours")
    for key in ("h:1", "h:2"):
        reply = app.ask("HTTL", key, "FIELDS", len(fields), *fields)
        left = [int(line[1:]) for line in reply.split(b"\r\n")[1:-1]]
        assert len(left) == len(fields)
        assert all(900 < seconds <= 1000 for seconds in left)


def _has(direct: Client) -> bool:
    return isinstance(direct.ask("HTTL", "h:1", "FIELDS", 1, "7"), list)


def test_without_a_rule_the_server_answers_itself(
    app: Connection, server: AnyServer, direct: Client
) -> None:
    if not _has(direct):
        return
    app.ask("ONEXPIRE", "x*", "KEEP")
    # Each of a family of its own, as a try may leave one with deadlines.
    keys = map("".join, itertools.product("abc", repeat=5))

    def passes() -> bool:
        key = next(keys)
        app.ask("HSET", key, "f", "v")
        words = ("HEXPIRE", key, "100", "FIELDS", "1", "f")
        return received(server.port, app, *words) == [b"hexpire"]

    wait_until(passes, "the rules read")
