"""Three masters behind the proxy: to a client they are one Redis."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import StartProxy
from tests.support.cluster import Node
from tests.support.masters import KEYS as KEYS_OF_ALL
from tests.support.masters import Masters
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.servers import ROOT, Proxy, release, unshared
from ttlproxy.commands import Router, natives
from ttlproxy.proxy.routed.routing_table import RoutingTable, Way

ONE, TWO, THREE = KEYS_OF_ALL
# More for each of the three masters.
KEYS = [b"k:%d" % number for number in range(60)]


def test_replies_come_in_the_order_of_the_requests(app: Connection) -> None:
    values = [key * 40_000 if key == TWO else key for key in (ONE, TWO, THREE)]
    for key, value in zip((ONE, TWO, THREE), values, strict=True):
        app.ask("SET", key, value)
    wanted = [number % 3 for number in range(50)]
    app.send(b"".join(command("GET", (ONE, TWO, THREE)[each]) for each in wanted))
    bulks = [b"$%d\r\n%b\r\n" % (len(value), value) for value in values]
    assert app.read_many(50) == [bulks[each] for each in wanted]


def test_no_request_is_split_if_that_is_not_wanted(
    masters: Masters, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(masters.nodes[0].url, "--cluster-split", "no")
    with Client(proxy.port) as client:
        managed = ("HSETEX", TWO, "EX", 1000, "FIELDS", 1, "a", 1)
        assert client.ask_many([("SET", ONE, "v"), managed]) == [b"OK", 1]
        for words in (("MGET", ONE, TWO), ("DEL", ONE, TWO), ("MSET", ONE, 1, TWO, 2)):
            assert str(client.ask(*words)) == "Keys in request don't hash to the same slot"
        assert client.ask("MGET", ONE) == [b"v"]
        assert client.ask("HTTLFIELD", TWO, "a") in (999, 1000)
        assert client.ask("DEL", TWO) == 1


def test_elements_expire_at_every_master(masters: Masters, client: Client) -> None:
    client.ask_many([("HSET", key, "a", 1, "b", 2) for key in KEYS])
    client.ask_many([("HEXPIREFIELD", key, 1000, "FIELDS", 1, "a") for key in KEYS])
    assert client.ask_many([("HGETALL", key) for key in KEYS]) == [[b"a", b"1", b"b", b"2"]] * 60
    client.ask_many([("HPEXPIREFIELD", key, 1, "FIELDS", 1, "a") for key in KEYS])
    wait_until(
        lambda: sum(node.ask("DBSIZE") for node in masters.nodes) < 60 + 60, "all are reaped"
    )
    for node in masters.nodes:
        for key in KEYS:
            if node is masters.owner(key):
                wait_until(lambda: node.ask("HLEN", key) == 1, "its field is reaped")  # noqa: B023
    assert client.ask_many([("HGETALL", key) for key in KEYS]) == [[b"b", b"2"]] * 60


def test_what_is_due_is_not_seen_at_any_master(masters: Masters, client: Client) -> None:
    lease = b"__ttl:lease:{%b}"
    for node in masters.nodes:
        for name in node.ask("KEYS", "__ttl:lease*"):
            lease = name
            node.ask("SET", lease, "a test", "PX", 60_000)  # the reaper waits
    client.ask_many([("HSETEX", key, "PX", 1, "FIELDS", 1, "a", 1) for key in KEYS])
    start_ms = masters.nodes[0].client.now_ms()
    wait_until(lambda: masters.nodes[0].client.now_ms() > start_ms + 5, "the deadlines are past")
    assert client.ask_many([("HGET", key, "a") for key in KEYS]) == [None] * 60


def test_requests_on_several_keys_are_gathered(client: Client) -> None:
    # Where the proxies have stored nothing, RANDOMKEY is Redis's own, and may show a lease.
    assert client.ask("ONWRITE", "nothing*", "EX", 100) == b"OK"
    pairs = [(key, b"v" + key) for key in KEYS]
    assert client.ask("MSET", *(word for pair in pairs for word in pair)) == b"OK"
    assert client.ask("MGET", *KEYS, "none", KEYS[0]) == [
        *(value for _, value in pairs),
        None,
        pairs[0][1],
    ]
    assert client.ask("EXISTS", *KEYS, "none", KEYS[0]) == 61
    assert client.ask("TOUCH", *KEYS) == 60
    assert client.ask("DBSIZE") == 60
    assert sorted(client.ask("KEYS", "k:*")) == sorted(KEYS)
    assert client.ask("RANDOMKEY") in KEYS
    assert client.ask("DEL", *KEYS[:20]) + client.ask("UNLINK", *KEYS[10:]) == 20 + 40
    assert client.ask("DBSIZE") == 0
    assert client.ask("RANDOMKEY") is None


def test_an_error_of_one_master_is_the_reply_to_all(client: Client) -> None:
    client.ask("SADD", KEYS[7], "a")
    assert "wrong number of arguments for" in str(client.ask("MSET", *KEYS[:3]))
    assert client.ask("MGET", *KEYS[6:9]) == [None, None, None]
    assert "hash to the same slot" in str(client.ask("SUNION", ONE, TWO))
    assert client.ask("PING") == b"PONG"


@pytest.mark.parametrize("count", [1, 7, 1000])
def test_a_scan_goes_through_all_masters(client: Client, count: int) -> None:
    client.ask_many([("SET", key, 1) for key in KEYS])
    client.ask("HSETEX", "h", "EX", 100, "FIELDS", 1, "a", 1)
    cursor, found = b"0", list[bytes]()
    while True:
        cursor, page = client.ask("SCAN", cursor, "COUNT", count)
        found += page
        if cursor == b"0":
            break
    assert sorted(found) == sorted([*KEYS, b"h"])
    assert "invalid cursor" in str(client.ask("SCAN", "x"))


def test_a_script_is_loaded_everywhere(client: Client) -> None:
    sha = client.ask("SCRIPT", "LOAD", "return redis.call('GET', KEYS[1])")
    client.ask_many([("SET", key, key) for key in KEYS])
    assert client.ask_many([("EVALSHA", sha, 1, key) for key in KEYS]) == KEYS


def test_a_transaction_is_at_the_master_of_its_first_key(client: Client) -> None:
    sent = [("PING",), ("SET", TWO, 1), ("INCR", TWO)]
    assert client.ask_many(sent, transaction=True) == [b"PONG", b"OK", 2]


def test_a_transaction_across_masters_is_refused_whole(app: Connection) -> None:
    assert app.ask("MULTI") == b"+OK\r\n"
    assert app.ask("SET", ONE, 1) == b"+QUEUED\r\n"
    assert app.ask("SET", TWO, 1) == b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
    assert app.ask("EXEC").startswith(b"-EXECABORT ")
    assert app.ask("EXISTS", ONE, TWO) == b":0\r\n"


def test_a_watched_key_that_changes_aborts(app: Connection, client: Client) -> None:
    client.ask("SET", TWO, 1)
    for changes, last in ((False, b"*1\r\n+OK\r\n"), (True, b"*-1\r\n")):
        assert app.ask("WATCH", TWO) == b"+OK\r\n"
        if changes:
            client.ask("SET", TWO, 2)
        assert app.ask("MULTI") == b"+OK\r\n"
        assert app.ask("SET", TWO, 3) == b"+QUEUED\r\n"
        assert app.ask("EXEC") == last
    assert app.ask("WATCH", TWO) == b"+OK\r\n"
    assert app.ask("WATCH", ONE).startswith(b"-CROSSSLOT ")
    assert app.ask("UNWATCH") == b"+OK\r\n"


def test_a_blocked_request_holds_up_later_ones(masters: Masters, app: Connection) -> None:
    app.send(command("BLPOP", ONE, 10) + command("SET", TWO, 1))
    with Client(masters.proxy.port) as other:
        wait_until(lambda: b"blocked_clients:1" in _clients(masters, ONE), "it is blocked")
        assert other.ask("EXISTS", TWO) == 0
        other.ask("RPUSH", ONE, "item")
        assert app.read_many(2)[1] == b"+OK\r\n"
        assert other.ask("EXISTS", TWO) == 1


def _clients(masters: Masters, key: bytes) -> bytes:
    said: bytes = masters.owner(key).ask("INFO", "clients")
    return said


def test_a_lease_waits_for_an_item_at_any_master(masters: Masters, app: Connection) -> None:
    with Client(masters.proxy.port) as other:
        for key in (ONE, TWO, THREE):
            taken = b"{%b}taken" % key
            app.send(command("LEASE", b"{%b}todo" % key, taken, "EX", 30, "BLOCK", 30_000))
            other.ask("LPUSH", b"{%b}todo" % key, "item")
            assert app.read() == b"$4\r\nitem\r\n"
            assert other.ask("STTLMEMBER", taken, "item") in (29, 30)


def test_subscriptions_at_all_masters_are_told(masters: Masters, client: Client) -> None:
    with Connection(masters.proxy.port) as one, Connection(masters.proxy.port) as two:
        one.ask("SUBSCRIBE", "news")
        one.ask("SUBSCRIBE", "__keyevent@0__:set")
        two.ask("PSUBSCRIBE", "__keyevent@0__:s*")
        with ExitStack() as owned:
            for node in masters.nodes:
                owned.enter_context(Connection(node.port)).ask("SUBSCRIBE", "news")
            channels = [b"__keyevent@0__:set", b"news"]
            assert sorted(client.ask("PUBSUB", "CHANNELS")) == channels
            told = [*channels[:1], 1, *channels[1:], 4, b"other", 0]
            assert client.ask("PUBSUB", "NUMSUB", *channels, "other") == told
            assert client.ask("PUBSUB", "NUMPAT") == 1


def test_channels_of_shards_at_all_masters_are_told(masters: Masters, client: Client) -> None:
    if release(masters.nodes[0].binary.name) < (7,):
        pytest.skip("there are none before 7.0")
    with Connection(masters.proxy.port) as subscriber:
        for channel in (ONE, TWO, THREE):
            subscriber.ask("SSUBSCRIBE", channel)
        assert sorted(client.ask("PUBSUB", "SHARDCHANNELS")) == sorted((ONE, TWO, THREE))
        assert client.ask("PUBSUB", "SHARDCHANNELS", TWO) == [TWO]
        told = [ONE, 1, TWO, 1, THREE, 1, b"other", 0]
        assert client.ask("PUBSUB", "SHARDNUMSUB", ONE, TWO, THREE, "other") == told


def test_what_is_written_is_on_disk_once_it_is_at_each_master(valkey_masters: Masters) -> None:
    with Client(valkey_masters.proxy.port) as client:
        for without in valkey_masters.nodes:
            for node in valkey_masters.nodes:
                kept = "no" if node is without else "yes"
                assert node.ask("CONFIG", "SET", "appendonly", kept) == b"OK"
            assert "appendonly is disabled" in str(client.ask("WAITAOF", 1, 0, 100))
        assert valkey_masters.nodes[-1].ask("CONFIG", "SET", "appendonly", "yes") == b"OK"
        client.ask_many([("SET", key, 1) for key in (ONE, TWO, THREE)])
        assert client.ask("WAITAOF", 1, 0, 30_000) == [1, 0]
        for node in valkey_masters.nodes:
            node.ask("CONFIG", "SET", "appendonly", "no")


def test_the_page_says_of_each_command_which_masters_it_asks(masters: Masters) -> None:
    page = (ROOT / "docs" / "cluster.md").read_text()
    table = page.partition("## Which masters a command asks")[2].partition("\n## ")[0]
    table = re.sub(r"with( `[A-Z-]+`)+", "", table)  # subcommands
    rows = [row.split(" | ") for row in table.splitlines() if row.startswith("| ")]
    said = {row[0].strip("| "): re.findall(r"`([A-Z-]+)`", row[1]) for row in rows}
    ways = RoutingTable(Router(natives(masters.nodes[0].ask("COMMAND")), clustered=True))
    for native in natives(masters.nodes[0].ask("COMMAND")):
        if native.name in ("POST", "HOST:"):  # no commands
            continue
        way, named = ways[native.name.encode()], [row for row in said if native.name in said[row]]
        if way in (Way.SPECIAL, Way.HOME, Way.SPLIT):
            assert named, native.name
            assert (way is Way.HOME) <= (named[-1] == "one"), native.name
            assert (way is Way.SPLIT) == (named == ["those of its keys"]), native.name
        else:
            assert not named, native.name


@unshared
def test_the_name_and_the_protocol_are_the_same_everywhere(masters: Masters) -> None:
    with Connection(masters.proxy.port) as app:
        assert app.ask("HELLO", 3, "SETNAME", "bob").startswith(b"%")
        app.ask("HSET", TWO, "a", 1)
        assert app.ask("HGETALL", TWO).startswith(b"%1")
        assert app.ask("CLIENT", "SETNAME", "carol") == b"+OK\r\n"
        for key in (ONE, TWO, THREE):
            app.ask("SET", key, 1)
        names = [node.ask("CLIENT", "LIST") for node in masters.nodes]
        assert all(b"name=carol" in each for each in names)
        assert not any(b"name=bob" in each for each in names)


def test_replies_can_be_switched_off(app: Connection) -> None:
    app.send(command("CLIENT", "REPLY", "OFF") + command("SET", ONE, 1) + command("SET", TWO, 2))
    app.send(command("CLIENT", "REPLY", "ON"))
    assert app.read() == b"+OK\r\n"
    app.send(command("CLIENT", "REPLY", "SKIP") + command("SET", ONE, 3) + command("GET", ONE))
    assert app.read() == b"$1\r\n3\r\n"


@pytest.mark.parametrize(
    "muted",
    [
        "SKIP / CLIENT REPLY SKIP / PING",
        "SKIP / RESET",
        "SKIP / CLIENT REPLY OFF / PING / RESET",
        "SKIP / CLIENT REPLY ON",
        "OFF / CLIENT REPLY SKIP / PING / CLIENT REPLY ON",
        "OFF / RESET",
    ],
)
def test_replies_are_left_out_as_by_redis(app: Connection, masters: Masters, muted: str) -> None:
    requests = f"CLIENT REPLY {muted} / ECHO end".split(" / ")
    raw = b"".join(command(*words.split()) for words in requests)
    with Connection(masters.nodes[0].port) as direct:
        for connection in (app, direct):
            connection.send(raw)
        assert _until_end(app) == _until_end(direct)


def _until_end(connection: Connection) -> list[bytes]:
    replies = [connection.read()]
    while replies[-1] != b"$3\r\nend\r\n":
        replies.append(connection.read())
    return replies


def test_a_reset_ends_the_state_of_all_connections(app: Connection) -> None:
    app.ask("HELLO", 3)
    app.send(command("MULTI") + command("SET", TWO, 1) + command("RESET"))
    assert app.read_many(3) == [b"+OK\r\n", b"+QUEUED\r\n", b"+RESET\r\n"]
    app.ask("HSET", TWO, "a", 1)
    assert app.ask("HGETALL", TWO).startswith(b"*2")


def test_a_login_holds_for_all_masters(masters: Masters) -> None:
    for node in masters.nodes:
        node.ask("ACL", "SETUSER", "alice", "on", ">word", "~*", "&*", "+@all")
    with Connection(masters.proxy.port) as app:
        assert app.ask("AUTH", "alice", "wrong").startswith(b"-WRONGPASS")
        assert app.ask("AUTH", "alice", "word") == b"+OK\r\n"
        for key in (ONE, TWO, THREE):
            assert app.ask("SET", key, 1) == b"+OK\r\n"
        assert app.ask("ACL", "WHOAMI") == b"$5\r\nalice\r\n"
        users = [node.ask("CLIENT", "LIST") for node in masters.nodes]
        assert all(b"user=alice" in each for each in users)
    for node in masters.nodes:
        node.ask("ACL", "DELUSER", "alice")


def test_bytes_that_are_no_request_end_as_in_redis(masters: Masters) -> None:
    with Connection(masters.proxy.port) as app:
        app.send(command("SET", TWO, 1) + b"*x\r\n")
        assert app.read() == b"+OK\r\n"
        assert app.read_to_end().startswith(b"-ERR Protocol error: invalid multibulk length")


def test_inline_requests_and_empty_lines_are_read(masters: Masters) -> None:
    with Connection(masters.proxy.port) as app:
        app.send(b"\r\nSET %b 1\r\n*0\r\nGET %b\r\n" % (TWO, TWO))
        assert app.read_many(2) == [b"+OK\r\n", b"$1\r\n1\r\n"]


def test_internal_keys_are_hidden_at_every_master(app: Connection) -> None:
    for key in (ONE, TWO, THREE):
        app.ask("HSETEX", key, "EX", 100, "FIELDS", 1, "a", 1)
        assert app.ask("TYPE", b"__ttl:t:{%b}" % key).startswith(b"-ERR this key belongs to")
    assert app.ask("DBSIZE") == b":3\r\n"
    assert app.ask("MGET", "__ttl:a", "__ttl:b").startswith(b"-ERR this key belongs to ttlproxy")


def test_a_request_that_is_split_is_refused_as_a_whole(app: Connection) -> None:
    """MSET without the last value: no master writes its part."""
    assert app.ask("MSET", ONE, 1, TWO, 2, THREE) == app.ask("MSET", ONE, 1, ONE)
    assert app.ask("EXISTS", ONE, TWO, THREE) == b":0\r\n"


def test_a_transaction_counts_keys_beside_other_requests(app: Connection) -> None:
    app.send(command("MULTI") + command("SET", ONE, 1) + command("DBSIZE") + command("EXEC"))
    assert app.read_many(4) == [b"+OK\r\n", *[b"+QUEUED\r\n"] * 2, b"*2\r\n+OK\r\n:1\r\n"]


@pytest.mark.parametrize(
    "words", ["HELLO 3", "AUTH word", "SUBSCRIBE c", "UNSUBSCRIBE", "CLIENT REPLY OFF", "MONITOR"]
)
def test_a_transaction_cannot_have_what_concerns_the_connection(
    app: Connection, words: str
) -> None:
    assert app.ask("MULTI") == b"+OK\r\n"
    assert b"is not allowed in a transaction" in app.ask(*words.split())
    assert app.ask("EXEC").startswith(b"-EXECABORT")
    assert app.ask("PING") == b"+PONG\r\n"


def test_a_subscribed_client_may_do_nothing_else_at_any_master(
    app: Connection,
) -> None:
    app.ask("SUBSCRIBE", "channel")
    refused = [app.ask("MULTI"), *(app.ask("WATCH", key) for key in (ONE, TWO, THREE))]
    assert all(reply.startswith(b"-ERR Can't execute ") for reply in refused)


def test_a_reset_of_too_many_words_does_not_end_a_transaction(app: Connection) -> None:
    app.ask("MULTI")
    assert app.ask("RESET", "now") == b"-ERR wrong number of arguments for 'reset' command\r\n"
    assert app.ask("GET", ONE) == b"+QUEUED\r\n"
    assert app.ask("EXEC").startswith(b"-EXECABORT")


def test_deadlines_of_an_expired_key_do_not_count_before_a_cluster(
    masters: Masters, client: Client
) -> None:
    for number in range(12):
        key = f"k{number}"
        client.ask_many(
            [["SADDEX", key, "PXAT", "4000000000000", "MEMBERS", "1", "a"], ["PEXPIRE", key, "40"]]
        )
    wait_until(lambda: not any(client.ask("EXISTS", f"k{n}") for n in range(12)), "all expired")
    for number in range(12):
        client.ask("SADD", f"k{number}", "a")
    assert [client.ask("STTLMEMBER", f"k{n}", "a") for n in range(12)] == [-1] * 12


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--prefix", "app:"], "has the prefix __ttl:, and this one has app:"),
        (["--signing-key-file", "key"], "has another signing key"),
    ],
)
def test_a_proxy_that_cannot_work_with_others_is_refused_and_writes_nothing(
    masters: Masters, client: Client, tmp_path: Path, words: list[str], why: str
) -> None:
    (tmp_path / "key").write_text("a signing key of many letters\n")
    words = [str(tmp_path / "key") if word == "key" else word for word in words]
    assert client.ask("SADDEX", "s", "EX", 100, "MEMBERS", 1, "m") == 1
    before = [_names(node) for node in masters.nodes]
    proxy = Proxy(masters.nodes[0].url, *words, forked=True).start()
    try:
        assert proxy.wait() == 1
        assert why in proxy.stderr
    finally:
        proxy.remove()
    assert [_names(node) for node in masters.nodes] == before


def _names(node: Node) -> set[bytes]:
    return {*node.ask("KEYS", "*")}
