"""Clients: a connection is accepted, becomes a client with a session, and has its own connection to
Redis, to which bytes go and from which they come.

Knows sockets, back-pressure and sessions. Does not know what a command means, nor how many
processes there are.
"""
