"""Two proxies in front of one Redis: each sees the other's deadlines, whatever it missed."""

import threading
from collections.abc import Iterator

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.deadlines import deadline_ms_of, until_past
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.server_queries import calls, let_beat, until_called_by_digest, until_loaded
from tests.support.servers import Binary, Server
from ttlproxy.core.keys import Keys


def test_a_greeting_that_is_not_taken_back_ends_by_itself(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """As if the proxy was killed between SET and DEL."""
    server = start_server()
    with Connection(server.port) as direct:
        direct.ask("ACL", "SETUSER", "proxy", "on", ">word", "~*", "&*", "+@all", "-del")
        for _ in range(2):  # a lone proxy greets nobody
            start_proxy(f"redis://proxy:word@127.0.0.1:{server.port}")
        wait_until(lambda: calls(server.port, "set") > 0, "the greeting")
        wait_until(lambda: direct.ask("KEYS", "__ttl:!*") == b"*0\r\n", "nothing left of it")


def _busy(port: int, stop: threading.Event) -> None:
    """Sets deadlines on other keys and deletes them, until it is told to stop."""
    with Connection(port) as client:
        while not stop.is_set():
            requests = [("SADDEX", f"busy:{n}", 1000 - n, n) for n in range(5)]
            client.send(b"".join(command(*words) for words in requests))
            client.read_many(len(requests))
            assert client.ask("DEL", *(words[1] for words in requests)).startswith(b":")


@pytest.fixture
def load(three: list[Connection]) -> Iterator[None]:
    """Another client of each proxy that never pauses."""
    stop = threading.Event()
    ports = [client.socket.getpeername()[1] for client in three[:2]]
    threads = [threading.Thread(target=_busy, args=(port, stop)) for port in ports]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join()


# For each type: sets an element with a deadline, writes it again, asks for its deadline.
CHAINS = {
    "hash": ("HSETEX {} EX 1000 FIELDS 1 e 1", ["HSET {} e 2"], "HTTLFIELD {} e"),
    "set": ("SADDEX {} 1000 e", ["SREM {} e", "SADD {} e"], "STTLMEMBER {} e"),
    "zset": ("ZADDEX {} 1000 1 e", ["ZADD {} 2 e"], "ZTTLMEMBER {} e"),
    "list": ("RPUSHEX {} 1000 e", ["LREM {} 0 e", "RPUSH {} e"], "LTTLELEMENT {} e"),
}


@pytest.mark.slow
@pytest.mark.one_of(4)  # how proxies tell each other depends neither on the type nor on the server
@pytest.mark.usefixtures("load")
@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_a_write_through_the_other_proxy_clears_a_deadline_just_set(
    three: list[Connection], chain: tuple[str, list[str], str]
) -> None:
    """The plain write follows the reply to the write with the deadline, 2,000 times in all."""
    dated, written, asked = chain
    for number in range(500):
        one, other = three[:2] if number % 2 else three[1::-1]
        key = f"k:{number}"
        assert one.ask(*dated.format(key).split()) == b":1\r\n"
        for line in written:
            other.ask(*line.format(key).split())
        assert one.ask(*asked.format(key).split()) == b":-1\r\n", number


def test_an_element_past_its_deadline_is_seen_through_neither(three: list[Connection]) -> None:
    one, other, direct = three
    for number in range(30):
        key = f"h:{number}"
        one.ask("HSET", key, "a", 1, "b", 2)
        one.ask("HPEXPIREFIELD", key, "a", 3)
        until_past(direct, deadline_ms_of(direct, key, "a"))
        assert direct.ask("HLEN", key) == b":2\r\n", "nobody has reaped it"
        assert other.ask("HLEN", key) == b":1\r\n"


def test_a_proxy_that_starts_later_knows_what_was_there(
    three: list[Connection], start_proxy: StartProxy
) -> None:
    one, _, direct = three
    one.ask("SADDEX", "s", "PX", "500", "MEMBERS", "1", "a")
    one.ask("SADD", "s", "b")
    port = direct.socket.getpeername()[1]
    with Connection(start_proxy(f"redis://127.0.0.1:{port}").port) as late:
        until_past(direct, deadline_ms_of(direct, "s", "a"))
        assert late.ask("SCARD", "s") == b":1\r\n"


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_proxy_that_starts_later_knows_every_key(
    start_server: StartServer, start_proxy: StartProxy, is_trusted: bool
) -> None:
    """There are more than fit on a page of the schedule, or of the search for indexes where a
    client may have taken the schedule away."""
    server, keys = start_server(), [f"s{number}" for number in range(2500)]
    with Connection(server.port) as direct:
        direct.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
        if not is_trusted:
            direct.ask("ACL", "SETUSER", "narrow", "on", "nopass", "~__ttl:schedule", "+@all")
        for key in keys:
            index = Keys().index(key.encode())
            direct.send(command("SADD", key, "due", "stays") + command("ZADD", index, 1, "due"))
        direct.read_many(2 * len(keys))
        if is_trusted:
            direct.ask("ZADD", Keys().schedule, *(word for key in keys for word in (1, key)))
        with Connection(start_proxy(server.url).port) as late:
            late.send(b"".join(command("SCARD", key) for key in keys))
            assert set(late.read_many(len(keys))) == {b":1\r\n"}


def test_the_same_key_in_two_databases_has_two_deadlines(three: list[Connection]) -> None:
    one, other, direct = three
    for db in ("0", "7"):
        one.ask("SELECT", db)
        one.ask("HSET", "h", "a", 1, "b", 2)
    one.ask("HPEXPIREFIELD", "h", "a", 10)
    direct.ask("SELECT", "7")
    until_past(direct, deadline_ms_of(direct, "h", "a"))
    assert other.ask("HLEN", "h") == b":2\r\n"
    other.ask("SELECT", "7")
    assert other.ask("HLEN", "h") == b":1\r\n"


@pytest.mark.slow
def test_a_flush_of_scripts_is_not_noticed(three: list[Connection]) -> None:
    one, _, _ = three
    one.ask("HSET", "h", "a", 1)
    for _ in range(100):  # during some heartbeats, which load them again
        assert one.ask("SCRIPT", "FLUSH") == b"+OK\r\n"
        assert one.ask("HEXPIREFIELD", "h", "a", 100) == b":1\r\n"


def test_scripts_that_redis_has_lost_are_loaded_before_a_client_needs_one(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """A client would get Redis's NOSCRIPT."""
    server = start_server()
    with Connection(server.port) as direct, Connection(start_proxy(server.url).port) as app:
        direct.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
        assert app.ask("HTTLFIELD", "none", "f") == b":-2\r\n"
        for _ in range(2):
            until_loaded(server.port)
            assert direct.ask("SCRIPT", "FLUSH") == b"+OK\r\n"
            let_beat(server.port, 3)  # one sees it; then calls have their text again
            assert app.ask("HTTLFIELD", "none", "f") == b":-2\r\n"


@pytest.mark.redis
def test_scripts_of_applications_evict_none_of_the_proxys(
    valkey_binary: Binary, start_proxy: StartProxy
) -> None:
    """Servers since Redis 7.4 and Valkey 8 evict what EVAL has cached when it is more than 500."""
    server = Server(valkey_binary)
    try:
        proxy = start_proxy(server.start().url)
        with Connection(server.port) as direct, Connection(proxy.port) as app:
            assert app.ask("HTTLFIELD", "none", "f") == b":-2\r\n"
            until_called_by_digest(server.port, app)
            direct.send(b"".join(command("EVAL", f"return {n}", 0) for n in range(600)))
            direct.read_many(600)
            assert b"evicted_scripts:0" not in direct.ask("INFO", "stats")
            assert app.ask("HTTLFIELD", "none", "f") == b":-2\r\n"
    finally:
        server.remove()


def test_what_one_proxy_swapped_the_other_looks_for_where_it_is_now(
    three: list[Connection],
) -> None:
    one, other, direct = three
    one.ask("HSET", "h", "a", 1, "b", 2)
    one.ask("HPEXPIREFIELD", "h", "a", 30)
    deadline_ms = deadline_ms_of(direct, "h", "a")
    assert one.ask("SWAPDB", 0, 7) == b"+OK\r\n"
    until_past(direct, deadline_ms)
    assert other.ask("HLEN", "h") == b":0\r\n"
    other.ask("SELECT", 7)
    assert other.ask("HLEN", "h") == b":1\r\n"


def test_what_one_proxy_copied_or_moved_the_other_knows_there(three: list[Connection]) -> None:
    one, other, direct = three
    one.ask("HSET", "h", "a", 1, "b", 2)
    one.ask("HPEXPIREFIELD", "h", "a", 30)
    deadline_ms = deadline_ms_of(direct, "h", "a")
    for words in (("COPY", "h", "c"), ("COPY", "h", "h", "DB", 3), ("MOVE", "c", 7)):
        assert one.ask(*words) == b":1\r\n"
    until_past(direct, deadline_ms)
    for db, key in ((0, "h"), (3, "h"), (7, "c")):
        assert other.ask("SELECT", db) == b"+OK\r\n"
        assert other.ask("HLEN", key) == b":1\r\n", (db, key)
    assert other.ask("SELECT", 0) == b"+OK\r\n"
    assert other.ask("EXISTS", "c") == b":0\r\n"
