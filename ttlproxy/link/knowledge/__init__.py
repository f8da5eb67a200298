"""A proxy's knowledge of keys: families, which all proxies know, and keys that are due soon."""
