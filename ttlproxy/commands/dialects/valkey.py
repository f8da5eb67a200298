"""Hash-field commands as Valkey takes and answers them, if that is not Redis 8's way.

Only for managed keys: for others Valkey answers itself. Malformed requests get Redis 8's errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from ttlproxy import errors
from ttlproxy.commands.families.long_forms import GETTERS, SETTERS
from ttlproxy.commands.grammar import hash_options
from ttlproxy.commands.grammar.options import Conditions
from ttlproxy.commands.model.spec import Plan
from ttlproxy.commands.types import hash_forms, hashes

_TOGETHER = (frozenset({b"XX", b"GT"}), frozenset({b"XX", b"LT"}))
_EXCLUSIVE = (frozenset({b"FNX", b"FXX"}), frozenset({b"NX", b"XX"}))


def _refusal(given: Sequence[bytes]) -> bytes | None:
    return errors.SYNTAX if any(pair <= {*given} for pair in _EXCLUSIVE) else None


# NX and XX are conditions on the key, FNX and FXX on its fields.
_HSETEX = hashes.HSETEX._replace(
    conditions=Conditions((b"FNX", b"FXX", b"NX", b"XX"), _refusal),
)
_LONG = replace(
    hash_forms.LONG,
    condition_and_elements=partial(hash_options.condition_and_fields, together=_TOGETHER),
)


def _getters() -> dict[str, Plan]:
    """TTL and its variants, rounded to the nearest unit."""
    return {
        (name := _LONG.name(word)): _LONG.plan_named(
            name, "rounded_ttl", b"%d" % unit.ms, unit.base
        )
        for word, unit in GETTERS.items()
    }


FORMS: Final[Mapping[str, Plan]] = {
    **{_LONG.name(word): _LONG.setter(word, unit).plan for word, unit in SETTERS.items()},
    **_getters(),
    "HSETEX": hashes.planning_setex(_HSETEX),
}
