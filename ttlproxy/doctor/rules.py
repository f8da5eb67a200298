"""A check of what ONEXPIRE's rules say: whether what they hand on can be delivered."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ttlproxy.actions import Actions
from ttlproxy.doctor.finding import ERROR, OK, Finding
from ttlproxy.doctor.patient import Patient

_SHOWN = 3


async def rules(patient: Patient) -> list[Finding]:
    """A finding for each destination that is of another type than its rule wants."""
    count, found = 0, list[Finding]()
    for db in patient.databases:
        fields = await patient.ask(b"HGETALL", patient.keys.rules, db=db)
        if not isinstance(fields, dict):
            fields = dict(zip(fields[::2], fields[1::2], strict=True))
        patterns = [name[1:] for name in fields if name.startswith(b":")]
        count += len(patterns)
        async for finding in _undeliverable(patient, db, Actions(fields), patterns):
            found.append(finding)
    return found or [Finding("rules", OK, f"{count} rules can deliver")]


async def _undeliverable(
    patient: Patient, db: int, actions: Actions, patterns: list[bytes]
) -> AsyncIterator[Finding]:
    """Looked at are destinations of keys that the patterns name, and of some with deadlines."""
    words = (b"ZRANDMEMBER", patient.keys.schedule, patient.sample)
    sources: dict[bytes, tuple[str, list[bytes]]] = {}
    for key in [*patterns, *(await patient.ask(*words, db=db) if patterns else ())]:
        action = actions.of(key)
        for dest in action.keys if action else ():
            wanted = "stream" if action and action.verb == b"XADD" else "list"
            sources.setdefault(dest, (wanted, []))[1].append(key)
    for dest, (wanted, keys) in sources.items():
        kind = (await patient.ask(b"TYPE", dest, db=db)).decode()
        if kind not in ("none", wanted):
            shown = dest.decode(errors="backslashreplace")
            yield Finding(
                "rules",
                ERROR,
                f"{shown} in database {db} is a {kind}, and a rule of ONEXPIRE wants a {wanted}",
                "What is due waits, and is handed on once there is room for it.",
                f"RENAME {shown} {shown}:aside",
                tuple(dict.fromkeys(keys))[:_SHOWN],
            )
