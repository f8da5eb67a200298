"""The hash-field commands of Redis 8 and Valkey 9, answered as a server of that kind answers.

For a server that lacks them, replies are compared with a Redis 8 that the tester names.

Knows the words of these commands, good and bad ones, and none of their meaning.
"""

import re
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import StartProxy, StartServer
from tests.data_path.test_differential import both_protocols, generated
from tests.support.containers import AnyServer
from tests.support.raw_client import Connection, command
from tests.support.requirements import absent
from tests.support.servers import Proxy, Server, find_binaries

SINCE = (8, 4)  # options may stand on either side of the fields
_NUMBERS = count()
# Times that depend on when the command ran.
RELATIVE = re.compile(rb":\d{3,}")

FIELDS = st.sampled_from(["a", "b", "c", "zz", "FIELDS"])
SETTERS = {
    "HEXPIRE": "1000 0",
    "HPEXPIRE": "1000000 0",
    "HEXPIREAT": "4102444800 4102444801 0",
    "HPEXPIREAT": "4102444800000 4102444800001 1",
}
QUERIES = ["HTTL", "HPTTL", "HEXPIRETIME", "HPEXPIRETIME", "HPERSIST", "HGETDEL"]
BAD_TIMES = [
    "x",
    "-1",
    "01",
    "70368744177663",
    "70368744177664",
    "70368744178",
    "9223372036854775808",
]
CONDITIONS = ["NX", "XX", "GT", "LT", "gt", "ZZ"]
EXPIRIES = [
    *([word, time] for word in ("EX", "ex", "PX") for time in ("1000000", "0")),
    *(["PXAT", time] for time in ("4102444800123", "1", *BAD_TIMES)),
    *([word] for word in ["KEEPTTL", "PERSIST", "persist", "FNX", "FXX", "EX", "BAD"]),
    *([word] for word in ["NX", "XX"]),
]
PLAIN = ["HSET h a 1 b 2", "HSET h c 3", "DEL h", "HDEL h a", "HMGET h a b c zz", "HLEN h",
         "EXISTS h", "HPEXPIRETIME h FIELDS 4 a b c zz"]  # fmt: skip


def _some(*words: list[str], most: int = 1) -> st.SearchStrategy[list[str]]:
    """None or a few of these, most often none."""
    few = st.lists(st.sampled_from(words), min_size=1, max_size=most)
    none: st.SearchStrategy[list[list[str]]] = st.just([])
    return (none | none | few).map(lambda found: [word for each in found for word in each])


@st.composite
def _fields(draw: st.DrawFn, width: int) -> list[str]:
    fields = draw(st.lists(FIELDS, min_size=1, max_size=3))
    right = str(len(fields))
    count = draw(st.sampled_from([right] * 9 + ["0", "-1", "x", "2", "01", "2147483648"]))
    word = draw(st.sampled_from(["FIELDS"] * 9 + ["fields", "WORD"]))
    return [word, count, *(each for field in fields for each in [field, "v"][:width])]


@st.composite
def _request(draw: st.DrawFn) -> list[str]:
    key = draw(st.sampled_from(["h"] * 6 + ["none", "text"]))
    name = draw(st.sampled_from([*SETTERS, *QUERIES, "HGETEX", "HSETEX", *[""] * 4]))
    if not name:
        return draw(st.sampled_from(PLAIN)).split()
    words = [name, key]
    if name in SETTERS:
        time = st.sampled_from(SETTERS[name].split()) | st.sampled_from(BAD_TIMES)
        options = [[each] for each in CONDITIONS]
        words += [draw(time), *draw(_some(*options, most=2)), *draw(_fields(1))]
        words += draw(_some(*options, ["FIELDS"]))
    elif name in QUERIES:
        words += draw(_fields(1))
    else:
        width = 2 if name == "HSETEX" else 1
        words += [*draw(_some(*EXPIRIES, most=2)), *draw(_fields(width)), *draw(_some(*EXPIRIES))]
    return words[: draw(st.sampled_from([len(words)] * 15 + [2, 3, 4, 5]))]


def _has_forms(server: AnyServer) -> bool:
    with Connection(server.port) as direct:
        return not direct.ask("HGETEX", "none", "FIELDS", 1, "a").startswith(b"-")


