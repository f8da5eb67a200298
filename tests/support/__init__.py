"""What the tests share: servers and proxies as processes, clients, and what reads Redis itself."""
