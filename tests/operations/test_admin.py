"""Probes over HTTP: what is up, what is not and why, in front of real servers."""

from __future__ import annotations

import asyncio
import socket
import threading
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.conftest import StartProxy, StartServer
from tests.support.admin_pages import FLAGS, QUIT, TOKEN, Pages, pages, with_token
from tests.support.event_loops import both_loops
from tests.support.raw_client import Connection, command
from tests.support.server_queries import until_blocked
from tests.support.servers import Proxy
from ttlproxy.admin.routes import ROUTES
from ttlproxy.cli.main import load
from ttlproxy.process import app

pytestmark = pytest.mark.any_server

# Nobody listens there.
NOWHERE = ("--upstream", "redis://127.0.0.1:1")
PROBES = [route.path for route in ROUTES if route.method == "GET"]


@pytest.fixture
def admin(start_server: StartServer, start_proxy: StartProxy) -> Pages:
    return pages(start_proxy(start_server().url, *FLAGS))


@both_loops
def test_probes_say_what_is_up(start_server: StartServer, start_proxy: StartProxy) -> None:
    admin = pages(start_proxy(start_server().url, *FLAGS))
    assert admin.get("/startup")[:2] == (200, "started\n")
    assert admin.get("/livez")[:2] == (200, "live\n")
    assert admin.get("/readyz")[:2] == (200, "ready\n")


