"""The numbers of workers that a proxy of a test may have."""

import pytest


def alone_or_with(several: int) -> pytest.MarkDecorator:
    """Gives a test `workers`: 1, and in full runs also `several`."""
    counts = [1, pytest.param(several, marks=pytest.mark.slow)]
    return pytest.mark.parametrize("workers", counts)
