"""Two proxies in front of one Redis: each sees the other's deadlines, whatever it missed."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.event_loops import both_loops
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import milliseconds
from tests.support.relay import Gate, Relay
from tests.support.server_queries import calls, connections
from ttlproxy.core.keys import Keys


@pytest.fixture
def three(start_server: StartServer, start_proxy: StartProxy) -> Iterator[list[Connection]]:
    """Connections through two proxies, and to Redis itself; no proxy can get the reaper's lease."""
    server = start_server()
    with Connection(server.port) as direct:
        direct.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
        with (
            Connection(start_proxy(server.url).port) as one,
            Connection(start_proxy(server.url).port) as other,
        ):
            yield [one, other, direct]


def test_a_greeting_that_is_not_taken_back_ends_by_itself(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """As if the proxy was killed between SET and DEL."""
    server = start_server()
    with Connection(server.port) as direct:
        direct.ask("ACL", "SETUSER", "proxy", "on", ">word", "~*", "&*", "+@all", "-del")
        start_proxy(f"redis://proxy:word@127.0.0.1:{server.port}")
        wait_until(lambda: calls(server.port, "set") > 0, "the greeting")
        wait_until(lambda: direct.ask("KEYS", "__ttl:!*") == b"*0\r\n", "nothing left of it")


def _deadline_ms(direct: Connection, key: str, element: str) -> int:
    (index,) = [
        name
        for name in direct.ask("KEYS", f"__ttl:*:{key}").split(b"\r\n")[2::2]
        if not name.startswith(b"__ttl:!")
    ]
    return int(direct.ask("ZSCORE", index, element).split(b"\r\n")[1])


def _let_pass(direct: Connection, deadline_ms: int) -> None:
    """Returns when Redis's clock is past the deadline."""

    def now_ms() -> int:
        _, _, seconds, _, microseconds, _ = direct.ask("TIME").split(b"\r\n")
        return milliseconds(seconds, microseconds)

    wait_until(lambda: now_ms() > deadline_ms, "the deadline")


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
        _let_pass(direct, _deadline_ms(direct, key, "a"))
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
        _let_pass(direct, _deadline_ms(direct, "s", "a"))
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


@pytest.mark.parametrize("words", [("SELECT", "99"), ("SELECT", "x"), ("SELECT", "-1")])
def test_a_select_that_failed_misleads_nobody(three: list[Connection], words: tuple[str]) -> None:
    one, other, direct = three
    assert one.ask(*words).startswith(b"-ERR")
    one.ask("HSET", "h", "a", 1, "b", 2)
    one.ask("HPEXPIREFIELD", "h", "a", 10)
    _let_pass(direct, _deadline_ms(direct, "h", "a"))
    assert other.ask("HLEN", "h") == b":1\r\n"


def test_a_select_inside_a_transaction_that_was_dropped_misleads_nobody(
    three: list[Connection],
) -> None:
    one, other, direct = three
    for words in (("MULTI",), ("SELECT", "5"), ("DISCARD",), ("HSET", "h", "a", "1", "b", "2")):
        one.ask(*words)
    one.ask("HPEXPIREFIELD", "h", "a", 10)
    _let_pass(direct, _deadline_ms(direct, "h", "a"))
    assert other.ask("HLEN", "h") == b":1\r\n"


def _sees_it_go(other: Connection, direct: Connection, db: int, deadline_ms: int) -> None:
    """The other proxy knows the deadline of `a` in `h` in this database."""
    _let_pass(direct, deadline_ms)
    assert other.ask("SELECT", db) == b"+OK\r\n"
    assert other.ask("HLEN", "h") == b":1\r\n"


@pytest.mark.parametrize("last", [(), ("MULTI",), ("RESET",)])
def test_after_many_selects_at_once_a_deadline_is_announced_where_the_client_is(
    three: list[Connection], last: tuple[str, ...]
) -> None:
    """Some of them fail: the server has 16 databases."""
    one, other, direct = three
    words: list[tuple[str | int, ...]] = [("SELECT", db) for db in (*range(16), 99, 98, 97, "x")]
    if last == ("MULTI",):
        words += [last, ("SELECT", 3), ("DISCARD",)]
    elif last:
        words += [last, ("SELECT", 15)]
    one.send(b"".join(command(*each) for each in words))
    one.read_many(len(words))
    one.ask("HSET", "h", "a", 1, "b", 2)
    one.ask("HPEXPIREFIELD", "h", "a", 10)
    direct.ask("SELECT", 15)
    _sees_it_go(other, direct, 15, _deadline_ms(direct, "h", "a"))


def test_in_a_transaction_each_deadline_is_announced_in_the_database_selected_before_it(
    three: list[Connection],
) -> None:
    one, other, direct = three
    for words in (
        ("MULTI",),
        ("HSETEX", "h", "PX", 10, "FIELDS", 2, "a", 1, "c", 1),
        ("HSET", "h", "b", 1),
        ("SELECT", 7),
        ("HSETEX", "h", "PX", 20, "FIELDS", 1, "a", 1),
        ("HSET", "h", "b", 1),
        ("EXEC",),
    ):
        one.ask(*words)
    deadlines_ms = []
    for db in (0, 7):
        direct.ask("SELECT", db)
        deadlines_ms.append(_deadline_ms(direct, "h", "a"))
    for db, deadline_ms in zip((0, 7), deadlines_ms, strict=True):
        _sees_it_go(other, direct, db, deadline_ms)


def test_a_select_that_redis_forbids_misleads_nobody(three: list[Connection]) -> None:
    one, other, direct = three
    direct.ask("ACL", "SETUSER", "u", "on", "nopass", "~*", "&*", "+@all", "-select")
    one.ask("SELECT", 7)
    one.ask("AUTH", "u", "")
    assert one.ask("SELECT", 3).startswith(b"-NOPERM")
    one.ask("HSET", "h", "a", 1, "b", 2)
    assert one.ask("HPEXPIREFIELD", "h", "a", 10) == b":1\r\n"
    direct.ask("SELECT", 7)
    _sees_it_go(other, direct, 7, _deadline_ms(direct, "h", "a"))


def test_a_client_whose_database_nobody_can_tell_sets_no_deadline(three: list[Connection]) -> None:
    """The session remembers the last 16 databases; here all these SELECTs fail."""
    one, _, direct = three
    one.ask("HSET", "h", "a", 1)
    for db in range(100, 116):
        assert one.ask("SELECT", db).startswith(b"-ERR")
    before = direct.ask("KEYS", "*")
    refusal = b"-ERR ttlproxy cannot tell the database: too many SELECTs have failed\r\n"
    for words in (
        ("HEXPIREFIELD", "h", "a", 10),
        ("HSETEX", "h", "EX", 10, "FIELDS", 1, "b", 1),
        ("ONEXPIRE", "h", "RPUSH", "l"),
        ("DEFER", "EX", 10, "RPUSH", "l", 1),
    ):
        assert one.ask(*words) == refusal, words
    assert direct.ask("KEYS", "*") == before
    assert one.ask("HLEN", "h") == b":1\r\n"
    assert one.ask("SELECT", 0) == b"+OK\r\n"
    assert one.ask("HEXPIREFIELD", "h", "a", 10) == b":1\r\n"


def test_a_managed_key_of_a_client_whose_database_nobody_can_tell_stays_where_it_is(
    three: list[Connection],
) -> None:
    one, _, direct = three
    one.ask("HSETEX", "h", "EX", 1000, "FIELDS", 1, "a", 1)
    for db in range(100, 116):
        assert one.ask("SELECT", db).startswith(b"-ERR")
    before = direct.ask("DUMP", "h")
    for words in (("MOVE", "h", 7), ("COPY", "h", "c"), ("RENAME", "h", "c")):
        assert b"cannot tell the database" in one.ask(*words), words
    assert direct.ask("DUMP", "h") == before
    assert direct.ask("EXISTS", "c") == b":0\r\n"


def test_the_same_key_in_two_databases_has_two_deadlines(three: list[Connection]) -> None:
    one, other, direct = three
    for db in ("0", "7"):
        one.ask("SELECT", db)
        one.ask("HSET", "h", "a", 1, "b", 2)
    one.ask("HPEXPIREFIELD", "h", "a", 10)
    direct.ask("SELECT", "7")
    _let_pass(direct, _deadline_ms(direct, "h", "a"))
    assert other.ask("HLEN", "h") == b":2\r\n"
    other.ask("SELECT", "7")
    assert other.ask("HLEN", "h") == b":1\r\n"


def test_a_flush_of_scripts_is_not_noticed(three: list[Connection]) -> None:
    one, _, _ = three
    one.ask("HSET", "h", "a", 1)
    for _ in range(100):  # during some heartbeats, which load them again
        assert one.ask("SCRIPT", "FLUSH") == b"+OK\r\n"
        assert one.ask("HEXPIREFIELD", "h", "a", 100) == b":1\r\n"


def test_what_one_proxy_swapped_the_other_looks_for_where_it_is_now(
    three: list[Connection],
) -> None:
    one, other, direct = three
    one.ask("HSET", "h", "a", 1, "b", 2)
    one.ask("HPEXPIREFIELD", "h", "a", 30)
    deadline_ms = _deadline_ms(direct, "h", "a")
    assert one.ask("SWAPDB", 0, 7) == b"+OK\r\n"
    _let_pass(direct, deadline_ms)
    assert other.ask("HLEN", "h") == b":0\r\n"
    other.ask("SELECT", 7)
    assert other.ask("HLEN", "h") == b":1\r\n"


class _InTheMiddleOfALoad:
    """Runs `act` before the first read of a schedule after it was set."""

    def __init__(self) -> None:
        self.act: Callable[[], None] | None = None
        self.over = threading.Event()  # the proxy has read it and gone on
        self._acted = False

    def __call__(self, data: bytes) -> None:
        act = self.act
        if act is not None and b"ZSCAN" in data:
            self.act = None
            act()
            self._acted = True  # only now: other connections go on meanwhile
        elif self._acted and any(word in data for word in (b"$4\r\nSCAN", b"ZSCAN", b"INFO")):
            self.over.set()


def test_databases_that_change_places_while_schedules_are_read_are_both_known_afterwards(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server, middle = start_server(), _InTheMiddleOfALoad()
    with (
        Relay(server.port, 1 << 16, middle) as relay,
        Connection(server.port) as direct,
        Connection(start_proxy(f"redis://127.0.0.1:{relay.port}").port) as app,
    ):
        direct.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
        app.ask("HSET", "h", "a", 1, "b", 2)
        app.ask("HPEXPIREFIELD", "h", "a", 30)
        deadline_ms = _deadline_ms(direct, "h", "a")

        def swap() -> None:
            assert app.ask("SWAPDB", 0, 7) == b"+OK\r\n"
            direct.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
            _let_pass(direct, deadline_ms)

        middle.act = swap
        with Connection(server.port) as elsewhere:
            elsewhere.ask("SELECT", 9)
            elsewhere.ask("FLUSHDB")  # all schedules are read again after it
        assert middle.over.wait(30)
        app.ask("SELECT", 7)
        assert app.ask("HLEN", "h") == b":1\r\n"


def test_what_one_proxy_copied_or_moved_the_other_knows_there(three: list[Connection]) -> None:
    one, other, direct = three
    one.ask("HSET", "h", "a", 1, "b", 2)
    one.ask("HPEXPIREFIELD", "h", "a", 30)
    deadline_ms = _deadline_ms(direct, "h", "a")
    for words in (("COPY", "h", "c"), ("COPY", "h", "h", "DB", 3), ("MOVE", "c", 7)):
        assert one.ask(*words) == b":1\r\n"
    _let_pass(direct, deadline_ms)
    for db, key in ((0, "h"), (3, "h"), (7, "c")):
        assert other.ask("SELECT", db) == b"+OK\r\n"
        assert other.ask("HLEN", key) == b":1\r\n", (db, key)
    assert other.ask("SELECT", 0) == b"+OK\r\n"
    assert other.ask("EXISTS", "c") == b":0\r\n"


def _push_connections(port: int) -> list[int]:
    """Their ids: later connections have larger ones."""
    return [int(each["id"]) for each in connections(port) if each["name"] == "ttlproxy:pushes"]


@both_loops
def test_a_proxy_that_misses_announcements_rewrites_nothing_by_what_it_knew(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """It notices the loss only when it reads the push connection for a client's request."""
    server = start_server()
    proxies = [start_proxy(server.url) for _ in range(2)]
    with Connection(server.port) as direct, ExitStack() as stack:
        one, other = (stack.enter_context(Connection(proxy.port)) for proxy in proxies)
        for number in range(3):
            key = f"h{number}"
            assert other.ask("HSET", key, "a", 1) == b":1\r\n"
            pushes = max(_push_connections(server.port))
            proxies[1].child.send_signal(signal.SIGSTOP)
            other.send(command("PING"))  # so that it reads the client first
            direct.ask("CLIENT", "KILL", "ID", pushes)
            assert one.ask("HEXPIREFIELD", key, "a", 100) == b":1\r\n"
            other.send(command("HSET", key, "a", 2))
            proxies[1].child.send_signal(signal.SIGCONT)
            assert other.read_many(2) == [b"+PONG\r\n", b":0\r\n"]
            assert one.ask("HTTLFIELD", key, "a") == b":-1\r\n"


def test_a_plain_write_that_waits_for_a_reap_while_another_gives_the_first_deadline(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server, held = start_server(), Gate(b"EVALSHA", b"due-before")
    with (
        Relay(server.port, 1 << 16, held) as relay,
        Connection(server.port) as direct,
        Connection(start_proxy(f"redis://127.0.0.1:{relay.port}").port) as app,
        Connection(start_proxy(server.url).port) as other,
    ):
        direct.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
        other.ask("HSET", "h", "a", 1)
        other.ask("HSET", "due-before", "a", 1)
        other.ask("HPEXPIREFIELD", "due-before", "a", 10)
        _let_pass(direct, _deadline_ms(direct, "due-before", "a"))
        held.arm()
        app.send(command("HSET", "h", "a", 2) + command("HLEN", "due-before"))
        assert held.held.wait(60)
        assert other.ask("HEXPIREFIELD", "h", "a", 100) == b":1\r\n"
        held.release()
        assert app.read_many(2) == [b":0\r\n", b":0\r\n"]
        assert other.ask("HTTLFIELD", "h", "a") == b":-1\r\n"


def test_a_proxy_whose_push_connection_is_lost_while_it_reads_schedules_waits_for_the_next(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """What it has read is complete only up to the loss: later announcements do not reach it."""
    server = start_server()
    hello = Gate(b"HELLO")
    kept, kept_again = (Gate(b"HMGET", b"ttlproxy-state") for _ in range(2))
    read = Gate(b"in-the-schedule")

    def on_request(data: bytes) -> None:
        for gate in (hello, kept_again, kept):
            gate(data)

    with (
        Relay(server.port, 1 << 16, on_request, read) as relay,
        Connection(server.port) as direct,
        Connection(start_proxy(f"redis://127.0.0.1:{relay.port}").port) as app,
        hello,
        kept,
        kept_again,
        read,
    ):
        (pushes,) = _push_connections(server.port)
        with Connection(start_proxy(server.url).port) as other:
            assert app.ask("HSET", "h", "a", 1) == b":1\r\n"
            assert other.ask("SADDEX", "in-the-schedule", 1000, "a") == b":1\r\n"
            read.arm()
            assert direct.ask("CLIENT", "KILL", "ID", pushes) == b":1\r\n"
            assert read.held.wait(60)
            hello.arm()
            pushes = max(_push_connections(server.port))
            assert direct.ask("CLIENT", "KILL", "ID", pushes) == b":1\r\n"
            assert hello.held.wait(60)
            assert other.ask("HEXPIREFIELD", "h", "a", 100) == b":1\r\n"
            app.send(command("HSET", "h", "a", 2))
            kept.arm()
            read.release()
            assert kept.held.wait(60)
            kept_again.arm()
            kept.release()
            assert kept_again.held.wait(60)  # another heartbeat
            kept_again.release()
            hello.release()
            assert app.read() == b":0\r\n"
            assert other.ask("HTTLFIELD", "h", "a") == b":-1\r\n"


def test_a_proxy_that_hears_of_another_while_it_counts_them_looks_at_announcements(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    """The count is older than the greeting: a proxy that believes it would think it is alone."""
    server = start_server()
    counted = Gate(b"tracking_clients:1\r\n", b"\r\n*2\r\n$10\r\n")  # with TIME: a heartbeat
    kept = Gate(b"HMGET", b"ttlproxy-state")
    announced = {key: threading.Event() for key in (b":dated", b":behind")}

    def on_reply(data: bytes) -> None:
        for key, event in announced.items():
            if b"invalidate" in data and key in data:
                event.set()
        counted(data)

    with (
        Relay(server.port, 1 << 16, kept, on_reply) as relay,
        Connection(server.port) as direct,
        ExitStack() as stack,
    ):
        direct.ask("SET", "__ttl:lease", "somebody else", "PX", 600_000)
        proxy = start_proxy(f"redis://127.0.0.1:{relay.port}")
        app = stack.enter_context(Connection(proxy.port))
        stack.enter_context(counted)
        stack.enter_context(kept)
        assert app.ask("HSET", "dated", "a", 1, "b", 2) == b":2\r\n"
        counted.arm()
        assert counted.held.wait(60)
        other = stack.enter_context(Connection(start_proxy(server.url).port))
        assert other.ask("SADDEX", "known", 1000, "a") == b":1\r\n"  # announced after the greeting
        wait_until(lambda: b"managed_keys:1\r\n" in app.ask("INFO", "ttlproxy"), "the announcement")
        kept.arm()
        counted.release()
        assert kept.held.wait(60)  # the heartbeat stops here
        proxy.child.send_signal(signal.SIGSTOP)
        app.send(command("PING"))  # so that it reads the client first
        assert other.ask("HPEXPIREFIELD", "dated", "a", 1) == b":1\r\n"
        _let_pass(direct, _deadline_ms(direct, "dated", "a"))
        assert announced[b":dated"].wait(60)
        other.ask("SADDEX", "behind", 1000, "a")
        assert announced[b":behind"].wait(60)  # so all earlier data has been relayed
        app.send(command("HLEN", "dated"))
        proxy.child.send_signal(signal.SIGCONT)
        kept.release()
        assert app.read_many(2) == [b"+PONG\r\n", b":1\r\n"]
