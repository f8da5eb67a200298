"""The base of everything else: key names, the registry of managed keys, permissions, expiry
actions, signatures and counters.

Knows how the proxy's state is named and kept in memory. Does no I/O, and knows no clock, log,
setting or command.
"""
