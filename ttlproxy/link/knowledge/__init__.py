"""What a proxy knows of keys: families, which all proxies know, and what needs attention soon."""
