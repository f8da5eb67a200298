"""Replies as redis-cli shows them on a terminal. Knows no connection."""

from __future__ import annotations


def shown(value: object) -> str:
    """A reply in redis-cli's format; statuses are shown as strings."""
    if isinstance(value, list):
        lines = [f"{number}) {shown(each)}" for number, each in enumerate(value, 1)]
        return "\n".join(line.replace("\n", "\n   ") for line in lines) or "(empty array)"
    if isinstance(value, bytes):
        return f'"{value.decode()}"'
    if isinstance(value, Exception):
        return f"(error) {value}"
    return "(nil)" if value is None else f"(integer) {value}"
