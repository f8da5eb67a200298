"""What each further connection of a client begins with, after what the client has set so far."""

from __future__ import annotations

import pytest

from ttlproxy.proxy.routed.connection_settings import ConnectionSettings


@pytest.mark.parametrize(
    ("requests", "told"),
    [
        ("HELLO 3 AUTH alice w, HELLO 2", "AUTH alice w, HELLO 2"),
        ("AUTH alice w, HELLO 3, AUTH bob w", "AUTH bob w, HELLO 3"),
        ("HELLO 3, hello 2 auth alice w setname n", "AUTH alice w, hello 2 SETNAME n"),
        ("HELLO 3 SETNAME n, HELLO 2", "HELLO 2 SETNAME n"),
        ("CLIENT SETNAME m, HELLO 3 SETNAME n", "HELLO 3 SETNAME n"),
        ("HELLO 3 SETNAME n, CLIENT SETNAME m, HELLO 3", "HELLO 3 SETNAME n, CLIENT SETNAME m"),
        ("CLIENT NO-EVICT on, CLIENT NO-EVICT off", "CLIENT NO-EVICT off"),
        ("CLIENT SETINFO LIB-NAME a, client setinfo lib-name b", "client setinfo lib-name b"),
        (
            "CLIENT TRACKING ON BCAST PREFIX a, client tracking on bcast prefix b",
            "CLIENT TRACKING ON BCAST PREFIX a, client tracking on bcast prefix b",
        ),
        ("CLIENT TRACKING ON, CLIENT TRACKING ON OPTIN, CLIENT TRACKING off", ""),
    ],
)
def test_a_new_connection_is_told_what_counts_in_the_end(requests: str, told: str) -> None:
    settings = ConnectionSettings()
    for request in requests.encode().split(b", "):
        settings.keep(request.split())
    assert b", ".join(b" ".join(words) for words in settings).decode() == told


@pytest.mark.parametrize(
    ("requests", "user"),
    [
        ("CLIENT SETNAME n", "default"),
        ("AUTH secret", "default"),
        ("AUTH alice secret", "alice"),
        ("HELLO 3 AUTH setname secret", "setname"),
        ("AUTH alice secret, HELLO 3 AUTH bob secret", "bob"),
    ],
)
def test_the_user_is_that_of_the_last_login(requests: str, user: str) -> None:
    settings = ConnectionSettings()
    for request in requests.encode().split(b", "):
        settings.keep(request.split())
    assert settings.user.decode() == user


def test_tracking_of_all_keys_is_told_from_a_prefix_of_that_name() -> None:
    settings = ConnectionSettings()
    settings.keep(b"CLIENT TRACKING ON PREFIX BCAST".split())
    assert (settings.tracks, settings.tracks_all) == (True, False)
    settings.keep(b"CLIENT TRACKING ON bcast".split())
    assert settings.tracks_all
