"""A fleet is what it pretends to be: Redis sees as many proxies as it has members."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.bench.fleet import Fleet, Size
from tests.conftest import StartServer
from tests.support.processes import wait_until
from tests.support.server_queries import calls, clients, connections
from tests.support.servers import Server

pytestmark = [pytest.mark.long, pytest.mark.any_server, pytest.mark.timeout(600)]

SIZE = Size(real=1, replayed=2)


@pytest.fixture
def own(start_server: StartServer) -> Server:
    return start_server()


@pytest.fixture
def fleet(own: Server) -> Iterator[Fleet]:
    with closing(Fleet(own, SIZE, ("--prefix", "x:"), restarts=True)) as fleet:
        yield fleet


def _names(server: Server) -> list[str]:
    return [each["name"] for each in connections(server.port)]


def test_all_members_are_attached_also_after_a_restart_and_none_when_they_have_stopped(
    own: Server, fleet: Fleet
) -> None:
    alone = clients(own.port)
    fleet.start()
    names = _names(own)
    assert names.count("ttlproxy:pushes:x:") == SIZE.all, "with the settings of the fleet"
    assert names.count("ttlproxy:link") == names.count("ttlproxy:reaps") == SIZE.all
    assert calls(own.port, "acl|list") > SIZE.real, "those that replay ask what a proxy asks"
    own.kill_and_keep()
    fleet.until_lost()
    own.restart()
    fleet.until_serving()
    assert _names(own).count("ttlproxy:pushes:x:") == SIZE.all
    fleet.stop()
    wait_until(lambda: clients(own.port) == alone, "no member is connected")
