"""The generator of native commands knows all commands of the server, and no others."""

import hiredis
import pytest

from tests.support.containers import AnyServer
from tests.support.native_commands import REASONS
from tests.support.raw_client import Connection
from tests.support.request_streams import names
from tests.support.servers import release


def _of(server: AnyServer) -> set[str]:
    """A server's commands by name; for a command with subcommands, these."""
    reader = hiredis.Reader(encoding="utf-8")
    with Connection(server.port) as client:
        reader.feed(client.ask("COMMAND"))
    found: set[str] = set()
    for name, *_, last in reader.gets():
        subcommands = last if release(server.name) >= (7,) else []
        found.update([each[0].upper() for each in subcommands] or [name.upper()])
    return found


def test_every_command_of_the_server_has_a_row_or_a_reason(server: AnyServer) -> None:
    if release(server.name) > (7, 0):
        pytest.skip("the rows are those of 7.0's commands")
    assert _of(server) - names() - REASONS.keys() == set()
