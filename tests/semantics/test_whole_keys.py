"""Deletion, expiry and databases of whole keys, and the rest that all types have in common."""

from __future__ import annotations

from tests.support.raw_client import Connection, command

# --- transactions


def test_an_error_inside_exec_stands_in_its_place(app: Connection) -> None:
    requests: list[list[str | int]] = [
        ["MULTI"], ["HSET", "h", "a", 1], ["HEXPIREFIELD", "h", "a", "x"],
        ["SEXPIREMEMBER", "h", "a", 100], ["HEXPIREFIELD", "h", "a", 100],
        ["HTTLFIELD", "h", "a"], ["EXEC"],
    ]  # fmt: skip
    app.send(b"".join(command(*words) for words in requests))
    assert app.read_many(7)[-1] == (
        b"*5\r\n:1\r\n-ERR value is not an integer or out of range\r\n"
        b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n:1\r\n:100\r\n"
    )


# --- RESP3


def test_replies_about_managed_keys_keep_their_resp3_types(app: Connection) -> None:
    app.ask("HELLO", 3)
    app.ask("HSET", "h", "a", 1)
    app.ask("HEXPIREFIELD", "h", "a", 100)
    app.ask("SADDEX", "s", 100, "a")
    assert app.ask("HGETALL", "h") == b"%1\r\n$1\r\na\r\n$1\r\n1\r\n"
    assert app.ask("HGET", "h", "zz") == b"_\r\n"
    assert app.ask("SMEMBERS", "s") == b"~1\r\n$1\r\na\r\n"
    assert app.ask("HINCRBYFLOAT", "h", "a", "0.5") == b"$3\r\n1.5\r\n"
    assert app.ask("SPOP", "s", 9) == b"~1\r\n$1\r\na\r\n"
    assert app.ask("SPOP", "s") == b"_\r\n"
    assert app.ask("HTTLFIELD", "h", "FIELDS", 2, "a", "zz") == b"*2\r\n:100\r\n:-2\r\n"