@pytest.fixture(scope="module")
def redis_8() -> Iterator[Server]:
    """A Redis with these commands, whatever server is behind the proxy."""
    named = [each for each in find_binaries().values() if each.name[0].isdigit()]
    fit = [each for each in named if tuple(map(int, each.name.split("."))) >= SINCE]
    if not fit:
        absent("redis-8", "no Redis from 8.4 on (TTLPROXY_TEST_REDIS can name one)")
    with Server(fit[0]) as server:
        yield server


@pytest.fixture
def own_kind(
    server: AnyServer, plain: AnyServer, request: pytest.FixtureRequest
) -> AnyServer | Server:
    """A server that has these commands: of the kind behind the proxy, or else a Redis 8."""
    if _has_forms(server):
        return plain
    found: Server = request.getfixturevalue("redis_8")
    return found


@pytest.fixture
def own_proxy(start_server: StartServer, start_proxy: StartProxy) -> Proxy:
    """One that knows of no family, and of no flush, before a server that no other proxy knows:
    where keys may have deadlines of ours, as those of a HEXPIRE right after a flush may, malformed
    requests get Redis 8's errors, also before a Valkey."""
    return start_proxy(start_server().url)


def _said(port: int, hello: bytes, requests: list[list[str]]) -> list[bytes]:
    key = f"forms:{next(_NUMBERS)}"
    requests = [[key if word == "h" else word for word in words] for words in requests]
    with Connection(port) as client:
        setup = [command("SET", "text", "x"), hello or command("PING")]
        client.send(b"".join([*setup, *(command(*words) for words in requests)]))
        return client.read_many(len(setup) + len(requests))[len(setup) :]


@both_protocols
@generated
@given(requests=st.lists(_request(), max_size=25))
def test_hash_field_commands_answer_as_those_of_a_server_that_has_them(
    own_kind: AnyServer, own_proxy: Proxy, hello: bytes, requests: list[list[str]]
) -> None:
    expected, got = (_said(port, hello, requests) for port in (own_kind.port, own_proxy.port))
    for words, theirs, ours in zip(requests, expected, got, strict=True):
        assert RELATIVE.sub(b":N", ours) == RELATIVE.sub(b":N", theirs), words


FAR = ["FIELDS", "1", "far"]


def _may_be_refused(words: list[str]) -> bool:
    """Whether Valkey may accept what the proxy refuses on a managed key: times beyond 2^46 ms, and
    an expiry that is given twice."""
    options = [word.upper() for word in words]
    return bool({*words} & {*BAD_TIMES}) or any(
        options.count(word) > 1 for word in ("EX", "PX", "PXAT", "KEEPTTL", "PERSIST")
    )


@both_protocols
@generated
@given(requests=st.lists(_request(), max_size=25))
def test_on_a_managed_key_they_answer_as_on_any_other(
    plain: AnyServer, server: AnyServer, proxy: Proxy, hello: bytes, requests: list[list[str]]
) -> None:
    """The far deadline is kept by the server itself on one side, by the proxy on the other.
    Requests
    that Valkey refuses are left out: the proxy's errors are worded as Redis 8's."""
    if not _has_forms(server):
        pytest.skip("this server lacks them, so they are ours on every key")
    with Connection(plain.port) as direct, Connection(proxy.port) as app:
        is_valkey = direct.ask("COMMAND", "INFO", "DELIFEQ").startswith(b"*1\r\n*")
        for client in (direct, app):
            client.send(command("FLUSHALL") + command("SET", "text", "x") + (hello or b""))
            client.read_many(3 if hello else 2)
            client.ask("HSET", "h", "far", "1")
        assert direct.ask("HEXPIREAT", "h", "4102444800", *FAR) == b"*1\r\n:1\r\n"
        assert app.ask("HEXPIREATFIELD", "h", "4102444800", *FAR) == b"*1\r\n:1\r\n"
        for words in requests:
            if is_valkey and _may_be_refused(words):
                continue
            expected = direct.ask(*words)
            if not (is_valkey and expected.startswith(b"-ERR")):
                assert RELATIVE.sub(b":N", app.ask(*words)) == RELATIVE.sub(b":N", expected), words
