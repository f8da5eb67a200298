"""WATCH: a change of a deadline is a change of the key."""

from __future__ import annotations

import pytest

from tests.support.containers import AnyServer
from tests.support.conversation import hold
from tests.support.per_type import every_type, said_of
from tests.support.processes import wait_until
from tests.support.raw_client import Connection
from tests.support.redis_client import Client


@every_type
@pytest.mark.parametrize(
    "change",
    [
        "HEXPIREFIELD k a 100 -> 1",
        "HEXPIREFIELD k b 100 -> 1",
        "HPERSISTFIELD k b -> 1",
        "HEXPIREFIELD k a 0 -> 2",
        "ADD k a -> *\nADD k b -> *\nREM k b -> 1",
        "RENAME k other -> OK",
        "EXPIRE k 1000 -> 1",
    ],
)
def test_what_changes_a_deadline_aborts_the_transaction_of_who_watches(
    app: Connection, other: Connection, direct: Client, type_: str, change: str
) -> None:
    hold(app, direct, said_of(type_, "ADD k a b -> 2"))
    if "b" in change:
        hold(app, direct, said_of(type_, "HEXPIREFIELD k b 200 -> 1"))
    hold(app, direct, "WATCH nokey k -> OK")
    hold(other, direct, said_of(type_, change))
    hold(app, direct, "MULTI -> OK\nSET text x -> QUEUED\nEXEC -> nil\nGET text -> nil")


@every_type
def test_what_changes_nothing_does_not_abort_the_transaction_of_who_watches(
    app: Connection, other: Connection, direct: Client, type_: str
) -> None:
    hold(app, direct, said_of(type_, "ADD k a b -> 2\nHEXPIREFIELD k a 100 -> 1\nWATCH k -> OK"))
    hold(other, direct, said_of(type_, "HEXPIREFIELD k a 50 NX -> 0\nHTTLFIELD k a -> 100"))
    hold(other, direct, said_of(type_, "HEXPIREFIELD k zz 50 -> -2\nHPERSISTFIELD k b -> -1"))
    hold(app, direct, "MULTI -> OK\nSET text x -> QUEUED\nEXEC -> [OK]")


@pytest.mark.usefixtures("no_reaper")
@every_type
def test_an_element_that_was_due_before_the_watch_does_not_abort_it(
    app: Connection, direct: Client, type_: str
) -> None:
    hold(app, direct, said_of(type_, "ADD k a b -> 2\nHPEXPIREFIELD k a 20 -> 1\nwait 20"))
    hold(app, direct, said_of(type_, "WATCH k -> OK\nLEN k -> 1\nMULTI -> OK\nLEN k -> QUEUED"))
    hold(app, direct, "EXEC -> [1]")


@pytest.mark.usefixtures("no_reaper")
@every_type
def test_an_element_that_falls_due_aborts_a_transaction_that_names_its_key(
    app: Connection, direct: Client, type_: str
) -> None:
    dated = "ADD k a b -> 2\nHPEXPIREFIELD k a 20 -> 1"
    hold(app, direct, said_of(type_, dated + "\nWATCH k -> OK\nwait 20 in time"))
    hold(app, direct, said_of(type_, "MULTI -> OK\nLEN k -> QUEUED\nEXEC -> nil"))
    hold(app, direct, said_of(type_, "LEN k -> 1"))


def test_watching_is_refused_in_redis_own_words(app: Connection, plain: AnyServer) -> None:
    app.ask("SADDEX", "k", 100, "a")
    said = ["WATCH", "WATCH k", "UNWATCH", "MULTI", "WATCH k"]
    with Connection(plain.port) as direct:
        for line in said:
            assert app.ask(*line.split()) == direct.ask(*line.split()), line


def test_a_user_without_a_right_to_indexes_has_its_transactions(
    app: Connection, other: Connection, direct: Client
) -> None:
    direct.ask("ACL", "SETUSER", "watcher", "on", "nopass", "~app:*", "&*", "+@all")
    try:
        wait_until(lambda: _watches_as("watcher", other), "the proxy knows the user")
        hold(app, direct, "SET app:x 1 -> OK\nSADDEX managed 100 m -> 1")
        hold(other, direct, "MULTI -> OK\nGET app:x -> QUEUED\nEXEC -> nil")
        hold(other, direct, "MULTI -> OK\nSADD app:s a -> QUEUED\nEXEC -> [1]")
    finally:
        direct.ask("ACL", "DELUSER", "watcher")


def _watches_as(user: str, app: Connection) -> bool:
    assert app.ask("AUTH", user, "any") == b"+OK\r\n"
    return app.ask("WATCH", "app:x") == b"+OK\r\n"
