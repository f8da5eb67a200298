"""The benchmark, `python -m tests.bench`: forwarding, against a direct connection and proxies."""
