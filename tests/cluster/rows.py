"""The rows of tests/semantics/test_command_cases.py, for a Cluster."""

from __future__ import annotations

import pytest

from tests.semantics.test_command_cases import ROWS

# A quick run has those of hashes: scripts of the other types are made of the same pieces.
EACH_ROW = [
    pytest.param(row, id=f"{row[0]}: {row[2].split('->')[0].strip()}", marks=marks)
    for row in ROWS
    for marks in [[] if row[0] == "hash" else [pytest.mark.slow]]
]
