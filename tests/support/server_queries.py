"""Questions to Redis itself, without the proxy. Knows INFO, CLIENT INFO and MONITOR."""

import re

from tests.support.processes import wait_until
from tests.support.raw_client import Connection


def info(port: int, section: str) -> dict[str, str]:
    with Connection(port) as client:
        text = client.ask("INFO", section).decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def calls(port: int, name: str) -> int:
    """How often a command was called since the last CONFIG RESETSTAT. Redis 6.2 counts all
    subcommands as one command: there "acl|list" is all that ACL was called for."""
    stats, container = info(port, "commandstats"), name.partition("|")[0]
    stat = stats.get(f"cmdstat_{name}") or stats.get(f"cmdstat_{container}", "calls=0")
    return int(stat.split(",")[0].removeprefix("calls="))


def let_beat(port: int, count: int, asked: str = "hmget") -> None:
    """Returns after so many heartbeats of all proxies together, when the next has begun: each
    asks what they share, or if it is of another master than that, the other command once."""
    before = calls(port, asked)
    wait_until(lambda: calls(port, asked) > before + count, "heartbeats")


def until_loaded(port: int) -> None:
    """Ends when the proxies have loaded all their scripts, as they do once one is called."""

    def cached() -> int:
        with Connection(port) as direct:
            said = direct.ask("INFO", "memory").partition(b"number_of_cached_scripts:")[2]
        return int(said.partition(b"\r\n")[0])

    def are_loaded() -> bool:
        before = cached()
        let_beat(port, 3)
        return before == cached() > 50

    wait_until(are_loaded, "all scripts are loaded")


def received(port: int, client: Connection, *words: str) -> list[bytes]:
    """The names of the commands that Redis receives on the client's connection for a request."""
    address = re.findall(rb" addr=(\S+)", client.ask("CLIENT", "INFO"))[0]
    names: list[bytes] = []
    with Connection(port) as monitor:
        monitor.ask("MONITOR")
        client.ask(*words)
        client.ask("ECHO", "the end")
        while b"echo" not in names:
            sender, _, command = monitor.read().partition(b"] ")
            if sender.endswith(b" " + address):
                names.append(command.split(b'"')[1].lower())
    return names[:-1]


def called_by_script(port: int, client: Connection, *words: str) -> list[bytes]:
    """The names of the commands that the script of a request calls."""
    address = re.findall(rb" addr=(\S+)", client.ask("CLIENT", "INFO"))[0]
    names, is_ours = list[bytes](), False  # the link has scripts, too
    with Connection(port) as monitor:
        monitor.ask("MONITOR")
        client.ask(*words)
        client.ask("ECHO", "the end")
        for line in monitored(monitor, b'"ECHO"'):
            if b" lua] " not in line:
                is_ours = b" " + address + b"]" in line
            elif is_ours:
                names.append(line.split(b'"')[1].lower())
    return names


def monitored(monitor: Connection, until: bytes) -> list[bytes]:
    """The lines of MONITOR up to the first that contains this."""
    seen = [monitor.read()]
    while until not in seen[-1]:
        seen.append(monitor.read())
    return seen


def until_called_by_digest(port: int, client: Connection) -> None:
    """Returns when the client's proxy calls scripts by EVALSHA.

    The proxy uses EVAL for a second or two after a SCRIPT FLUSH, or a first or last rule, perhaps
    one of an earlier test: this script has another text where there are rules.
    """
    wait_until(
        lambda: received(port, client, "SEXPIREMEMBER", "none", "9", "m") == [b"evalsha"],
        "scripts called by their digests",
    )


def clients(port: int) -> int:
    return int(info(port, "clients")["connected_clients"])


def connections(port: int, *login: str) -> list[dict[str, str]]:
    """What CLIENT LIST says of each connection, including the one that asks, which logs in."""
    with Connection(port) as client:
        if login:
            assert client.ask("AUTH", *login) == b"+OK\r\n"
        lines = client.ask("CLIENT", "LIST").decode().splitlines()
    pairs = [[word.partition("=") for word in line.split(" ")] for line in lines if "id=" in line]
    return [{name: value for name, _, value in each} for each in pairs]


def having(port: int, last: str, *login: str) -> list[dict[str, str]]:
    """The clients' connections whose last command was this, or one of its subcommands."""
    found = connections(port, *login)
    asking = max(found, key=lambda each: int(each["id"]))
    return [
        each
        for each in found
        if each["cmd"].split("|")[0].lower() == last and not each["name"].startswith("ttlproxy:")
        if each is not asking
    ]


def unnamed(port: int) -> int:
    """Connections without a name: those of clients, including the one that asks."""
    return sum(not each["name"] for each in connections(port))


def until_blocked(port: int, count: int) -> None:
    """Returns when so many clients wait in a blocking command."""
    wait_until(
        lambda: int(info(port, "clients")["blocked_clients"]) == count, f"{count} blocked clients"
    )


def largest_query(port: int) -> int:
    """The size in bytes of the largest request that Redis is receiving."""
    with Connection(port) as client:
        return max(map(int, re.findall(rb" qbuf=(\d+)", client.ask("CLIENT", "LIST"))))
