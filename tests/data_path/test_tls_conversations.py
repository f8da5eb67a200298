"""The conversations of test_conversations, and generated ones, over TLS: each unchanged."""

import inspect
from collections.abc import Iterator

import pytest
from hypothesis import given

from tests.data_path import test_conversations
from tests.data_path.test_differential import CUTS, PROTOCOL, alike, empty, generated
from tests.support.certificates import Authority, TlsSocket
from tests.support.containers import AnyServer
from tests.support.raw_client import Connection
from tests.support.request_streams import SEEDS, pieces, pipeline
from tests.support.servers import Proxy

pytestmark = pytest.mark.any_server


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tls_proxy(shared_server: AnyServer, loop_name: str, authority: Authority) -> Iterator[Proxy]:
    cert, key = authority.issue("localhost")
    flags = ("--tls-cert", str(cert), "--tls-key", str(key))
    proxy = Proxy(shared_server.url, *flags, event_loop=loop_name, forked=True)
    try:
        yield proxy.start()
    finally:
        proxy.remove()


class Secure(Connection):
    """A connection over TLS."""

    def __init__(self, port: int, authority: Authority) -> None:
        context = authority.trusted()
        super().__init__(port, wrapped=lambda plain: TlsSocket(plain, context, "localhost"))


@pytest.fixture
def app(tls_proxy: Proxy, server: AnyServer, authority: Authority) -> Iterator[Connection]:
    with Secure(tls_proxy.port, authority) as client:
        yield client


@pytest.fixture
def other(tls_proxy: Proxy, authority: Authority) -> Iterator[Connection]:
    with Secure(tls_proxy.port, authority) as client:
        yield client


# The tests that use only these connections.
for name, test in vars(test_conversations).items():
    if name.startswith("test_") and {*inspect.signature(test).parameters} <= {
        *("app", "other", "server")
    }:
        globals()[name] = test


@generated
@given(hello=PROTOCOL, seeds=SEEDS, cuts=CUTS)
def test_any_native_command_answers_as_without_proxy_and_tls(
    plain: AnyServer,
    server: AnyServer,
    tls_proxy: Proxy,
    authority: Authority,
    hello: bytes,
    seeds: list[int],
    cuts: list[float],
) -> None:
    empty(plain, server)
    parts = pieces(hello + pipeline(server.name, seeds), cuts)
    alike(plain, lambda: Secure(tls_proxy.port, authority), parts)
