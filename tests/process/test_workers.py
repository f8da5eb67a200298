"""Several processes behind one address."""

import asyncio
import os
import re
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.containers import AnyServer
from tests.support.event_loops import both_loops
from tests.support.processes import free_port, wait_until
from tests.support.raw_client import Connection, command
from tests.support.redis_client import Client
from tests.support.redis_content import PREFIX, STATE
from tests.support.server_queries import calls, until_blocked
from tests.support.servers import Proxy
from ttlproxy.cli.main import load
from ttlproxy.process.workers import Workers

pytestmark = [pytest.mark.any_server, pytest.mark.slow, pytest.mark.long]

WORKERS = 3


@pytest.fixture
def workers(start_proxy: StartProxy, server: AnyServer) -> Proxy:
    return start_proxy(server.url, "--workers", str(WORKERS))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def _worker(client: Connection) -> int:
    """The process that serves a client."""
    found = re.search(rb"process_id:(\d+)", client.ask("INFO", "ttlproxy"))
    assert found
    return int(found[1])


def _clients(stack: ExitStack, proxy: Proxy, count: int) -> list[Connection]:
    return [stack.enter_context(Connection(proxy.port)) for _ in range(count)]


def _all_workers(proxy: Proxy) -> set[int]:
    with ExitStack() as stack:
        return {_worker(client) for client in _clients(stack, proxy, 2 * WORKERS)}


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()


@both_loops
def test_clients_are_spread_evenly_also_after_some_have_gone(
    workers: Proxy, stack: ExitStack
) -> None:
    of_worker: dict[int, list[Connection]] = {}
    for client in _clients(stack, workers, 10 * WORKERS):
        of_worker.setdefault(_worker(client), []).append(client)
    assert [len(clients) for clients in of_worker.values()] == [10] * WORKERS
    assert workers.pid not in of_worker
    emptied = of_worker.popitem()
    for client in emptied[1]:
        client.close()

    def takes_all() -> bool:
        with ExitStack() as own:
            return Counter(map(_worker, _clients(own, workers, 8))) == {emptied[0]: 8}

    wait_until(takes_all, "all ten are known to have gone")


def test_a_worker_counts_no_connection_that_had_no_header(
    start_proxy: StartProxy, server: AnyServer, stack: ExitStack
) -> None:
    """A worker gets the next connection if it has the fewest."""
    flags = ("--workers", "2", "--proxy-protocol", "yes", "--max-clients", "100")
    proxy = start_proxy(server.url, *flags)

    def clients(stack: ExitStack, count: int) -> list[Connection]:
        opened = _clients(stack, proxy, count)
        for client in opened:
            client.send(b"PROXY UNKNOWN\r\n")
        return opened

    of_worker: dict[int, list[Connection]] = {}
    for client in clients(stack, 8):
        of_worker.setdefault(_worker(client), []).append(client)
    emptied, leaving = of_worker.popitem()
    for client in leaving:
        client.close()

    def takes_all() -> bool:
        with ExitStack() as own:
            return {_worker(client) for client in clients(own, 4)} == {emptied}

    wait_until(takes_all, "all of its clients are known to have gone")
    for sent in (b"PING\r\n", b"PROXY", b"", b"PROXY TCP4 nonsense\r\n"):
        with Connection(proxy.port) as client, suppress(OSError):  # it may be reset
            client.send(sent)
            client.half_close()
            assert client.read_to_end() == b""
    wait_until(takes_all, "those without a header are known to have gone")


def test_a_deadline_set_through_one_worker_is_kept_by_all(workers: Proxy, stack: ExitStack) -> None:
    clients = {_worker(client): client for client in _clients(stack, workers, WORKERS)}
    assert len(clients) == WORKERS
    first, *others = clients.values()
    for number in range(300):
        key = f"h{number}"
        assert first.ask("HSET", key, "f", "v") == b":1\r\n"
        assert first.ask("HEXPIREFIELD", key, "f", "100") == b":1\r\n"
        assert others[number % len(others)].ask("HSET", key, "f", "w") == b":0\r\n"
        assert first.ask("HTTLFIELD", key, "f") == b":-1\r\n"


def test_a_worker_that_is_killed_takes_only_its_own_clients_along(
    workers: Proxy, stack: ExitStack
) -> None:
    clients = [(_worker(client), client) for client in _clients(stack, workers, 4 * WORKERS)]
    before = {pid for pid, _ in clients}
    killed = clients[0][0]
    os.kill(killed, signal.SIGKILL)
    said = f"worker {killed} ended unexpectedly"
    wait_until(lambda: said in workers.stderr, "its end is known, and it gets no more clients")
    for pid, client in clients:
        if pid == killed:
            assert client.read_to_end() == b""
        else:
            assert client.ask("PING") == b"+PONG\r\n"

    def is_replaced() -> bool:
        now = _all_workers(workers)
        return len(now) == WORKERS and before - now == {killed}

    wait_until(is_replaced, "another took its place, and the others are as they were")


def test_a_worker_that_cannot_be_replaced_leaves_the_others_at_work(
    workers: Proxy, stack: ExitStack, direct: Client
) -> None:
    clients = {_worker(client): client for client in _clients(stack, workers, WORKERS)}
    killed, *others = clients
    direct.ask("SET", PREFIX + b"layout", "1")
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: workers.stderr.count("ended unexpectedly") >= 2, "its successor refuses")
    for other in others:
        assert clients[other].ask("PING") == b"+PONG\r\n"
    assert _worker(_clients(stack, workers, 1)[0]) in others
    direct.ask("DEL", PREFIX + b"layout")
    wait_until(lambda: len(_all_workers(workers)) == WORKERS, "another successor serves")


