"""What COMMAND says of one virtual command: its row, its documentation, its categories.

A script gets this as JSON and puts it into Redis's reply. In the JSON, `{"ok": ...}` is a status;
`{"set": [...]}` and `{"map": [[key, value], ...]}` become arrays under RESP2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ttlproxy.commands.docs.arguments import Argument, arguments
from ttlproxy.commands.model.key_positions import READ, KeySpec
from ttlproxy.commands.model.spec import Virtual

_CATEGORIES = {"sorted-set": "sortedset", "generic": "keyspace", "server": "connection"}


def reads(virtual: Virtual) -> bool:
    """Whether the command only reads its keys; False if it has none."""
    return bool(virtual.positions) and all(spec.access == READ for spec in virtual.positions)


def acl_categories(virtual: Virtual) -> list[str]:
    """The ACL categories of the command, each with its `@`."""
    kind = _CATEGORIES.get(virtual.group, virtual.group)
    return ["@read" if reads(virtual) else "@write", f"@{kind}", "@slow"]


def _statuses(words: Iterable[str]) -> dict[str, Any]:
    return {"set": [{"ok": word} for word in words]}


def _map(**entries: Any) -> dict[str, Any]:
    return {"map": list(entries.items())}


def row(virtual: Virtual) -> list[Any]:
    """Its row as in Redis 7; for a 6.2 server the script takes the first seven columns."""
    flags = ["readonly"] if reads(virtual) else ["write"]
    specs = virtual.positions
    if virtual.denies_oom:
        flags.append("denyoom")
    if any(spec.keyword for spec in specs):
        flags.append("movablekeys")
    exact = len(virtual.forms) == 1 and "[" not in virtual.forms[0]
    places = [0 if spec.keyword else spec.index for spec in specs] or [0]
    return [
        virtual.name.lower(),
        virtual.min_words if exact else -virtual.min_words,
        _statuses(flags),
        *(places[0], max(places), int(places[0] > 0)),
        _statuses(acl_categories(virtual)),
        {"set": []},
        {"set": [_key_spec(spec) for spec in specs]},
        {"set": []},
    ]


def _key_spec(spec: KeySpec) -> dict[str, Any]:
    if spec.keyword:
        begin = _map(type="keyword", spec=_map(keyword=spec.keyword.decode(), startfrom=spec.index))
    else:
        begin = _map(type="index", spec=_map(index=spec.index))
    return _map(
        flags=_statuses(("RO", "access") if spec.access == READ else ("RW", "update")),
        begin_search=begin,
        find_keys=_map(type="range", spec=_map(lastkey=0, keystep=1, limit=0)),
    )


def docs(virtual: Virtual) -> dict[str, Any]:
    """Its entry of COMMAND DOCS."""
    return _map(
        summary=virtual.summary,
        since=virtual.since,
        group=virtual.group,
        complexity=virtual.complexity,
        arguments=[_argument(argument) for argument in arguments(virtual.hinted, virtual.integers)],
    )


def _argument(argument: Argument) -> dict[str, Any]:
    entries: dict[str, Any] = {"name": argument.name, "type": argument.type}
    if argument.type == "key":
        entries["key_spec_index"] = int(argument.name == "destination")
    if argument.token:
        entries["token"] = argument.token
    if argument.flags:
        entries["flags"] = _statuses(argument.flags)
    if argument.arguments:
        entries["arguments"] = [_argument(each) for each in argument.arguments]
    return _map(**entries)
