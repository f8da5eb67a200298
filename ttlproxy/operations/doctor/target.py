"""The server under examination: facts that are asked for once, for all checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ResponseError

from ttlproxy.commands import Native, natives
from ttlproxy.config import Settings
from ttlproxy.core.keys import Keys
from ttlproxy.core.signing import Signer
from ttlproxy.link import NodeOfSeveral, ScheduleQueries, SlotSchedules, attached, run, valid
from ttlproxy.net.progress import Progress
from ttlproxy.scripts import Scripts, Traits
from ttlproxy.scripts.script_calls import ScriptCalls

_SUBKEY_EVENTS = (8, 8)


@dataclass(frozen=True)
class Target:
    """info: INFO's default sections, parsed by redis-py; config: empty if we may not call CONFIG;
    commands: by name, empty if we may not call COMMAND; sample: how many deadlines, and how many
    internal keys per database, are examined; schedules: what the server's schedules are asked;
    progress: takes how far long work is
    """

    redis: Redis
    settings: Settings
    keys: Keys
    schedules: ScheduleQueries | SlotSchedules
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
        """Its name and version, for people."""
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
    def traits(self) -> Traits:
        """The server's traits, for which the scripts of its proxies are made."""
        names, has_subkeys = self.commands, self.version >= _SUBKEY_EVENTS
        own = Traits(
            "HPEXPIRETIME" in names,
            has_subkeys,
            flags="EVAL_RO" in names,
            clustered=self.keys.clustered,
        )
        return own.notifying(self.config.get("notify-keyspace-events", ""))

    @property
    def has_sha(self) -> bool:
        """Whether the server has EVALSHA; assumed if we may not call COMMAND."""
        return not self.commands or "EVALSHA" in self.commands

    def scripts(self, *, ruled: bool = False) -> Scripts:
        """As the proxies of this server have them. `ruled`: there are rules."""
        scripts = Scripts(self.keys.prefix)
        scripts.suit(self.traits._replace(ruled=ruled))
        return scripts

    async def script_calls(self, *names: str, ruled: bool = False) -> ScriptCalls:
        """Calls of these scripts, which it has loaded into the server."""
        scripts = self.scripts(ruled=ruled)
        for name in names:
            await self.ask(b"SCRIPT", b"LOAD", scripts[name].text)
        scripts.loaded = self.has_sha
        return ScriptCalls(scripts, self.keys, bytes)

    def grant(self, refused: ResponseError, rules: str) -> str:
        """The command that grants `rules`, if Redis refused for a missing right; else empty."""
        is_right = isinstance(refused, NoPermissionError)
        return f"ACL SETUSER {self.user} {rules}" if is_right else ""

    @property
    def databases(self) -> list[int]:
        """The logical databases that hold keys."""
        found = (name for name, value in self.info.items() if isinstance(value, dict))
        return sorted(int(name[2:]) for name in found if name[:2] == "db" and name[2:].isdigit())

    async def ask(self, *words: bytes | int, db: int = 0) -> Any:
        """Sends one request; returns the reply. Raises ResponseError."""
        return valid((await run(self.redis, [(db, words)]))[0])

    async def now_ms(self) -> int:
        seconds, microseconds = await self.ask(b"TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def signer(self) -> Signer:
        """A signer with the proxies' secret."""
        file = self.settings.signing_key_file
        secret = file.at_start.encode() if file else None
        return Signer(
            secret or await self.ask(b"HGET", self.keys.home(self.keys.state), b"secret") or b""
        )

    async def others(self, db: int) -> list[bytes]:
        """Some internal keys that are no indexes."""
        keys, slots = self.keys, self.schedules.slots()
        names = [keys.shared_in(number, keys.others) for number in slots] or [keys.others]
        replies = await run(
            self.redis, [(db, (b"SRANDMEMBER", each, self.sample)) for each in names]
        )
        return [other for reply in replies for other in valid(reply)]

    async def attached(self) -> int:
        """The number of proxies that are connected to the server."""
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
    return Target(
        redis=redis,
        settings=settings,
        keys=keys,
        schedules=schedules,
        sample=sample,
        info=info,
        config=await _config(redis),
        commands=await _commands(redis),
        progress=progress,
    )


async def _config(redis: Redis) -> dict[str, str]:
    try:
        reply = valid((await run(redis, [(0, (b"CONFIG", b"GET", b"*"))]))[0])
    except ResponseError:
        return {}
    words: Sequence[bytes | str] = (
        reply if isinstance(reply, list) else [word for pair in reply.items() for word in pair]
    )
    texts = [word.decode(errors="replace") if isinstance(word, bytes) else word for word in words]
    return dict(zip(texts[::2], texts[1::2], strict=True))


async def _commands(redis: Redis) -> dict[str, Native]:
    try:
        reply = valid((await run(redis, [(0, (b"COMMAND",))]))[0])
    except ResponseError:
        return {}
    return {native.name: native for native in natives(reply)}
