"""Sockets and tasks: the listener, keepalive, TLS, and log lines that are counted, not repeated.

Knows the operating system, asyncio and the settings. Knows no Redis, no command and no client.
"""
