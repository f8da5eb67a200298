"""The rights that the proxy's own user needs: `ttlproxy doctor` names the missing ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import product

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import FLAGS, metric, pages
from tests.support.command_line import ttlproxy
from tests.support.doctor import above_info, check, examine, of, rights_of
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.servers import Binary, Proxy, Server, release
from ttlproxy.core.keys import Keys


def _user(server: Server, *more: str) -> str:
    """The URL of a proxy's user with the rights of docs/security.md and these additional rules."""
    return _user_with(server, [*rights_of(server.name), *more])


def _user_with(server: Server, line: Sequence[str]) -> str:
    with closing(Client(server.port)) as direct:
        assert direct.ask("ACL", "SETUSER", "proxy", "reset", "on", ">word", *line) == b"OK"
    return f"redis://proxy:word@127.0.0.1:{server.port}"


def _refused(direct: Client) -> list[bytes]:
    """What Redis has refused the proxy's user, except for CLIENT and its subcommands."""
    entries = [dict(zip(each[::2], each[1::2], strict=True)) for each in direct.ask("ACL", "LOG")]
    ours = [entry[b"object"] for entry in entries if entry[b"username"] == b"proxy"]
    return [what for what in ours if not what.startswith(b"client|") and what != b"client"]


@pytest.fixture
def server(start_server: StartServer) -> Server:
    """A server with all keyspace events on."""
    return start_server("--notify-keyspace-events", "KEA")


@pytest.fixture
def limited(server: Server, start_proxy: StartProxy) -> Proxy:
    """A proxy whose user has exactly the rights of docs/security.md."""
    return start_proxy(_user(server), *FLAGS)


@pytest.fixture
def direct(server: Server) -> Iterator[Client]:
    with closing(Client(server.port)) as client:
        yield client


@pytest.fixture
def app(limited: Proxy) -> Iterator[Client]:
    with closing(Client(limited.port)) as client:
        yield client


@pytest.fixture
def unrefused(limited: Proxy, direct: Client) -> Iterator[None]:
    """During the test Redis must refuse the proxy nothing."""
    yield
    assert _refused(direct) == []
    assert metric(pages(limited), "ttlproxy_refusals_total") == 0


ADDED = {
    "hash": "HSETEX {} PX 5 FIELDS 12 " + " ".join(f"f{n} v{n}" for n in range(12)),
    "set": "SADDEX {} PX 5 MEMBERS 12 " + " ".join(f"m{n}" for n in range(12)),
    "zset": "ZADDEX {} PX 5 MEMBERS 12 " + " ".join(f"{n} m{n}" for n in range(12)),
    "list": "RPUSHEX {} PX 5 ELEMENTS 12 " + " ".join(f"e{n}" for n in range(12)),
}
ACTIONS = {
    "plain": None,
    "lpush": "LPUSH list",
    "rpush": "RPUSH list EVENT",
    "xadd": "XADD stream MAXLEN ~ 1000",
    "publish": "PUBLISH out",
    "spublish": "SPUBLISH out",
    "keep": "KEEP",
    "counted": "RPUSH list MAX 1 ELSE dead",
}


@pytest.mark.usefixtures("unrefused")
def test_the_listed_rights_are_enough_to_reap_and_to_hand_on(
    app: Client, direct: Client, server: Server
) -> None:
    actions = {name: said for name, said in ACTIONS.items() if "SPUBLISH" not in (said or "")}
    if release(server.name) >= (7, 0):
        actions = ACTIONS  # no shard channels before
    for action, said in actions.items():
        if said:
            assert app.ask("ONEXPIRE", f"*-{action}", *said.split()) == b"OK"
    for _ in range(2):  # the second time "counted" is above its MAX
        keys = [f"{kind}-{action}" for kind, action in product(ADDED, actions)]
        for key in keys:
            app.ask(*ADDED[key.partition("-")[0]].format(key).split())
        wait_until(lambda: direct.ask("EXISTS", *keys) == 0, "all reaped")  # noqa: B023
    assert direct.ask("LLEN", "dead") > 0
    assert len(app.ask("TAKE", "hash-keep", "COUNT", 100)) >= 12


