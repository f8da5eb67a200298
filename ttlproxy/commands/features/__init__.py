"""Features beyond deadlines, each with its own files: ONEXPIRE, DEFER, LEASE, leaderboards and
limiters. No feature imports another."""
