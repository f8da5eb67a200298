"""Counts in sentences for people: one key, two keys."""


def counted(count: int, one: str, many: str = "") -> str:
    """The count with its noun: "1 key", "2 keys"; `many` if the plural does not only add an s."""
    return f"{count} {one if count == 1 else many or f'{one}s'}"
