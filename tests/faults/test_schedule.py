"""The schedule changed by others: deleted, or with scores that only a person would write."""

from contextlib import closing

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.containers import AnyServer
from tests.support.deadlines import BOUNDED
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.server_queries import calls
from ttlproxy.core.keys import Keys

ODD = ["1.5", "4102444800000.5", "1e300", "inf", "-inf"]


@pytest.mark.parametrize("db", [0, 3])
def test_a_schedule_that_was_deleted_is_rebuilt(app: Connection, direct: Client, db: int) -> None:
    for client in (app, direct):
        client.ask("SELECT", db)
    app.ask("HSETEX", "h", *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v")
    app.ask("SADDEX", "s", "EX", 1000, "MEMBERS", 1, "m")
    direct.ask("ZADD", Keys().index(b"h"), 1, "f")
    direct.ask("DEL", Keys().schedule)
    wait_until(lambda: direct.ask("EXISTS", "h") == 0, "h reaped")
    wait_until(lambda: direct.ask("ZCARD", Keys().schedule) == 1, "s in the schedule")
    deadline = direct.ask("ZSCORE", Keys().index(b"s"), "m")
    assert direct.ask("ZSCORE", Keys().schedule, "s") == deadline


def test_what_no_schedule_has_is_found_in_all_databases_however_much_there_is(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server, sizes = start_server(), {0: 700, 3: 1, 5: 20}
    with closing(Client(server.port)) as direct:
        for db, size in sizes.items():
            direct.ask("SELECT", db)
            for key in (b"s%d" % number for number in range(size)):
                direct.ask("SADD", key, "m")
                direct.ask("ZADD", Keys().index(key), 1 << 42, "m")
        start_proxy(server.url)
        for db, size in sizes.items():
            direct.ask("SELECT", db)
            wait_until(lambda: _scheduled(direct) == size, f"{size} keys in {db}")  # noqa: B023


def test_in_the_place_of_another_key_the_schedule_is_made_anew_with_all_that_belongs_there(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """Where the proxy may not call ZMSCORE, it looks for nothing that the schedule lacks."""
    server, keys = start_server(), [f"s{number}" for number in range(2500)]
    with closing(Client(server.port)) as direct:
        direct.ask("ACL", "SETUSER", "default", "-zmscore")
        with Connection(start_proxy(server.url).port) as app:
            app.send(b"".join(command("SADDEX", key, 1000, "m") for key in keys))
            app.read_many(len(keys))
        for _ in range(2):
            direct.ask("SET", Keys().schedule, "another key")
            wait_until(lambda: direct.ask("TYPE", Keys().schedule) == b"zset", "it replaced")
            wait_until(lambda: _scheduled(direct) == len(keys), "all keys in it")


def test_what_has_no_index_is_not_put_into_the_schedule(app: Connection, direct: Client) -> None:
    for name in (b"__ttl:other", b"__ttl:{x}:h", b"__ttl:t:{h"):
        direct.ask("ZADD", name, 1, "f")
    direct.ask("SET", Keys().index(b"text"), "no index")
    app.ask("HSETEX", "h", *BOUNDED, "EX", 1000, "FIELDS", 1, "f", "v")
    direct.ask("DEL", Keys().schedule)
    wait_until(lambda: direct.ask("EXISTS", Keys().schedule) == 1, "h in the schedule")
    assert direct.ask("ZRANGE", Keys().schedule, 0, -1) == [b"h"]


@pytest.mark.parametrize("score", ODD)
def test_a_score_that_is_no_whole_number_stops_nobody(
    server: AnyServer, start_proxy: StartProxy, direct: Client, score: str
) -> None:
    direct.ask("SADD", "odd", "m")
    direct.ask("ZADD", Keys().index(b"odd"), score, "m")
    direct.ask("ZADD", Keys().schedule, score, "odd")
    with Connection(start_proxy(server.url).port) as app:
        app.ask("HSETEX", "h", *BOUNDED, "PX", 20, "FIELDS", 1, "f", "v")
        wait_until(lambda: direct.ask("EXISTS", "h") == 0, "h reaped")
        there = 0 if float(score) < 2 else 1
        wait_until(lambda: direct.ask("EXISTS", "odd") == there, "odd as its deadline says")
        assert app.ask("EXISTS", "odd") == b":%d\r\n" % there


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
    start_server: StartServer, start_proxy: StartProxy, words: tuple[str, ...]
) -> None:
    """It writes no schedule entry, announces nothing, and makes no test write for rights."""
    server = start_server()
    with Connection(start_proxy(server.url).port) as app, Connection(server.port) as direct:
        app.ask("HSETEX", "k", *BOUNDED, "EX", 1000, "FIELDS", 2, "e", "v", "f", "v")
        direct.ask("CONFIG", "RESETSTAT")
        app.ask(*words)
        assert calls(server.port, "zadd") == 1
        assert calls(server.port, "set") == calls(server.port, "del") == 0


def _scheduled(direct: Client) -> int:
    count: int = direct.ask("ZCARD", Keys().schedule)
    return count
