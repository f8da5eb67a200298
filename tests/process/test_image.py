"""The image as its Dockerfile builds it: `make image-test`, since it takes minutes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from redis.exceptions import ConnectionError

from tests.support.image import Image, why_not_here
from tests.support.processes import free_port, wait_until
from tests.support.redis_client import Client
from tests.support.requirements import NOT_HERE, absent, required
from tests.support.servers import Server
from ttlproxy import __version__

pytestmark = [pytest.mark.any_server, pytest.mark.timeout(1200)]

# On Debian's Python 3.13 it is 20 MB; with the debugging symbols of its libraries it was 54.
MOST_BYTES = 34_000_000


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    if "image" not in required():
        pytest.skip(f"{NOT_HERE}the image is built by `make image-test` alone: it takes minutes")
    if reason := why_not_here():
        absent("image", reason)
    image = Image(tmp_path_factory.mktemp("image"))
    yield image
    image.remove()


def _answers(port: int) -> bool:
    try:
        with closing(Client(port)) as client:
            return bool(client.ask("PING") == b"PONG")
    except ConnectionError:
        return False


def test_it_serves_as_its_user_on_a_root_that_is_read_only(image: Image, server: Server) -> None:
    port = free_port()
    env = {
        "TTLPROXY_LISTEN": f"127.0.0.1:{port}",
        "TTLPROXY_ADMIN": f"127.0.0.1:{free_port()}",
        "TTLPROXY_UPSTREAM": server.url,
    }
    began_s = time.monotonic()
    with image.running(**env):
        wait_until(lambda: _answers(port), "the image serves", 100)
        print(f"\nserved {time.monotonic() - began_s:.1f} s after its start")
        with closing(Client(port)) as client:
            assert client.ask("HSET", "h", "a", 1, "b", 2) == 2
            assert client.ask("HEXPIREFIELD", "h", "a", 100) == 1
            assert client.ask("HTTLFIELD", "h", "a") == 100
        assert image.execute(*image.config["Healthcheck"]["Test"][1:], **env) == "ready"
        look = "import os; print(os.getuid(), bool(os.statvfs('/').f_flag & os.ST_RDONLY))"
        assert image.execute("python", "-c", look) == "65532 True"


def test_it_adds_little_to_its_base(image: Image) -> None:
    print(f"\nadds {image.added_bytes() / 1e6:.1f} MB to its base")
    assert image.added_bytes() < MOST_BYTES
    assert not (image.root / "src").exists(), "what the build needs alone"


def test_it_has_the_labels_and_none_of_the_settings_of_its_build(image: Image) -> None:
    assert image.config["Labels"]["org.opencontainers.image.version"] == __version__
    assert image.config["User"] == "65532:65532"
    assert not (image.root / "etc" / "pip.conf").exists()
    assert not [each for each in image.config["Env"] if each.startswith("PIP_")]
