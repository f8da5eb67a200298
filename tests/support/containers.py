"""Servers newer than Debian's, if a Docker engine answers. Knows images, no command."""

import gc
import importlib
import warnings
from functools import cache
from typing import Any

from tests.support.servers import Server

IMAGES = {"8": "redis:8", "valkey-9": "valkey/valkey:9"}


@cache
def why_no_engine() -> str | None:
    """None if a Docker engine answers, else the reason in one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # a failed try leaves a socket open
        reason = _tried()
        gc.collect()
    return reason


def _tried() -> str | None:
    try:
        docker: Any = importlib.import_module("docker")
        engine = docker.from_env()
        engine.ping()
        engine.close()
    except Exception as error:  # the package has no narrower class for "no engine"
        return f"no Docker engine: {error}".splitlines()[0]
    return None


class Container:
    """The server of one image on a port of 127.0.0.1. It cannot be killed and started again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = 0
        self._container: Any = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def __enter__(self) -> "Container":
        container_module: Any = importlib.import_module("testcontainers.core.container")
        waiting: Any = importlib.import_module("testcontainers.core.waiting_utils")
        self._container = container_module.DockerContainer(IMAGES[self.name])
        self._container.with_exposed_ports(6379)
        self._container.start()
        waiting.wait_for_logs(self._container, "Ready to accept connections")
        self.port = int(self._container.get_exposed_port(6379))
        return self

    def __exit__(self, *trouble: object) -> None:
        self._container.stop()


AnyServer = Server | Container
