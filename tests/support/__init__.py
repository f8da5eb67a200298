"""What the tests share: servers and proxies as processes, clients, and readers of Redis's
content."""
