"""One run: four proxies in front of a Redis, their clients, and the kills of proxies."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.chaos.clients import BUSY, FIRED, STREAM, WORK, Part
from tests.support.processes import wait_until
from tests.support.redis_client import Client
from tests.support.servers import Proxy, Server

PROXIES = 4
_NODE = "chaos.mjs"
_LAST_S = 60.0


@dataclass(frozen=True)
class Account:
    """What happened, in numbers, and the faults."""

    counts: Counter[str]
    faults: Sequence[str]


def run(server: Server, proxies: Sequence[Proxy], seconds: float, seed: int, node: Path) -> Account:
    """`node` is a folder with tests/support/clients and its npm packages."""
    direct = Client(server.port)
    ports = [proxy.port for proxy in proxies]
    clock = Client(server.port)
    lock = threading.Lock()

    def now_ms() -> int:
        with lock:
            return clock.now_ms()

    part = Part(ports, now_ms, seed)
    through = Client(ports[0])
    assert through.ask("ONEXPIRE", "h:*", "XADD", FIRED) == b"OK"
    assert through.ask("ONEXPIRE", BUSY, "RPUSH", WORK) == b"OK"
    through.close()
    clients = part.clients()
    for client in clients:
        client.start()
    other = subprocess.Popen(
        ["node", _NODE, str(seconds), *map(str, ports)], cwd=node, stdout=subprocess.PIPE, text=True
    )
    twice, kills = _disturb(proxies, direct, part, Random(seed), seconds)
    part.stop.set()
    for client in clients:
        client.join()
    said, _ = other.communicate(timeout=_LAST_S)
    if other.returncode or part.troubles:
        raise RuntimeError(f"a client has failed: {part.troubles or other.returncode}")
    _add(part, json.loads(said))
    wait_until(lambda: not direct.ask("ZCARD", "__ttl:schedule"), "all due", _LAST_S)
    account = _account(part, direct, twice)
    account.counts["proxies killed"] = kills
    direct.close()
    clock.close()
    return account


def _disturb(
    proxies: Sequence[Proxy], direct: Client, part: Part, chance: Random, seconds: float
) -> tuple[set[str], int]:
    """Kills proxies one after the other; returns the items seen in two places, and the kills."""
    over = threading.Timer(seconds, part.stop.set)
    over.start()
    twice: set[str] = set()
    kills = 0
    while not part.stop.wait(chance.uniform(0.1, 0.6)):
        proxy = chance.choice(proxies)
        proxy.kill()
        kills += 1
        lent, left = direct.ask_many(
            [("SMEMBERS", BUSY), ("LRANGE", WORK, 0, -1)], transaction=True
        )
        twice.update(item.decode() for item in set(lent) & set(left))
        proxy.start()
    over.join()
    return twice, kills


def _add(part: Part, said: dict[str, dict[str, dict[str, int]]]) -> None:
    """Adds what the clients in the other language know."""
    part.deferred.add(said["deferred"])
    part.fields.add(said["fields"])
    part.items.done.update(said["items"]["done"])
    part.items.doubted.update(said["items"]["doubted"])


def _account(part: Part, direct: Client, twice: set[str]) -> Account:
    # An id was seen to be 1 ms behind TIME in the same script (Redis 6.2, a busy machine).
    deferred = [
        (words[1].decode(), int(entry.split(b"-")[0]) + 1)
        for entry, words in direct.ask("XRANGE", STREAM, "-", "+")
    ]
    entries = [
        dict(zip(w[::2], w[1::2], strict=True)) for _, w in direct.ask("XRANGE", FIRED, "-", "+")
    ]
    fields = [(entry[b"element"].decode(), int(entry[b"fired"])) for entry in entries]
    here = [*direct.ask("LRANGE", WORK, 0, -1), *direct.ask("SMEMBERS", BUSY)]
    places = Counter(item.decode() for item in here)
    counts = Counter(
        {
            "tasks written": len(part.deferred.written) + len(part.fields.written),
            "tasks delivered": len(deferred) + len(fields),
            "tasks cancelled": len(part.deferred.cancelled) + len(part.fields.cancelled),
            "items pushed": len(part.items.written),
            "items done": part.items.done.total(),
            "items left": places.total(),
            "in doubt": len(part.items.doubted | part.deferred.doubted | part.fields.doubted),
        }
    )
    faults = [f"{item} was lent, and still in the list" for item in twice]
    faults += [f"deferred {fault}" for fault in part.deferred.faults(deferred)]
    faults += [f"field {fault}" for fault in part.fields.faults(fields)]
    faults += [f"item {fault}" for fault in part.items.faults(places)]
    return Account(counts, faults)
