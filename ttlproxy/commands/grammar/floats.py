"""Floating-point words as Redis reads and writes them: long doubles of 64 bits, 17 decimals.

Reads as its string2ld does, writes as its ld2string (src/util.c). Knows no command.
"""

from __future__ import annotations

import re
from fractions import Fraction

_DECIMAL = re.compile(rb"([+-]?)(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?")
_HEXADECIMAL = re.compile(rb"([+-]?)0[xX]([0-9a-fA-F]+)(?:[pP]([+-]?\d+))?")
_INFINITE = re.compile(rb"([+-]?)inf(?:inity)?", re.IGNORECASE)
# Longer words and larger exponents are refused before they cost time.
_MOST_WORD = 5 * 1024
_MOST_EXPONENT = 20_000
_BITS = 64
_DECIMALS = 17
_LARGEST = Fraction(2**_BITS - 1) * 2 ** (16384 - _BITS)
_SMALLEST = Fraction(1, 2**16382)
# Stands for infinity: larger than every number that can be read.
INFINITE = Fraction(2**16384)


def long_double(word: bytes) -> Fraction | None:
    """The number in a word; None if it is none, or too large or too small."""
    infinite = _INFINITE.fullmatch(word)
    if infinite:
        return -INFINITE if infinite[1] == b"-" else INFINITE
    hexadecimal = _HEXADECIMAL.fullmatch(word)
    found = hexadecimal or _DECIMAL.fullmatch(word)
    if not found or len(word) > _MOST_WORD:
        return None
    digits = Fraction(int(found[2], 16)) if hexadecimal else Fraction(found[2].decode())
    exponent = int(found[3] or 0)
    if not digits:
        return digits
    if abs(exponent) > _MOST_EXPONENT:
        return None
    value = _rounded(digits * Fraction(2 if hexadecimal else 10) ** exponent)
    if not _SMALLEST <= value <= _LARGEST:
        return None
    return -value if found[1] == b"-" else value


def written(value: Fraction) -> bytes:
    """The number as Redis writes it; b"" for an infinite one."""
    if abs(value) == INFINITE:
        return b""
    scaled = round(abs(value) * 10**_DECIMALS)
    whole, rest = divmod(scaled, 10**_DECIMALS)
    text = f"{whole}.{rest:0{_DECIMALS}}".rstrip("0").rstrip(".")
    return (f"-{text}" if value < 0 and scaled else text).encode()


def _rounded(value: Fraction) -> Fraction:
    """Rounded to 64 bits, half to even."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length() - _BITS
    while value >= Fraction(2) ** (exponent + _BITS):
        exponent += 1
    unit = Fraction(2) ** exponent
    return round(value / unit) * unit
