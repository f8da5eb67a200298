"""Times to deadlines, for people."""

from typing import Final

# Each unit, and how many ms it has; two of them are shown.
_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


def left(ms: int) -> str:
    """`in 2 h 5 min`; `due` for what has passed."""
    if ms <= 0:
        return "due"
    if ms < 10_000:
        return f"in {ms / 1000:.1f} s"
    whole = [(unit, ms // length, ms % length) for unit, length in _UNITS]
    at = next(number for number, (_, count, _) in enumerate(whole) if count)
    unit, count, rest = whole[at]
    words = [f"{count} {unit}"]
    if at + 1 < len(_UNITS) and (fewer := rest // _UNITS[at + 1][1]):
        words.append(f"{fewer} {_UNITS[at + 1][0]}")
    return f"in {' '.join(words)}"
