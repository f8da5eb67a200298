"""What the proxy tells clients about itself: TTLPROXY, and its section of INFO."""

from __future__ import annotations

import json
import re

import pytest

from tests.conftest import StartProxy
from tests.support.admin_pages import pages
from tests.support.containers import AnyServer
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.servers import Proxy
from ttlproxy import __version__

KEY_ARITY = "ERR wrong number of arguments for 'ttlproxy|key' command"


def _fields(text: bytes) -> dict[str, str]:
    """The fields of our section, which is the last one."""
    before, _, section = text.decode().rpartition("# Ttlproxy\r\n")
    assert before == "" or before.endswith("\r\n\r\n")
    return dict(line.split(":", 1) for line in section.splitlines())


# --- TTLPROXY


@pytest.mark.parametrize(
    ("dated", "removed"),
    [
        ("HSETEX k MAXLEN 9 PXAT {at} FIELDS 2 a 1 b 2", "HDEL k a"),
        ("SADDEX k PXAT {at} MEMBERS 2 a b", "SREM k a"),
        ("ZADDEX k PXAT {at} MEMBERS 2 1 a 2 b", "ZREM k a"),
        ("RPUSHEX k PXAT {at} ELEMENTS 2 a b", "LREM k 0 a"),
        ("RPUSHEX k PXAT {at} ELEMENTS 2 a b", "SET k text"),
    ],
)
def test_an_element_that_is_gone_is_not_told_while_its_deadline_is_kept(
    watched: Proxy, direct: Client, dated: str, removed: str
) -> None:
    """After a pop, for a moment; here it was removed past the proxy."""
    at_ms = 4_102_444_800_000
    with Client(watched.port) as client:
        client.ask(*dated.format(at=at_ms).split())
        direct.ask(*removed.split())
        left = [] if removed.startswith("SET") else [[b"b", at_ms]]
        assert client.ask("TTLPROXY", "KEY", "k") == left
        assert [element for element, _ in client.ask("DUE", "k")] == [name for name, _ in left]
    page = json.loads(pages(watched).get("/inspect.json?key=k").text)
    assert [each["name"] for each in page["elements"]] == ["b"][: len(left)]


@pytest.mark.parametrize("hello", [2, 3])
def test_help_is_shaped_as_redis_own(proxy: Proxy, hello: int) -> None:
    with Connection(proxy.port) as app:
        app.ask("HELLO", hello)
        ours, theirs = app.ask("TTLPROXY", "HELP"), app.ask("OBJECT", "HELP")
        assert app.ask("TTLPROXY") == ours
    for reply, name in ((ours, b"TTLPROXY"), (theirs, b"OBJECT")):
        head, first, *lines = reply.split(b"\r\n")
        assert head == b"*%d" % (len(lines))
        start = b"+%s <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
        assert first == start % name
        assert all(line.startswith(b"+") for line in lines[:-1])
        assert lines[-3] == b"+HELP"


# --- INFO


@pytest.mark.parametrize("asks", [False, True])
def test_the_section_of_the_proxy_tells_what_it_does(serve: StartProxy, asks: bool) -> None:
    """Managed keys are counted when it is asked."""
    with Client(serve(asks=asks).port) as client:
        client.ask("SADDEX", "s", 100, "a")
        for text in (client.ask("INFO", "ttlproxy"), client.ask("TTLPROXY", "INFO")):
            assert text.startswith(b"# Ttlproxy\r\n")
            fields = _fields(text)
            assert fields["ttlproxy_version"] == __version__
            assert int(fields["connected_clients"]) >= 1
            assert int(fields["managed_keys"]) == 1
            assert int(fields["uptime_in_seconds"]) >= 0
            assert int(fields["reaped_elements"]) >= 0


@pytest.mark.parametrize("section", ["all", "everything", "ALL"])
def test_the_whole_info_ends_with_the_section_of_the_proxy(client: Client, section: str) -> None:
    text = client.ask("INFO", section)
    assert text.startswith(b"# Server\r\n")
    assert b"# Commandstats" in text
    assert _fields(text)["ttlproxy_version"] == __version__


@pytest.mark.parametrize("words", ["INFO", "INFO server", "INFO default", "INFO nosuch"])
def test_any_other_info_is_redis_own(proxy: Proxy, server: AnyServer, words: str) -> None:
    with Connection(proxy.port) as app, Connection(server.port) as direct:
        ours, theirs = app.ask(*words.split()), direct.ask(*words.split())
    headings = re.compile(rb"# \w+")
    assert headings.findall(ours) == headings.findall(theirs)
    assert b"Ttlproxy" not in ours


def test_several_sections_are_given_where_redis_gives_them(proxy: Proxy, server: AnyServer) -> None:
    with Connection(proxy.port) as app, Connection(server.port) as direct:
        native = direct.ask("INFO", "server", "nosuch", "memory")
        ours = app.ask("INFO", "server", "ttlproxy", "memory")
    if native.startswith(b"-"):
        assert ours == native
        return
    assert re.findall(rb"# \w+", ours) == [b"# Server", b"# Memory", b"# Ttlproxy"]


def test_info_in_a_transaction_and_under_resp3(proxy: Proxy, server: AnyServer) -> None:
    with Connection(proxy.port) as app:
        app.send(b"MULTI\r\nINFO ttlproxy\r\nEXEC\r\n")
        assert b"# Ttlproxy" in app.read_many(3)[2]
        app.ask("HELLO", 3)
        native, ours = app.ask("INFO", "server"), app.ask("INFO", "everything")
        assert native.startswith(b"=")
        assert ours.startswith(b"=" if server.name != "6.2" else b"$")
        if server.name != "6.2":
            assert ours.split(b"\r\n")[1].startswith(b"txt:# Server")


def test_who_may_not_ask_for_info_is_told_so(client: Client, direct: Client) -> None:
    direct.ask("ACL", "SETUSER", "u", "on", "nopass", "~*", "+@all", "-info")
    try:
        assert client.ask("AUTH", "u", "any") == b"OK"
        for section in ("all", "ttlproxy"):
            refusal = str(client.ask("INFO", section))
            assert any(words in refusal for words in ("can't run this command", "no permissions"))
    finally:
        direct.ask("ACL", "DELUSER", "u")


def test_who_may_run_no_script_gets_redis_own_info(scriptless: Client) -> None:
    assert b"# Ttlproxy" in scriptless.ask("INFO", "all")
    assert scriptless.ask("AUTH", "scriptless", "word") == b"OK"
    assert b"# Server" in scriptless.ask("INFO", "all")
    assert b"# Ttlproxy" not in scriptless.ask("INFO", "all")
