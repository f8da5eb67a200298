"""Finds and reaches a server, asks it, and receives what it pushes.

`discovery` and `sentinels` find the address, and `reachability` says whether it can be reached;
`connections` makes connections of redis-py, and `pipeline` asks through them; `pushes` has the
connections on which Redis sends unasked. `known_server` says which server it is, `failures` why it
cannot be used and what it refuses. Knows nothing of managed keys.
"""
