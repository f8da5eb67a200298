"""Kills, lost connections, failovers, jumping clocks, and requests that Redis refuses."""
