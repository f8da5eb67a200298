"""The server under examination: facts that are asked for once, for all checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ttlproxy.commands import Native, natives
from ttlproxy.config import Settings
from ttlproxy.core.keys import Keys
from ttlproxy.core.signing import Signer
from ttlproxy.link import NodeOfSeveral, ScheduleQueries, SlotSchedules, attached, run, valid
from ttlproxy.link.connecting.known_server import unix_ms
from ttlproxy.net.progress import Progress
from ttlproxy.scripts import Scripts, Traits
from ttlproxy.scripts.script_calls import ScriptCalls

_SUBKEY_EVENTS: Final = (8, 8)


@dataclass(frozen=True)
class Target:
    """info: INFO's default sections, parsed by redis-py; config: empty if we may not call CONFIG
    commands: by name, empty if we may not call COMMAND
    sample: how many deadlines, and how many internal keys per database, are examined
    schedules: asks the server's schedules; progress: shows how far long work is
    """

    redis: Redis
    settings: Settings
    keys: Keys
    schedules: ScheduleQueries
    sample: int
    info: Mapping[str, Any]
    config: Mapping[str, str]
    commands: Mapping[str, Native]
    progress: Progress

    @property
    def version(self) -> tuple[int, ...]:
        return tuple(map(int, str(self.info.get("redis_version", "0")).split(".")[:2]))

    @property
    def server(self) -> str:
        """The server's name and version, for people."""
        if self.info.get("server_name") == "valkey":
            return f"Valkey {self.info.get('valkey_version', '?')}"
        return f"Redis {self.info.get('redis_version', '?')}"

    @property
    def user(self) -> str:
        """The proxy's own ACL user."""
        upstream = self.settings.upstream
        return (upstream and upstream.user) or "default"

    @property
    def shown(self) -> str:
        """The upstream's URL for people, without the password."""
        return self.settings.upstream.shown if self.settings.upstream else "URL"

    @property
    def has_sha(self) -> bool:
        """Whether the server has EVALSHA; assumed if we may not call COMMAND."""
        return not self.commands or "EVALSHA" in self.commands

    async def script_calls(self, *names: str, ruled: bool = False) -> ScriptCalls:
        """Calls of these scripts, as this server's proxies have them; it has loaded them into the
        server. `ruled`: there are rules."""
        scripts, commands = Scripts(self.keys.prefix), self.commands
        traits = Traits(
            "HPEXPIRETIME" in commands,
            self.version >= _SUBKEY_EVENTS,
            ruled=ruled,
            flags="EVAL_RO" in commands,
            clustered=self.keys.clustered,
        )
        scripts.suit(traits.notifying(self.config.get("notify-keyspace-events", "")))
        for name in names:
            await self.ask(b"SCRIPT", b"LOAD", scripts[name].text)
        scripts.loaded = self.has_sha
        return ScriptCalls(scripts, self.keys, bytes)

    @property
    def replicas(self) -> list[Mapping[str, Any]]:
        """INFO's facts about each replica."""
        rows = [row for name, row in self.info.items() if name[:5] == "slave"]
        return [row for row in rows if isinstance(row, dict)]

    @property
    def databases(self) -> list[int]:
        """The logical databases that hold keys."""
        found = (name for name, value in self.info.items() if isinstance(value, dict))
        return sorted(int(name[2:]) for name in found if name[:2] == "db" and name[2:].isdigit())

    async def ask(self, *words: bytes | int, db: int = 0) -> Any:
        """Sends one request; returns the reply. Raises ResponseError."""
        return (await self.ask_each(db, [words]))[0]

    async def ask_each(
        self, db: int, requests: Iterable[Sequence[bytes] | Sequence[bytes | int]]
    ) -> list[Any]:
        """Sends these requests at once; returns the replies. Raises ResponseError."""
        return [valid(reply) for reply in await run(self.redis, [(db, each) for each in requests])]

    async def now_ms(self) -> int:
        return unix_ms(await self.ask(b"TIME"))

    async def signer(self) -> Signer:
        """Returns a signer with the proxies' secret."""
        file = self.settings.signing_key_file
        secret = file.at_start.encode() if file else None
        return Signer(
            secret or await self.ask(b"HGET", self.keys.home(self.keys.state), b"secret") or b""
        )

    async def others(self, db: int) -> list[bytes]:
        """Returns some internal keys that are no indexes."""
        keys, slots = self.keys, self.schedules.slots()
        names = [keys.shared_in(number, keys.others) for number in slots] or [keys.others]
        requests = [(b"SRANDMEMBER", each, self.sample) for each in names]
        return list(chain.from_iterable(await self.ask_each(db, requests)))

    async def attached(self) -> int:
        """Returns the number of proxies that are connected to the server."""
        return await attached(self.redis, self.keys.prefix)


async def read_target(redis: Redis, settings: Settings, sample: int, progress: Progress) -> Target:
    """Asks for the facts that all checks need. Raises RedisError if the server refuses INFO."""
    info = await redis.info()
    keys = Keys(settings.prefix.encode(), clustered=bool(info.get("cluster_enabled")))
    schedules = (SlotSchedules if keys.clustered else ScheduleQueries)(keys)
    if isinstance(redis, NodeOfSeveral) and isinstance(schedules, SlotSchedules):
        keys.settle(redis.owned)
        schedules.owned = redis.owned
    await schedules.find(redis)
    asked: list[Sequence[bytes | int]] = [(b"CONFIG", b"GET", b"*"), (b"COMMAND",)]
    replies = await run(redis, [(0, words) for words in asked])
    config, commands = ([] if isinstance(each, ResponseError) else valid(each) for each in replies)
    words = [word.decode(errors="replace") for word in config]
    return Target(
        redis=redis,
        settings=settings,
        keys=keys,
        schedules=schedules,
        sample=sample,
        info=info,
        config=dict(zip(words[::2], words[1::2], strict=True)),
        commands={native.name: native for native in natives(commands)},
        progress=progress,
    )
