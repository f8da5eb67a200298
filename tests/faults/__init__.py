"""Kills, lost connections, failovers, jumping clocks, and what Redis refuses."""
