"""What a client says of itself while it connects."""

from __future__ import annotations

import pytest

from ttlproxy.session.sharing import introduction


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ("CLIENT SETNAME cart", {b"SETNAME": b"cart"}),
        ("client setinfo lib-name jedis", {b"LIB-NAME": b"jedis"}),
        ("HELLO 3 AUTH shop secret SETNAME cart", {b"SETNAME": b"cart"}),
        ("HELLO 3 AUTH SETNAME secret", {}),
        ("AUTH SETNAME secret", {}),
        ("CLIENT SETINFO secret secret", {}),
        ("CLIENT SETNAME", {}),
        (f"CLIENT SETNAME {100 * 'n'}", {b"SETNAME": 64 * b"n"}),
    ],
)
def test_only_name_and_library_are_kept(request_: str, said: dict[bytes, bytes]) -> None:
    assert introduction(request_.encode().split()) == said
