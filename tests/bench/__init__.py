"""The benchmark, `python -m tests.bench`: forwarding, compared with a direct connection and
proxies."""
