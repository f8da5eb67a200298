"""Bytes between clients and Redis: whole, in order, within limits, over TLS."""
