"""What everything else is built on: key names, the registry of managed keys, permissions, expiry
actions, signatures and counters.

Knows how the proxy's state is named and kept in memory. Does no I/O, and has no clock, no log, no
settings and no commands.
"""
