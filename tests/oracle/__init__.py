"""An independent model of Redis and of the proxy's commands, to compare with the real ones.

Knows what is promised. Imports nothing of the proxy's implementation.
"""
