"""The link, from one connection to Redis to the next, and what sessions wait for.

A life begins with `server_setup`; in it `heartbeat` looks at Redis each second, and `upkeep` does
what must be fixed. `holds` and `list_waiters` keep sessions waiting.
"""
