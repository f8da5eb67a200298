"""What operators use: doctor, pages, metrics, purge, users and rights."""
