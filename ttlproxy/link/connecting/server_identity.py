"""Which server has answered, and in which role: read from INFO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

INFO = (b"INFO",)
# Costs Redis a tenth of it, and tells how many clients track keys.
CLIENTS = (b"INFO", b"clients")
KEYSPACE = (b"INFO", b"keyspace")
ERRORS = (b"INFO", b"errorstats")
ROLE = (b"ROLE",)
# Of a server that does not count clients that track keys.
_MANY = 1 << 30


class Identity(NamedTuple):
    """run_id: new after each start of a server; empty if it tells none.

    trackers: clients that track keys, as each proxy does; databases: those that hold keys
    is_clustered: it is a node of a Cluster
    """

    run_id: str
    is_master: bool
    trackers: int
    databases: list[int]
    is_clustered: bool = False

    @classmethod
    def of(cls, info: Mapping[str, str]) -> Identity:
        return cls(
            info.get("run_id", ""),
            info.get("role", "master") == "master",
            trackers(info),
            databases(info),
            info.get("cluster_enabled") == "1",
        )

    @property
    def attached(self) -> int:
        """How many proxies there are, this one among them; 0 if the server does not tell."""
        return self.trackers if self.trackers < _MANY else 0

    def is_other(self, met: Identity) -> bool:
        """Whether `met`, which has answered now, replaces this server.

        Two replicas behind one address count as the same.
        """
        if not (self.run_id and met.run_id) or self.run_id == met.run_id:
            return False
        return self.is_master or met.is_master


def trackers(info: Mapping[str, str]) -> int:
    """How many clients track keys."""
    return int(info.get("tracking_clients", _MANY))


def databases(info: Mapping[str, str]) -> list[int]:
    """The logical databases that hold keys."""
    return [int(name[2:]) for name in info if name.startswith("db") and name[2:].isdigit()]


def fields(text: bytes) -> Mapping[str, str]:
    """The fields of INFO's reply, of all sections."""
    lines = text.decode(errors="replace").split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def cached_scripts(memory: bytes) -> int:
    """How many scripts the server knows, by INFO's section of memory."""
    return int(fields(memory).get("number_of_cached_scripts", 0))


def maxlen_refusals(info: Mapping[str, str]) -> int:
    """How many requests got TTLMAXLEN since the server's start, or since its statistics were reset;
    0 if it does not tell."""
    _, _, count = info.get("errorstat_TTLMAXLEN", "").partition("count=")
    return int(count or 0)