@both_loops
def test_sigterm_ends_all_workers_after_what_is_owed(
    start_server: StartServer, start_proxy: StartProxy, stack: ExitStack
) -> None:
    server = start_server()
    proxy = start_proxy(server.url, "--workers", "2")
    value = b"x" * (1 << 20)
    with Connection(server.port) as direct:
        direct.ask("SET", "big", value)
    pids = _all_workers(proxy)
    readers = _clients(stack, proxy, 4)
    for reader in readers:
        reader.send(command("GETRANGE", "big", 0, -1) * 4)
    wait_until(lambda: calls(server.port, "getrange") == 4 * 4, "all requests at Redis")
    proxy.terminate()
    for reader in readers:
        assert reader.read_to_end() == (b"$%d\r\n" % len(value) + value + b"\r\n") * 4
    assert proxy.wait() == 0
    assert not any(map(_runs, pids))


def test_a_second_sigterm_ends_all_workers_at_once(
    workers: Proxy, stack: ExitStack, server: AnyServer
) -> None:
    pids = _all_workers(workers)
    (blocked,) = _clients(stack, workers, 1)
    blocked.send(command("BLPOP", "nothing", 0))
    until_blocked(server.port, 1)
    workers.terminate()
    wait_until(lambda: "stopping: 3 workers" in workers.stderr, "the first has been seen")
    workers.terminate()
    assert workers.wait() == 0
    assert not any(map(_runs, pids))


def test_a_signal_to_the_whole_group_is_heeded_once_by_the_process_that_listens(
    start_proxy: StartProxy, server: AnyServer
) -> None:
    """Service managers send it to the whole group."""
    proxy = start_proxy(server.url, "--workers", "2", "--drain-min", "1000")
    pids = _all_workers(proxy)
    for pid in (*pids, proxy.pid):
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: "stopping: 2 workers" in proxy.stderr, "it has been seen")
    assert _all_workers(proxy) == pids
    proxy.terminate()
    assert proxy.wait() == 0
    assert not any(map(_runs, pids))


def test_workers_end_with_the_process_that_listens(workers: Proxy) -> None:
    pids = _all_workers(workers)
    workers.kill()
    wait_until(lambda: not any(map(_runs, pids)), "no worker is left behind")


def test_workers_whose_listening_process_is_gone_wait_for_no_clients_to_move(
    start_proxy: StartProxy, server: AnyServer
) -> None:
    proxy = start_proxy(server.url, "--workers", "2", "--drain-min", "1000")
    pids = _all_workers(proxy)
    proxy.kill()
    wait_until(lambda: not any(map(_runs, pids)), "no worker is left behind")


def test_a_client_that_cannot_be_accepted_yet_is_served_later(
    workers: Proxy, stack: ExitStack
) -> None:
    limits = resource.prlimit(workers.pid, resource.RLIMIT_NOFILE)
    few = (workers.open_files(), limits[1])
    resource.prlimit(workers.pid, resource.RLIMIT_NOFILE, few)
    (client,) = _clients(stack, workers, 1)
    client.send(command("PING"))
    wait_until(lambda: "cannot accept a client" in workers.stderr, "no descriptor is left")
    resource.prlimit(workers.pid, resource.RLIMIT_NOFILE, limits)
    assert client.read() == b"+PONG\r\n"


def test_a_worker_that_starts_while_all_stop_ends_as_well(server: AnyServer) -> None:
    async def main() -> None:
        workers = Workers(load(["--upstream", server.url, "--workers", "2"]))
        running = asyncio.create_task(workers.run())
        await asyncio.sleep(0)  # the processes are starting
        await workers.stop()
        await asyncio.wait_for(running, 30)

    asyncio.run(main())


def test_a_password_stands_in_no_list_of_processes(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path
) -> None:
    server = start_server("--requirepass", "secret-of-the-link")
    secret = tmp_path / "secret"
    secret.write_text("secret-of-the-link")
    words = ("--workers", "2", "--upstream-password-file", str(secret))
    proxy = start_proxy(server.url, *words, forked=False)
    with Connection(proxy.port) as client:
        assert client.ask("AUTH", "secret-of-the-link") == b"+OK\r\n"
        pid = _worker(client)
    for name in ("cmdline", "environ"):
        assert b"secret-of-the-link" not in Path(f"/proc/{pid}/{name}").read_bytes()


def test_workers_share_a_unix_socket(
    start_proxy: StartProxy, server: AnyServer, tmp_path: Path
) -> None:
    path = tmp_path / "listen"
    proxy = start_proxy(server.url, "--workers", "2", "--listen", f"unix://{path}")
    assert path.is_socket()
    proxy.terminate()
    assert proxy.wait() == 0
    assert not path.exists()


def test_what_no_worker_can_stand_before_ends_the_proxy(start_server: StartServer) -> None:
    own = start_server()
    with Connection(own.port) as direct:
        direct.ask("HSET", STATE, "layout", "999")
    proxy = Proxy(own.url, "--workers", "2", forked=True)
    with pytest.raises(RuntimeError, match="layout"):
        proxy.start()
    assert proxy.wait() == 1


def test_a_proxy_without_a_standard_output_has_workers_too(server: AnyServer) -> None:
    port = free_port()
    words = ["--upstream", server.url, "--listen", f"127.0.0.1:{port}", "--workers", "2"]
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "ttlproxy", *words]
    with subprocess.Popen(closed, stderr=subprocess.DEVNULL) as process:
        try:

            def answers() -> bool:
                with suppress(OSError), Connection(port) as client:
                    return client.ask("PING") == b"+PONG\r\n"
                return False

            wait_until(answers, "it serves")
        finally:
            process.terminate()
        assert process.wait(30) == 0