@pytest.mark.usefixtures("unrefused")
def test_the_listed_rights_are_enough_for_deferred_commands(
    app: Client, direct: Client, server: Server
) -> None:
    direct.ask("MSET", "doomed", 1, "gone", 1)
    said = ["LPUSH a v", "RPUSH b v", "XADD c * f v", "PUBLISH d v", "DEL doomed", "UNLINK gone"]
    said += ["SPUBLISH d v"] if release(server.name) >= (7, 0) else []
    app.ask("RPUSHEX", "a", 100, "v")  # a list with deadlines of its own
    for words in said:
        app.ask("DEFER", "PX", 5, *words.split())
    wait_until(lambda: direct.ask("EXISTS", "a", "b", "c") == 3, "they were carried out")
    wait_until(lambda: direct.ask("EXISTS", "doomed", "gone") == 0, "also those that remove")
    wait_until(lambda: app.ask("DEFERRED", "d") == [], "and the message")


@pytest.mark.usefixtures("unrefused")
def test_the_listed_rights_are_enough_to_wait_to_sweep_and_to_find_what_was_lost(
    app: Client, limited: Proxy, direct: Client
) -> None:
    keys = Keys()
    with Connection(limited.port) as waiting:
        waiting.send(command("LEASE", "tasks", "busy", "EX", 100, "BLOCK", 0))
        wait_until(lambda: b"cmd=blmove" in direct.ask("CLIENT", "LIST"), "it waits")
        direct.ask("RPUSH", "tasks", "t")
        assert waiting.read() == b"$1\r\nt\r\n"
    app.ask("RPUSHEX", "l", 100, "a", "b")
    assert app.ask("BLPOP", "l", 1) == [b"l", b"a"]
    wait_until(lambda: direct.ask("ZCARD", keys.index(b"l")) == 1, "the list is swept")
    assert app.ask("SADDEX", "dev", "MAXLEN", 1, "EVICT", "EX", 100, "MEMBERS", 1, "a") == 1
    assert app.ask("SADDEX", "dev", "MAXLEN", 1, "EVICT", "EX", 100, "MEMBERS", 1, "b") == 1
    assert app.ask("SMEMBERS", "dev") == [b"b"]
    direct.ask("ZREM", keys.schedule, "dev")
    wait_until(lambda: direct.ask("ZSCORE", keys.schedule, "dev") is not None, "it is found")


@pytest.mark.usefixtures("unrefused")
def test_the_listed_rights_are_enough_to_take_over_deadlines_of_the_servers_own(
    app: Client, direct: Client
) -> None:
    direct.ask("HSET", "h", "f", "v")
    if isinstance(direct.ask("HPEXPIRE", "h", 600_000, "FIELDS", 1, "f"), Exception):
        pytest.skip("this server has no deadlines of hash fields")
    assert app.ask("ONEXPIRE", "h", "RPUSH", "out") == b"OK"
    theirs = ("HPEXPIRETIME", "h", "FIELDS", 1, "f")
    wait_until(lambda: direct.ask(*theirs) == [-1], "the server's own is gone")
    assert direct.ask("ZCARD", Keys().index(b"h")) == 1


@pytest.mark.usefixtures("unrefused")
def test_the_listed_rights_are_enough_for_the_pages(app: Client, limited: Proxy) -> None:
    admin = pages(limited)
    app.ask("ONEXPIRE", "*", "KEEP")
    for kind in ADDED:
        app.ask(*ADDED[kind].format(kind).replace("PX 5", "EX 1000").split())

    def is_whole() -> bool:
        page = json.loads(admin.get("/status.json").text)
        parts = [page[name] for name in ("survey", "slow", "rules", "findings")]
        assert not any("error" in part for part in parts)
        return all(parts)

    wait_until(is_whole, "all of the status page is there")
    for kind in ADDED:
        page = json.loads(admin.get(f"/inspect.json?key={kind}").text)
        assert len(page["elements"]) == 12
    assert len(json.loads(admin.get("/inspect.json").text)["keys"]) == 4


