"""What goes beyond deadlines, each feature whole in its own files: ONEXPIRE, DEFER, LEASE,
leaderboards and limiters. No feature imports another."""
