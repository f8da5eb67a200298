"""ONEXPIRE, DEFER, LEASE, leaderboards, limiters, MAXLEN, and COMMAND."""