def test_the_listed_rights_are_enough_for_the_doctor_and_the_purge(
    app: Client, limited: Proxy, direct: Client
) -> None:
    direct.ask("ACL", "LOG", "RESET")
    app.ask("HSETEX", "h", "EX", 1000, "FIELDS", 1, "a", 1)
    app.ask("ONEXPIRE", "kept", "KEEP")
    app.ask("SADDEX", "kept", "PX", 5, "MEMBERS", 1, "a")
    wait_until(lambda: direct.ask("EXISTS", "kept") == 0, "it is kept")
    found = examine(limited.upstream, fix=True)
    assert above_info(found) == []
    assert "cannot be" not in str(found)
    assert of("rights", found).severity == 0
    limited.stop()
    for flags in ((), ("--force",)):
        done = ttlproxy("purge", "--apply", "--upstream", limited.upstream, *flags)
        assert (done.returncode, "TAKE" in done.stdout) == (0, not flags), done.stderr
    assert direct.ask("KEYS", "*") == [b"h"]
    assert _refused(direct) == []


@pytest.mark.parametrize(("taken", "rule"), [("resetkeys", "~*"), ("resetchannels", "&*")])
def test_keys_and_channels_are_told_from_commands_in_the_words_of_newer_servers(
    valkey_binary: Binary, taken: str, rule: str
) -> None:
    """Redis has these words since 7.2, too."""
    with Server(valkey_binary, "--notify-keyspace-events", "KEA") as server:
        found = examine(_user_with(server, ["+@all", "~*", "&*", taken]), only=["rights"])
    named = [word for each in found if each.check == "rights" for word in each.fix.split()[3:]]
    assert rule in named
    assert not any(word.startswith("+") for word in named)


def test_each_right_of_the_line_is_named_where_it_is_missing(server: Server) -> None:
    """Without some rights the doctor cannot examine at all; then it names what was refused."""
    listed = rights_of(server.name)
    for rule in listed:
        taken = {"~*": "resetkeys", "&*": "resetchannels"}.get(rule, rule.replace("+", "-", 1))
        line = [each for each in listed if each != rule] if "|" in rule else [*listed, taken]
        found = examine(_user_with(server, line), only=["rights"])
        named = [each for each in found if rule in each.fix.split()]
        refused = [each for each in found if each.check == "connection"]
        word = rule[1:].partition("|")[0]
        assert named or any(word in each.what for each in refused), (rule, found)


@pytest.mark.parametrize(
    ("taken", "severity", "rule"),
    [
        ("-hdel", "error", "+hdel"),  # of scripts
        ("-command", "warning", "+command"),
        ("-client +client|setname", "error", "+client|tracking"),  # a subcommand
        ("-acl", "info", "+acl|list"),
        ("resetkeys ~app:* ~__ttl:*", "warning", "~*"),
        ("resetkeys ~app:*", "error", "~__ttl:*"),
    ],
)
def test_a_right_that_is_missing_is_named_with_the_line_that_gives_it(
    taken: str, severity: str, rule: str, start_server: StartServer
) -> None:
    server = start_server()
    url = _user(server, *taken.split())
    lines = examine(url, only=["rights"])
    (named,) = [found for found in lines if rule in found.fix.split()]
    assert str(named.severity) == severity
    with closing(Client(server.port)) as direct:
        for found in lines:
            assert direct.ask(*found.fix.split()) == b"OK"
    assert check("rights", url).severity == 0


def test_who_may_not_even_say_its_name_is_told_so(start_server: StartServer) -> None:
    (found,) = examine(_user(start_server(), "-client"))
    assert (found.check, "client" in found.what) == ("connection", True)


def test_who_may_not_try_is_told_so(start_server: StartServer) -> None:
    found = check("rights", _user(start_server(), "-multi"))
    assert (str(found.severity), "+multi" in found.fix) == ("info", True)


def test_nothing_is_carried_out_while_rights_are_tried(start_server: StartServer) -> None:
    server = start_server()
    with closing(Client(server.port)) as direct:
        examine(server.url)
        assert direct.ask("DBSIZE") == 0
