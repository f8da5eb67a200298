"""Sockets and tasks: the listener, keepalive, TLS, log lines that are counted, not repeated,
and lines about how far work is.

Knows the operating system, asyncio and the settings. Knows no Redis, no command and no client.
"""
