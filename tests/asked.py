"""Questions put to a Redis itself, past the proxy. Knows INFO and CLIENT LIST."""

from tests.processes import wait_until
from tests.raw import Connection


def info(port: int, section: str) -> dict[str, str]:
    with Connection(port) as client:
        text = client.ask("INFO", section).decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def calls(port: int, name: str) -> int:
    """How often a command was called since the last CONFIG RESETSTAT."""
    stat = info(port, "commandstats").get(f"cmdstat_{name}", "calls=0")
    return int(stat.split(",")[0].removeprefix("calls="))


def clients(port: int) -> int:
    return int(info(port, "clients")["connected_clients"])


def until_blocked(port: int, count: int) -> None:
    """Returns when so many clients wait in a blocking command."""
    wait_until(
        lambda: int(info(port, "clients")["blocked_clients"]) == count, f"{count} blocked clients"
    )
