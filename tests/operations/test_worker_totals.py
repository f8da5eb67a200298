"""Several workers look like one process: one page, one sum, and no counter ever decreases."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import (
    FLAGS,
    TOKEN,
    Pages,
    becomes,
    families,
    metric,
    pages,
    with_token,
)
from tests.support.processes import wait_until
from tests.support.raw_client import Connection, command
from tests.support.servers import Proxy, Server

pytestmark = [pytest.mark.any_server, pytest.mark.slow]

ACCEPTED = "ttlproxy_connections_accepted_total"
GONE = "ttlproxy_connections_closed_total"


@pytest.fixture
def redis_server(start_server: StartServer) -> Server:
    return start_server()


@pytest.fixture
def crew(redis_server: Server, start_proxy: StartProxy, tmp_path: Path) -> Proxy:
    return start_proxy(redis_server.url, "--workers", "2", *with_token(tmp_path))


@pytest.fixture
def admin(crew: Proxy) -> Pages:
    return pages(crew)


def _memory(admin: Pages) -> dict[str, float]:
    """The memory of each worker, by its number."""
    samples = families(admin)["ttlproxy_worker_resident_memory_bytes"].samples
    return {sample.labels["worker"]: sample.value for sample in samples}


def _worker(client: Connection) -> int:
    section = client.ask("INFO", "ttlproxy").decode()
    return int(section.partition("process_id:")[2].partition("\r\n")[0])


def test_one_page_has_the_sum_of_all_workers(crew: Proxy, admin: Pages) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(Connection(crew.port)) for _ in range(4)]
        assert len({_worker(client) for client in clients}) == 2
        becomes(admin, 4, "ttlproxy_connections")
        for number, client in enumerate(clients):
            client.ask("HSET", f"h{number}", "f", "v")
            client.ask("HPEXPIREFIELD", f"h{number}", "f", 1)
        becomes(admin, 4, "ttlproxy_reaped_elements_total", type="hash")
        becomes(admin, 4, "ttlproxy_reap_lag_seconds_count")
    becomes(admin, 4, GONE, reason="client")
    assert metric(admin, ACCEPTED) == 4
    assert metric(admin, "ttlproxy_workers") == 2
    assert metric(admin, "ttlproxy_link_up") == 1
    assert _memory(admin).keys() == {"1", "2"}
    assert min(_memory(admin).values()) > 1 << 20


def test_what_a_worker_has_counted_outlives_it(crew: Proxy, admin: Pages) -> None:
    with Connection(crew.port) as one, Connection(crew.port) as other:
        killed = _worker(one)
        assert _worker(other) != killed
        becomes(admin, 2, "ttlproxy_connections")
        os.kill(killed, signal.SIGKILL)
        becomes(admin, 1, "ttlproxy_workers_replaced_total")
        assert metric(admin, ACCEPTED) == 2
        assert metric(admin, "ttlproxy_connections") == 1
        assert len(_memory(admin)) == 1
        assert admin.get("/readyz").status == 200, "the other serves"
    becomes(admin, 2, "ttlproxy_workers")
    assert _memory(admin).keys() == {"1", "2"}
    assert metric(admin, ACCEPTED) == 2
    with Connection(crew.port) as another:
        another.ask("PING")
        becomes(admin, 3, ACCEPTED)


def test_clients_that_no_worker_was_given_are_counted(
    redis_server: Server, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(redis_server.url, "--workers", "2", "--max-clients", "1", *FLAGS)
    with Connection(proxy.port) as client, Connection(proxy.port) as refused:
        assert client.ask("PING") == b"+PONG\r\n"
        assert b"max number of clients" in refused.read_to_end()
        becomes(pages(proxy), 1, "ttlproxy_connections_refused_total")


def test_a_worker_that_is_stuck_is_not_live(crew: Proxy, admin: Pages) -> None:
    assert admin.get("/livez").status == 200
    with Connection(crew.port) as client:
        pid = _worker(client)
        os.kill(pid, signal.SIGSTOP)
        try:
            assert f"worker {pid} has been stuck" in admin.until("/livez", 503).text
            assert admin.get("/readyz").status == 200, "the other serves"
        finally:
            os.kill(pid, signal.SIGCONT)
        admin.until("/livez", 200)


def test_workers_are_ready_while_redis_is_there(admin: Pages, redis_server: Server) -> None:
    assert admin.get("/startup").status == 200
    admin.until("/readyz", 200)
    redis_server.kill()
    assert "no worker is ready: the link to Redis is down" in admin.until("/readyz", 503).text
    becomes(admin, 0, "ttlproxy_link_up")
    assert admin.get("/livez").status == 200
    redis_server.restart()
    admin.until("/readyz", 200)


def test_quitquitquit_ends_all_workers(crew: Proxy, admin: Pages, redis_server: Server) -> None:
    with Connection(crew.port) as client:
        client.send(command("BLPOP", "list", 0))
        becomes(admin, 1, "ttlproxy_connections")
        assert admin.end(TOKEN).status == 200
        assert "draining" in admin.until("/readyz", 503).text
        wait_until(lambda: metric(admin, "ttlproxy_workers") < 2, "one has nothing to wait for")
        assert metric(admin, ACCEPTED) == 1
        with Connection(redis_server.port) as direct:
            direct.ask("RPUSH", "list", "v")
        assert client.read_to_end() == b"*2\r\n$4\r\nlist\r\n$1\r\nv\r\n"
    assert crew.wait() == 0
