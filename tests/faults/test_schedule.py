"""The schedule changed by others: deleted, or with scores that only a person would write."""

import pytest

from tests.conftest import StartProxy
from tests.support.containers import AnyServer
from tests.support.deadlines import BOUNDED
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.server_queries import called_by_script
from ttlproxy.core.keys import Keys

ODD = ["1.5", "4102444800000.5", "1e300", "inf", "-inf"]


def test_a_schedule_that_was_deleted_is_rebuilt(app: Connection, direct: Client) -> None:
    for client in (app, direct):
        client.ask("SELECT", 3)
    app.ask("HSETEX", "h", *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v")
    app.ask("SADDEX", "s", "EX", 1000, "MEMBERS", 1, "m")
    direct.ask("ZADD", Keys().index(b"h"), 1, "f")
    direct.ask("DEL", Keys().schedule)
    wait_until(lambda: direct.ask("EXISTS", "h") == 0, "h reaped")
    wait_until(lambda: direct.ask("ZCARD", Keys().schedule) == 1, "s in the schedule")
    deadline = direct.ask("ZSCORE", Keys().index(b"s"), "m")
    assert direct.ask("ZSCORE", Keys().schedule, "s") == deadline


def test_what_has_no_index_is_not_put_into_the_schedule(app: Connection, direct: Client) -> None:
    for name in (b"__ttl:other", b"__ttl:{x}:h", b"__ttl:t:{h"):
        direct.ask("ZADD", name, 1, "f")
    direct.ask("SET", Keys().index(b"text"), "no index")
    app.ask("HSETEX", "h", *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v")
    direct.ask("DEL", Keys().schedule)
    wait_until(lambda: direct.ask("EXISTS", Keys().schedule) == 1, "h in the schedule")
    assert direct.ask("ZRANGE", Keys().schedule, 0, -1) == [b"h"]


def test_a_score_that_is_no_whole_number_stops_nobody(serve: StartProxy, direct: Client) -> None:
    for score in ODD:
        direct.ask("SADD", score, "m")
        direct.ask("ZADD", Keys().index(score.encode()), score, "m")
        direct.ask("ZADD", Keys().schedule, score, score)
    with Connection(serve().port) as app:
        app.ask("HSETEX", "h", *BOUNDED, "PX", 20, "FIELDS", 1, "f", "v")
        wait_until(lambda: direct.ask("EXISTS", "h") == 0, "h reaped")
        past = [score for score in ODD if float(score) < 2]
        wait_until(lambda: direct.ask("EXISTS", *past) == 0, "those of the past gone")
        there = [app.ask("EXISTS", score) for score in ODD]
        assert there == [b":0\r\n" if score in past else b":1\r\n" for score in ODD]


@pytest.mark.parametrize(
    "words",
    [
        ("HSETEX", "k", "EX", "2000", "FIELDS", "1", "g", "v"),
        ("HEXPIREFIELD", "k", "f", "2000"),
        ("HGETEX", "k", "EX", "2000", "FIELDS", "1", "f"),
    ],
    ids=lambda words: words[0],
)
def test_a_deadline_that_is_not_the_first_writes_the_index_and_nothing_else(
    app: Connection, server: AnyServer, words: tuple[str, ...]
) -> None:
    """It writes no schedule entry, announces nothing, and makes no test write for rights."""
    app.ask("HSETEX", "k", *BOUNDED, "EX", 1000, "FIELDS", 2, "e", "v", "f", "v")
    called = called_by_script(server.port, app, *words)
    assert called.count(b"zadd") == 1
    assert not {b"set", b"del"}.intersection(called)
