"""Connections to Redis that several clients share, as long as they are in no special state.

A client has a place (`shared_upstream`) on one of a few connections (`shared_connection`, `pool`).
Before its first request that may not go there, it gets a connection of its own, for good unless the
request is part of its handshake (`sharing_client`).
"""
