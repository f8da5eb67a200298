"""Clients: each accepted connection gets a session and its own connection to Redis.

Knows sockets, back-pressure and sessions. Does not know what a command means, nor how many
processes there are.
"""
