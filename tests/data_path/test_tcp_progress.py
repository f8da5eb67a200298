"""How far a connection has progressed: the system reports it, and no byte is read."""

import socket
import sys
from collections.abc import Iterator

import pytest

from tests.support.processes import wait_until
from ttlproxy.net.tcp_progress import progress, received

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
        with near, far:
            yield near, far


def test_bytes_either_way_are_progress(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    seen = [progress(near)]
    near.sendall(b"request")
    wait_until(lambda: progress(near) not in (None, seen[-1]), "the request there")
    seen.append(progress(near))
    far.sendall(b"reply")
    wait_until(lambda: progress(near) not in (None, seen[-1]), "the reply there")
    assert progress(near) == progress(near)


def test_bytes_that_the_other_end_has_no_room_for_are_on_their_way(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    near, far = pair
    near.setblocking(False)
    while True:
        try:
            near.send(bytes(1 << 16))
        except BlockingIOError:
            break
    assert progress(near) is None
    far.setblocking(False)

    def read_all() -> bool:
        try:
            while far.recv(1 << 16):
                pass
        except BlockingIOError:
            pass
        return progress(near) is not None

    wait_until(read_all, "nothing on its way")


def test_what_has_come_counts_before_it_is_read(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    assert received(near) == 0
    far.sendall(b"reply")
    wait_until(lambda: received(near) == len(b"reply"), "the reply there")
    assert near.recv(100) == b"reply"
    assert received(near) == len(b"reply")


def test_of_a_unix_socket_what_was_not_read_is_on_its_way() -> None:
    near, far = socket.socketpair(socket.AF_UNIX)
    with near, far:
        assert progress(near) == (0, 0)
        near.sendall(b"request")
        assert progress(near) is None
        far.recv(100)
        assert progress(near) == (0, 0)