def test_a_proxy_is_ready_while_redis_is_there(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    admin = pages(start_proxy(server.url, *FLAGS))
    server.kill()
    assert "Redis" in admin.until("/readyz", 503).text
    assert admin.get("/livez").status == 200
    server.restart()
    admin.until("/readyz", 200)


def test_pages_are_there_before_redis_is(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    server.kill()
    admin = pages(start_proxy(server.url, *FLAGS))
    assert admin.get("/livez").status == 200
    assert admin.get("/readyz").status == 503
    server.restart()
    admin.until("/readyz", 200)


def test_the_pages_are_there_until_the_last_client_is_served(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    server = start_server()
    proxy = start_proxy(server.url, *FLAGS)
    admin = pages(proxy)
    with Connection(proxy.port) as client:
        client.send(command("BLPOP", "list", 0))
        until_blocked(server.port, 1)
        proxy.terminate()
        assert "draining" in admin.until("/readyz", 503).text
        assert admin.get("/livez").status == 200
        with Connection(server.port) as direct:
            direct.ask("RPUSH", "list", "v")
        assert client.read_to_end() == b"*2\r\n$4\r\nlist\r\n$1\r\nv\r\n"
    assert proxy.wait() == 0
    assert not proxy.faults


def test_quitquitquit_ends_the_proxy_as_sigterm_does(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path
) -> None:
    server = start_server()
    proxy = start_proxy(server.url, *with_token(tmp_path))
    admin = pages(proxy)
    with Connection(proxy.port) as client:
        client.send(command("BLPOP", "list", 0))
        until_blocked(server.port, 1)
        assert admin.get("/quitquitquit").status == 405
        assert admin.get("/readyz").status == 200
        assert admin.end(TOKEN)[:2] == (200, "draining\n")
        assert admin.end(TOKEN).status == 200, "the second does not hurry it"
        admin.until("/readyz", 503)
        with Connection(server.port) as direct:
            direct.ask("RPUSH", "list", "v")
        assert client.read_to_end() == b"*2\r\n$4\r\nlist\r\n$1\r\nv\r\n"
    assert proxy.wait() == 0


def test_nobody_ends_a_proxy_that_was_not_told_who_may(admin: Pages) -> None:
    for refused in (admin.end(), admin.end(TOKEN)):
        assert refused.status == 403
        assert "quit_token_file" in refused.text
    assert admin.get("/readyz").status == 200


# Istio's sidecar forwards requests from outside the pod from 127.0.0.6.
@pytest.mark.parametrize("peer", ["127.0.0.1", "127.0.0.6"])
def test_a_peer_on_loopback_is_trusted_no_more_than_others(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path, peer: str
) -> None:
    for flags in (FLAGS, with_token(tmp_path)):
        admin = pages(start_proxy(start_server().url, *flags))
        assert isinstance(admin.where, int)
        http = HTTPConnection("127.0.0.1", admin.where, timeout=30, source_address=(peer, 0))
        http.request("POST", QUIT)
        assert http.getresponse().status == 403
        http.close()
        assert admin.get("/readyz").status == 200


@pytest.mark.parametrize(
    "shown",
    ["Bearer", "Bearer a", "Bearer a token2", f"Basic {TOKEN}", TOKEN, "Bearer \xe4", "Bearer  "],
)
def test_a_wrong_token_ends_nothing(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path, shown: str
) -> None:
    admin = pages(start_proxy(start_server().url, *with_token(tmp_path)))
    refused = admin.ask("POST", QUIT, {"Authorization": shown})
    assert (refused.status, "quit_token_file" in refused.text) == (403, True)
    assert TOKEN not in refused.text
    assert admin.get("/readyz").status == 200


def test_a_token_may_change(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path
) -> None:
    proxy = start_proxy(start_server().url, *with_token(tmp_path))
    (tmp_path / "token").write_text("another")
    assert pages(proxy).end(TOKEN).status == 403
    assert pages(proxy).end("another").status == 200
    assert proxy.wait() == 0


@pytest.mark.parametrize("header", ["Origin", "Sec-Fetch-Site"])
def test_a_page_in_a_browser_cannot_end_the_proxy(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path, header: str
) -> None:
    admin = pages(start_proxy(start_server().url, *with_token(tmp_path)))
    headers = {header: "http://elsewhere.example", "Authorization": f"Bearer {TOKEN}"}
    assert admin.ask("POST", QUIT, headers).status == 403
    assert admin.get("/readyz").status == 200


def test_http_is_spoken_as_it_should_be(admin: Pages) -> None:
    for path in PROBES:
        got, head = admin.get(path), admin.ask("HEAD", path)
        assert (head.status, head.text) == (200, "")
        assert int(head.headers["Content-Length"]) > 0
        assert got.headers["Cache-Control"] == "no-store"
        wrong = admin.ask("POST", path)
        assert wrong.status == 405
        assert wrong.headers["Allow"] == "GET,HEAD"
    assert admin.get("/nothing").status == 404
    assert admin.get("/livez").headers["Server"] == "ttlproxy"


def test_what_is_no_http_leaves_no_trace_in_the_log(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(start_server().url, *FLAGS)
    admin = pages(proxy)
    assert isinstance(admin.where, int)
    for sent in (b"GET / HTTP/x\r\n\r\n", b"GET /?\xff HTTP/1.1\r\n\r\n", command("PING")):
        with Connection(admin.where) as client:
            client.send(sent)
            assert client.read_to_end().startswith(b"HTTP/1.0 400 ")
    assert admin.get("/livez").status == 200
    assert "Error" not in proxy.stderr


def test_pages_on_a_unix_socket(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path
) -> None:
    path = tmp_path / "admin"
    proxy = start_proxy(start_server().url, "--admin", f"unix://{path}")
    admin = Pages(str(path))
    assert admin.get("/readyz").status == 200
    assert admin.end().status == 200
    assert proxy.wait() == 0
    assert not path.exists()


def test_a_token_is_asked_for_on_a_unix_socket_too(
    start_server: StartServer, start_proxy: StartProxy, tmp_path: Path
) -> None:
    path = tmp_path / "admin"
    _, _, *with_file = with_token(tmp_path)
    flags = ("--admin", f"unix://{path}", *with_file)
    proxy = start_proxy(start_server().url, *flags)
    admin = Pages(str(path))
    assert admin.end().status == 403
    assert admin.end(TOKEN).status == 200
    assert proxy.wait() == 0


def test_an_address_that_is_taken_ends_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        proxy = Proxy("redis://127.0.0.1:1", "--admin", f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(RuntimeError, match=r"--admin .* another program has this port"):
            proxy.start()
        assert proxy.wait() == 1
    proxy.remove()


def test_a_stuck_event_loop_is_not_live(tmp_path: Path) -> None:
    path = f"{tmp_path}/admin"
    settings = load(["--listen", "127.0.0.1:0", "--admin", f"unix://{path}", *NOWHERE])
    admin, goes_on = Pages(path), threading.Event()

    def watch() -> str:
        try:
            return admin.until("/livez", 503).text
        finally:
            goes_on.set()

    async def main() -> int:
        started = asyncio.Event()
        serving = asyncio.create_task(
            app.serve(settings, lambda *_: started.set(), lambda: settings)
        )
        await started.wait()
        assert (await asyncio.to_thread(admin.get, "/livez")).status == 200
        watching = asyncio.create_task(asyncio.to_thread(watch))
        await asyncio.sleep(0)  # it has begun
        goes_on.wait()
        assert "the event loop has been stuck for" in await watching
        await asyncio.to_thread(admin.until, "/livez", 200)
        await asyncio.to_thread(admin.end)
        return await serving

    assert asyncio.run(main()) == 0


def test_without_the_setting_there_are_no_pages(
    start_server: StartServer, start_proxy: StartProxy
) -> None:
    proxy = start_proxy(start_server().url, forked=False)
    assert "admin" not in proxy.stderr
    assert "aiohttp" not in Path(f"/proc/{proxy.pid}/maps").read_text()
