"""What a server counts of commands, by family, and of errors, by their first word."""

from __future__ import annotations

import pytest

from ttlproxy.commands import Native
from ttlproxy.core.counters import CommandCounts
from ttlproxy.link.connecting.known_server import fields
from ttlproxy.link.server.command_table import counted_commands, counted_errors, families_of

COMMANDS = b"""# Commandstats\r
cmdstat_hget:calls=3,usec=6,usec_per_call=2.00,rejected_calls=1,failed_calls=2\r
cmdstat_hset:calls=1,usec=4,usec_per_call=4.00,rejected_calls=0,failed_calls=0\r
cmdstat_config|get:calls=2,usec=10,usec_per_call=5.00,rejected_calls=0,failed_calls=0\r
cmdstat_geoadd:calls=1,usec=1,usec_per_call=1.00\r
"""
ERRORS = b"""# Errorstats\r
errorstat_ERR:count=2\r
errorstat_somebody's-own:count=3\r
errorstat_another:count=4\r
"""


def _native(name: str, *categories: bytes) -> Native:
    return Native(name, 1, frozenset(), categories=frozenset(categories))


def test_commands_are_summed_up_by_family() -> None:
    of = families_of(
        [
            _native("HGET", b"@read", b"@hash"),
            _native("HSET", b"@write", b"@hash"),
            _native("GEOADD", b"@write", b"@sortedset", b"@geo"),
            _native("CONFIG", b"@admin"),
        ]
    )
    assert counted_commands(fields(COMMANDS), of) == {
        "hash": CommandCounts(4, pytest.approx(10e-6), 2, 1),  # type: ignore[arg-type]
        "geo": CommandCounts(1, pytest.approx(1e-6)),  # type: ignore[arg-type]
        "other": CommandCounts(2, pytest.approx(10e-6)),  # type: ignore[arg-type]
    }


def test_first_words_that_programs_choose_are_not_shown() -> None:
    assert counted_errors(fields(ERRORS)) == {"ERR": 2, "other": 7}
