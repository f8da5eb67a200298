"""The benchmark, `python -m tests.bench`: forwarding, beside a direct connection and proxies."""
