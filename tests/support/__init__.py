"""What the tests share: servers and proxies as processes, clients, readers of Redis's content."""
