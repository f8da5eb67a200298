"""Features beyond deadlines, each with its own files: ONEXPIRE, ONWRITE, DEFER, LEASE, leaderboards
and limiters. No feature imports another."""
