"""COPY, MOVE and MIGRATE of keys with deadlines, in one database and across."""

from __future__ import annotations

import pytest

from tests.support.containers import AnyServer
from tests.support.conversation import hold
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import until_swept


@pytest.mark.parametrize("refused", ["MOVE k 99", "MOVE k -1", "MOVE k x", "MOVE k 99999999999",
                                     "COPY k new DB -1", "COPY k new DB 99999999999",
                                     "COPY k new DB 99"])  # fmt: skip
def test_a_database_that_is_not_there_is_refused_in_redis_own_words(
    app: Connection, server: AnyServer, direct: Client, refused: str
) -> None:
    app.ask("SADDEX", "k", 100, "a")
    with Connection(server.port) as native:
        assert app.ask(*refused.split()) == native.ask(*refused.split())
    hold(app, direct, "STTLMEMBER k a -> 100")


def test_a_migrated_key_leaves_its_deadlines_and_its_index_is_swept(
    app: Connection, plain: AnyServer, direct: Client
) -> None:
    hold(
        app,
        direct,
        f"""
        SADDEX s 100 a b                    -> 2
        SADDEX s PX 20 MEMBERS 1 c          -> 1
        wait 20
        MIGRATE 127.0.0.1 {plain.port} s 0 5000 -> OK
        EXISTS s                            -> 0
        SADD s a                            -> 1
        STTLMEMBER s a                      -> -1
    """,
    )
    there = Client(plain.port)
    assert sorted(there.ask("SMEMBERS", "s")) == [b"a", b"b"]
    assert there.ask("DBSIZE") == 1
    there.close()
    until_swept(direct)
