"""An independent model of Redis and of the proxy's commands, to compare the real ones with.

Knows what is promised. Imports nothing of how the proxy does it.
"""
