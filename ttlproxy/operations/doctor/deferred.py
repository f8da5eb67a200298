"""Checks whether a proxy has signed the deferred commands."""

from __future__ import annotations

from ttlproxy.commands import Call
from ttlproxy.core.counted import counted
from ttlproxy.operations.doctor.content import script_calls_of
from ttlproxy.operations.doctor.finding import ERROR, OK, Finding
from ttlproxy.operations.doctor.target import Target

_SHOWN = 3
_EACH = b"100"


async def deferred(target: Target) -> list[Finding]:
    """A finding for each database with unsigned deferred commands; examines a sample."""
    script_calls = await script_calls_of(target, "deferred_examine")
    pads = (await target.signer()).pads
    looked, found = 0, list[Finding]()
    for db in target.databases:
        unsigned: dict[bytes, int] = {}
        keys = [
            key
            for name in await target.others(db)
            if (key := target.keys.deferring(name)) is not None
        ]
        for key in keys:
            words = script_calls.words(Call("deferred_examine", (key,), (*pads, _EACH)), b"")
            if count := await target.ask(*words, db=db):
                unsigned[key] = count
        looked += len(keys)
        if unsigned:
            found.append(_finding(db, unsigned))
    return found or [
        Finding("deferred", OK, f"the deferred commands of {counted(looked, 'key')} are signed")
    ]


def _finding(db: int, unsigned: dict[bytes, int]) -> Finding:
    return Finding(
        "deferred",
        ERROR,
        f"deferred commands in database {db} that no proxy has signed: {sum(unsigned.values())}",
        "They were written without a proxy, or signed with another key. They are not carried out.",
        "UNDEFER key id for each, through a proxy; then DEFER again what you need",
        tuple(unsigned)[:_SHOWN],
    )
