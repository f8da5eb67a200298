"""Sockets and tasks: the listener, keepalive, TLS, log lines that are counted instead of repeated,
and progress lines.

Knows the operating system, asyncio and the settings. Knows no Redis, no command and no client.
"""
